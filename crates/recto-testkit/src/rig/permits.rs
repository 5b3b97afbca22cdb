//! Limit on the number of Cassandra nodes that all test processes of a user run at the same time.
//! Without it, concurrent tests could use up the memory.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::RigError;
use super::block::lock_dir;

/// Memory of the machine per permit, in GiB. A node uses 0.8 GiB. The rest is for test programs and
/// compilers.
const GIB_PER_NODE: usize = 3;
/// Minimum number of permits, which allows a cluster of three nodes on any machine.
const MIN_PERMITS: usize = 3;
/// Maximum number of permits. With more nodes, two processors would be so busy that tests miss
/// their deadlines.
const MAX_PERMITS: usize = 7;
/// Maximum time to wait until other tests return permits.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(1_200);
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Permits to run the nodes of one cluster, returned when this value is dropped or the process
/// ends.
#[derive(Debug)]
pub(super) struct Permits {
    _locks: Vec<File>,
}

impl Permits {
    /// Waits until `count` more nodes may run, and reserves a permit for each.
    ///
    /// Callers wait in turn. Otherwise, clusters of one node could take all permits for which a
    /// cluster of three nodes waits.
    pub(super) fn acquire(count: usize) -> Result<Self, RigError> {
        acquire_in(&lock_dir()?, count, permits_of(memory_gib()), ACQUIRE_TIMEOUT)
    }
}

fn acquire_in(dir: &Path, count: usize, permits: usize, timeout: Duration) -> Result<Permits, RigError> {
    let deadline = Instant::now() + timeout;
    let too_long = || RigError::TookTooLong {
        what: format!("waiting until {count} more nodes may run beside those of other tests"),
        limit: timeout,
    };
    let turn = dir.join("permits.lock");
    let _turn = loop {
        match try_lock(&turn)? {
            Some(lock) => break lock,
            None if Instant::now() >= deadline => return Err(too_long()),
            None => sleep(RETRY_INTERVAL),
        }
    };
    let mut locks = Vec::with_capacity(count);
    loop {
        for number in 0..permits {
            if locks.len() < count {
                locks.extend(try_lock(&permit_path(dir, number))?);
            }
        }
        if locks.len() == count {
            return Ok(Permits { _locks: locks });
        }
        if Instant::now() >= deadline {
            return Err(too_long());
        }
        sleep(RETRY_INTERVAL);
    }
}

fn permit_path(dir: &Path, number: usize) -> PathBuf {
    dir.join(format!("permit-{number}.lock"))
}

/// Locks a file; `None` if it is locked already.
fn try_lock(path: &Path) -> Result<Option<File>, RigError> {
    let file = File::create(path).map_err(RigError::io("make", path))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(source)) => Err(RigError::io("lock", path)(source)),
    }
}

fn permits_of(memory_gib: usize) -> usize {
    (memory_gib / GIB_PER_NODE).clamp(MIN_PERMITS, MAX_PERMITS)
}

/// Returns the memory of the machine in GiB; 0 if the kernel does not report it.
fn memory_gib() -> usize {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|total| total.trim().strip_suffix(" kB")?.trim().parse::<usize>().ok());
    kib.unwrap_or(0) >> 20
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const SHORT: Duration = Duration::from_millis(50);

    #[test]
    fn permits_follow_the_memory() {
        assert_eq!([0, 8, 12, 24, 256].map(permits_of), [3, 3, 4, 7, 7]);
        assert!(memory_gib() > 0);
    }

    #[test]
    fn permits_are_limited_and_returned() {
        let dir = tempfile::tempdir().unwrap();
        let three = acquire_in(dir.path(), 3, 4, SHORT).unwrap();
        let _one = acquire_in(dir.path(), 1, 4, SHORT).unwrap();
        let refused = acquire_in(dir.path(), 1, 4, SHORT).unwrap_err();
        assert!(refused.to_string().contains("1 more nodes"), "{refused}");
        drop(three);
        acquire_in(dir.path(), 3, 4, SHORT).unwrap();
    }
}
