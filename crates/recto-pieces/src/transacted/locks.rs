//! Locks of partitions: writes share the lock of a partition, and a split holds it exclusively.
//!
//! Partitions share locks by their hash, which limits the number of locks. A task that needs several locks takes all of
//! them at once, in a fixed order.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use recto_model::Environment;
use recto_protocol::buckets::sampling::hash;
use tokio::sync::{Mutex, OwnedMutexGuard, OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};
use tokio::time::timeout;

use crate::error::{PiecesError, PiecesErrorKind, Result};
use crate::limits::MAX_LOCKS;
use crate::place::{Deadline, Place};

/// Partition whose last split has an unknown outcome: it may be done, now or later.
pub(super) type Torn = Option<Arc<Place>>;

/// All locks of a process.
pub(super) struct Locks {
    stripes: Vec<Stripe>,
}

struct Stripe {
    lock: Arc<RwLock<Torn>>,
    /// True if a write under the shared lock may still be applied later.
    is_in_doubt: Arc<AtomicBool>,
    /// Lock of splits, which a splitting task holds from one transaction to the next.
    cutting: Arc<Mutex<()>>,
}

/// Shared locks of some partitions.
pub(super) struct Shared {
    held: Vec<(OwnedRwLockReadGuard<Torn>, Arc<AtomicBool>)>,
    is_settled: bool,
}

/// Exclusive locks of all partitions.
pub(crate) struct All {
    _held: Vec<OwnedRwLockWriteGuard<Torn>>,
}

/// Exclusive lock of a partition.
pub(super) struct Alone {
    pub(super) torn: OwnedRwLockWriteGuard<Torn>,
    is_in_doubt: Arc<AtomicBool>,
}

impl Default for Locks {
    fn default() -> Self {
        let stripe = || Stripe {
            lock: Arc::default(),
            is_in_doubt: Arc::default(),
            cutting: Arc::default(),
        };
        Self {
            stripes: std::iter::repeat_with(stripe).take(MAX_LOCKS).collect(),
        }
    }
}

impl Locks {
    fn index(place: &Place) -> usize {
        let (table, partition) = &*place.id;
        let both = hash(partition).wrapping_add(hash(table.as_bytes()));
        (both % MAX_LOCKS as u64) as usize
    }

    /// Returns the shared locks of these partitions. A caller that already holds some locks must not request more,
    /// because another task may wait for the held locks. If the last split of a partition has an unknown outcome,
    /// returns this partition instead.
    pub(super) async fn share(
        &self,
        places: &[Arc<Place>],
        environment: &Environment,
        deadline: Deadline,
    ) -> Result<std::result::Result<Shared, Arc<Place>>> {
        let indexes: BTreeSet<_> = places.iter().map(|place| Self::index(place)).collect();
        let mut held = Vec::with_capacity(indexes.len());
        for index in indexes {
            let stripe = &self.stripes[index];
            let lock = Arc::clone(&stripe.lock);
            let guard = match Arc::clone(&lock).try_read_owned() {
                Ok(guard) => guard,
                Err(_) => timeout(deadline.left(environment), lock.read_owned())
                    .await
                    .map_err(|_| out_of_time())?,
            };
            if let Some(torn) = &*guard {
                return Ok(Err(Arc::clone(torn)));
            }
            held.push((guard, Arc::clone(&stripe.is_in_doubt)));
        }
        let is_settled = false;
        Ok(Ok(Shared { held, is_settled }))
    }

    /// Returns the exclusive lock of a partition.
    pub(super) async fn alone(
        &self,
        place: &Place,
        environment: &Environment,
        deadline: Deadline,
    ) -> Result<Alone> {
        let stripe = &self.stripes[Self::index(place)];
        let waiting = Arc::clone(&stripe.lock).write_owned();
        let torn = timeout(deadline.left(environment), waiting).await;
        Ok(Alone {
            torn: torn.map_err(|_| out_of_time())?,
            is_in_doubt: Arc::clone(&stripe.is_in_doubt),
        })
    }

    /// Returns the exclusive locks of all partitions. Takes them in the same order as other tasks do.
    pub(super) async fn all(&self, environment: &Environment, deadline: Deadline) -> Result<All> {
        let mut held = Vec::with_capacity(self.stripes.len());
        for stripe in &self.stripes {
            let waiting = Arc::clone(&stripe.lock).write_owned();
            let lock = timeout(deadline.left(environment), waiting).await;
            held.push(lock.map_err(|_| out_of_time())?);
        }
        Ok(All { _held: held })
    }

    /// Returns the lock of splits of a partition.
    pub(super) async fn cut(&self, place: &Place) -> OwnedMutexGuard<()> {
        Arc::clone(&self.stripes[Self::index(place)].cutting)
            .lock_owned()
            .await
    }
}

impl Shared {
    /// Records that the writes under these locks are decided: they are done, or will never be done.
    pub(super) fn settle(&mut self) {
        self.is_settled = true;
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if !self.is_settled {
            for (_, is_in_doubt) in &self.held {
                is_in_doubt.store(true, Ordering::Release);
            }
        }
    }
}

impl Alone {
    /// Returns whether an earlier request may still be applied later.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.torn.is_some() || self.is_in_doubt.load(Ordering::Acquire)
    }

    /// Records that all earlier requests are decided.
    pub(super) fn settle(&mut self) {
        *self.torn = None;
        self.is_in_doubt.store(false, Ordering::Release);
    }
}

fn out_of_time() -> PiecesError {
    let message =
        "other requests wrote to the partition, or split it, until the time limit: nothing was done";
    PiecesError::new(PiecesErrorKind::Timeout, message)
}
