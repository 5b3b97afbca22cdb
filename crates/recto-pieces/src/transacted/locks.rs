//! Who writes to a partition shares a lock with others who do; who cuts it has it alone.
//!
//! Partitions share locks by their hashes, so that there are not more of them than a few. Whoever takes several takes them in
//! one order, all at once.

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

/// A partition whose last cut may be done, or be done later.
pub(super) type Torn = Option<Arc<Place>>;

/// All locks of a process.
pub(super) struct Locks {
    stripes: Vec<Stripe>,
}

struct Stripe {
    lock: Arc<RwLock<Torn>>,
    /// Whether a write may come later that was made under the shared lock.
    is_in_doubt: Arc<AtomicBool>,
    /// Held by who cuts, from one transaction to the next.
    cutting: Arc<Mutex<()>>,
}

/// The shared locks of some partitions.
pub(super) struct Shared {
    held: Vec<(OwnedRwLockReadGuard<Torn>, Arc<AtomicBool>)>,
    is_settled: bool,
}

/// The locks of all partitions, held alone.
pub(crate) struct All {
    _held: Vec<OwnedRwLockWriteGuard<Torn>>,
}

/// The lock of a partition, held alone.
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

    /// The shared locks of these partitions. Who has some already must not ask for more: somebody may wait for them to be free.
    /// One whose last cut is of unknown outcome is returned instead, if there is one.
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

    /// The lock of a partition, alone.
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

    /// All of them alone, in the order in which others take some.
    pub(super) async fn all(&self, environment: &Environment, deadline: Deadline) -> Result<All> {
        let mut held = Vec::with_capacity(self.stripes.len());
        for stripe in &self.stripes {
            let waiting = Arc::clone(&stripe.lock).write_owned();
            let lock = timeout(deadline.left(environment), waiting).await;
            held.push(lock.map_err(|_| out_of_time())?);
        }
        Ok(All { _held: held })
    }

    /// Nobody else cuts the partition meanwhile.
    pub(super) async fn cut(&self, place: &Place) -> OwnedMutexGuard<()> {
        Arc::clone(&self.stripes[Self::index(place)].cutting)
            .lock_owned()
            .await
    }
}

impl Shared {
    /// What was written under them is done, or will never be.
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
    /// Whether something that was sent before may come later.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.torn.is_some() || self.is_in_doubt.load(Ordering::Acquire)
    }

    /// It came, or never will.
    pub(super) fn settle(&mut self) {
        *self.torn = None;
        self.is_in_doubt.store(false, Ordering::Release);
    }
}

fn out_of_time() -> PiecesError {
    let message =
        "others wrote to the partition, or cut it, for so long that the time was over: nothing was done";
    PiecesError::new(PiecesErrorKind::Timeout, message)
}
