//! Cached range map (which bucket holds which keys), and the time for which a process may use it.

use std::sync::Arc;

use crate::buckets::directory::Directory;
use crate::buckets::limits::Protocol;
use crate::buckets::rules::Rule;

/// Readings of the two clocks of a process at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Clock {
    /// Milliseconds since the machine was started. This clock is never set, and counts while the machine is suspended.
    pub boot_ms: u64,
    /// Milliseconds since 1970. This clock may be set, in either direction.
    pub wall_ms: i64,
}

impl Clock {
    /// Returns the milliseconds since `before`. The clock that shows more time decides, because one
    /// clock may have stopped, and the other may have been set.
    pub(crate) fn since(self, before: Self, protocol: Protocol) -> u64 {
        let by_boot = self.boot_ms.saturating_sub(before.boot_ms);
        let by_wall = self.wall_ms.saturating_sub(before.wall_ms);
        let by_wall = u64::try_from(by_wall).unwrap_or(0);
        if protocol.rules.keeps(Rule::LargerOfClocks) {
            by_boot.max(by_wall)
        } else {
            by_boot
        }
    }
}

/// Range map (which bucket holds which keys) as a process read and cached it. All tasks of the
/// process share the range map until it expires.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DirectoryCopy {
    directory: Arc<Directory>,
    from: Clock,
    protocol: Protocol,
}

impl DirectoryCopy {
    /// Creates a cached range map. `asked` is the time before the request to the store, and `heard`
    /// the time after the response. The lifetime counts from `asked`, because the content may be as
    /// old as the request.
    pub fn new(directory: Arc<Directory>, asked: Clock, heard: Clock, protocol: Protocol) -> Self {
        let from = if protocol.rules.keeps(Rule::LifeFromBeforeReading) {
            asked
        } else {
            heard
        };
        Self {
            directory,
            from,
            protocol,
        }
    }

    /// Returns the cached range map (which bucket holds which keys), even if it has expired.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Returns whether the cached range map has not expired at `now`, so that the process may use
    /// it.
    pub fn lives(&self, now: Clock) -> bool {
        now.since(self.from, self.protocol) < self.directory.life_ms
    }
}
