//! Queue of requests to the writer, and the writer's thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use recto_store::{StoreError, StoreErrorKind};
use tokio::sync::{Semaphore, mpsc, oneshot};

use crate::error::{closed, file, timeout};
use crate::limits::{MAX_WAITING_BYTES, MAX_WAITING_REQUESTS};
use crate::shared::Shared;
use crate::work::{Exclusive, Reply, Request, Work};
use crate::writer;

/// Minimum time between two attempts to reopen the store because reads fail.
pub const REVIVE_INTERVAL: Duration = Duration::from_secs(1);

/// Unit of the queue's capacity, in bytes. Each permit of the semaphore stands for one unit of requests.
const ROOM_BYTES: usize = 1_024;

/// Sender of requests to the writer of a store. Dropping the queue waits until the writer has executed all
/// requests and made them durable.
pub(crate) struct Queue {
    shared: Arc<Shared>,
    /// Channel to the writer. `None` if the store has no writer.
    requests: Option<mpsc::Sender<Request>>,
    room: Arc<Semaphore>,
    writer: Mutex<Option<JoinHandle<()>>>,
    /// Earliest time at which a failed read may request again that the writer reopens the store, on the
    /// monotonic clock.
    next_revival_nanos: AtomicU64,
}

impl Queue {
    /// Starts the writer, unless the store is open read-only.
    pub(crate) fn start(shared: &Arc<Shared>) -> Result<Self, StoreError> {
        let (sender, receiver) = mpsc::channel(MAX_WAITING_REQUESTS);
        let read_only = shared.options.read_only;
        let writer = if read_only {
            None
        } else {
            let shared = Arc::clone(shared);
            let thread = std::thread::Builder::new().name("recto-writer".to_owned());
            let spawned = thread.spawn(move || writer::run(&shared, receiver));
            Some(spawned.map_err(|error| file("cannot start the writer's thread", error))?)
        };
        Ok(Self {
            shared: Arc::clone(shared),
            requests: (!read_only).then_some(sender),
            room: Arc::new(Semaphore::new(MAX_WAITING_BYTES / ROOM_BYTES)),
            writer: Mutex::new(writer),
            next_revival_nanos: AtomicU64::new(0),
        })
    }

    /// Returns whether the store has a writer.
    pub(crate) fn has_writer(&self) -> bool {
        self.requests.is_some()
    }

    /// Sends work to the writer, and waits for its reply, at most until `timeout_after` has passed.
    pub(crate) async fn ask(
        &self,
        work: Work,
        bytes: usize,
        relaxed: bool,
        timeout_after: Duration,
    ) -> Result<Reply, StoreError> {
        if timeout_after.is_zero() {
            return Err(timeout("a write"));
        }
        self.shared.check_open()?;
        let Some(requests) = &self.requests else {
            return Err(read_only());
        };
        let nanos = u64::try_from(timeout_after.as_nanos()).unwrap_or(u64::MAX);
        let deadline_nanos = self.shared.environment.monotonic_nanos().saturating_add(nanos);
        let units = (bytes / ROOM_BYTES + 1).min(MAX_WAITING_BYTES / ROOM_BYTES) as u32;
        let (reply, answer) = oneshot::channel();
        let queue = async {
            let room = Arc::clone(&self.room).acquire_many_owned(units).await;
            let request = Request {
                work,
                relaxed,
                deadline_nanos,
                reply,
                _room: room.map_err(|_| closed())?,
            };
            requests.send(request).await.map_err(|_| closed())
        };
        let wait = async {
            queue.await?;
            Ok(answer.await)
        };
        match tokio::time::timeout(timeout_after, wait).await {
            Ok(Ok(Ok(reply))) => reply,
            Ok(Ok(Err(_))) => Ok(Reply::Unknown(closed())),
            Ok(Err(error)) => Err(error),
            Err(_) => Ok(Reply::Unknown(timeout("a write"))),
        }
    }

    /// Asks the writer to reopen the store after a failure of the disk, without waiting for the result. Does
    /// nothing if a read has asked for it within the last [`REVIVE_INTERVAL`].
    pub(crate) fn revive(&self) {
        let Some(requests) = &self.requests else { return };
        let now = self.shared.environment.monotonic_nanos();
        let next = self.next_revival_nanos.load(Ordering::Relaxed);
        let after = now.saturating_add(REVIVE_INTERVAL.as_nanos() as u64);
        let exchanged = |next| {
            self.next_revival_nanos
                .compare_exchange(next, after, Ordering::Relaxed, Ordering::Relaxed)
        };
        if now < next || exchanged(next).is_err() {
            return;
        }
        let Ok(room) = Arc::clone(&self.room).try_acquire_owned() else {
            return; // The writes that are waiting open the store again.
        };
        let (reply, _) = oneshot::channel();
        let work: Exclusive = Box::new(Shared::resume);
        let _ = requests.try_send(Request {
            work: Work::Exclusive(work),
            relaxed: false,
            deadline_nanos: u64::MAX,
            reply,
            _room: room,
        });
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // Drop the sender, so that the writer thread ends after it has executed all requests.
        self.requests = None;
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer {
            // Ignore a panic of the writer thread, because it was reported where it happened.
            let _ = writer.join();
        }
    }
}

#[cold]
fn read_only() -> StoreError {
    StoreError::new(StoreErrorKind::Invalid, "the store is open read-only").with_hint("open it for writing")
}
