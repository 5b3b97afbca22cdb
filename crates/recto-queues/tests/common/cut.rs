//! Store that pauses its process at one call: before the call, or after the call is executed.

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use recto_model::{Slice, Table};
use recto_store::wrapper::{SnapshotWrapper, StoreWrapper};
use recto_store::{
    Atomicity, Cas, CasOutcome, PartitionWrite, ReadOptions, RowsRead, Snapshot, Store, StoreError,
    TableOutcome, WriteOptions, WriteOutcome,
};

use super::point::{Call, Does, POINTS};

/// Word that the process prints when it pauses.
pub(crate) const REACHED: &str = "reached";

/// Step at which a process is killed or paused: the last call of `path`, after the earlier calls of
/// `path` in their order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Point {
    pub(crate) name: &'static str,
    pub(crate) does: Does,
    path: &'static [Call],
}

pub(crate) const fn point(name: &'static str, does: Does, path: &'static [Call]) -> Point {
    Point { name, does, path }
}

impl Point {
    pub(crate) fn of(name: &str) -> Self {
        *POINTS.iter().find(|point| point.name == name).unwrap()
    }

    /// Returns the number of calls of `path` that have been made after this call. `passed` is the number
    /// before it.
    pub(crate) fn passes(&self, passed: usize, call: Call) -> usize {
        let is_next = self.path.get(passed) == Some(&call);
        passed + usize::from(is_next)
    }

    /// Returns whether all calls of `path` have been made.
    pub(crate) fn is_reached(&self, passed: usize) -> bool {
        passed == self.path.len()
    }
}

/// Whether the process pauses before or after the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Before,
    /// After the call, before the process receives its response.
    After,
}

#[derive(Clone)]
pub(crate) struct CutOff {
    inner: Arc<dyn Store>,
    shared: Arc<Shared>,
}

struct CutOffSnapshot {
    inner: Arc<dyn Snapshot>,
    shared: Arc<Shared>,
}

struct Shared {
    side: Side,
    armed: Mutex<Option<(Point, usize)>>,
    has_stood_still: AtomicBool,
}

impl CutOff {
    pub(crate) fn new(inner: Arc<dyn Store>, side: Side) -> Arc<Self> {
        let shared = Shared {
            side,
            armed: Mutex::default(),
            has_stood_still: AtomicBool::new(false),
        };
        Arc::new(Self {
            inner,
            shared: Arc::new(shared),
        })
    }

    /// Sets the point at which the process pauses next.
    pub(crate) fn arm(&self, point: Point) {
        *self.shared.armed.lock().unwrap() = Some((point, 0));
    }

    /// Returns whether the process paused at its point and then continued.
    pub(crate) fn is_past(&self) -> bool {
        self.shared.has_stood_still.load(Ordering::Relaxed)
    }
}

impl Shared {
    /// Returns whether the process reaches its point by this call. Returns true only once.
    fn comes_there(&self, call: Call) -> bool {
        let mut armed = self.armed.lock().unwrap();
        let Some((point, passed)) = armed.as_mut() else {
            return false;
        };
        *passed = point.passes(*passed, call);
        let is_there = point.is_reached(*passed);
        if is_there {
            *armed = None;
        }
        is_there
    }

    async fn call<T>(&self, call: Call, called: impl Future<Output = T>) -> T {
        if !self.comes_there(call) {
            return called.await;
        }
        if self.side == Side::Before {
            self.stand_still();
            return called.await;
        }
        let response = called.await;
        self.stand_still();
        response
    }

    /// Pauses the whole process, which has one thread, until it receives a line or is killed.
    fn stand_still(&self) {
        println!("{REACHED}");
        std::io::stdout().flush().unwrap();
        wait_for_word();
        self.has_stood_still.store(true, Ordering::Relaxed);
    }
}

/// Waits for a line from the parent process. Exits if the parent process has ended.
pub(crate) fn wait_for_word() {
    if std::io::stdin().read_line(&mut String::new()).unwrap() == 0 {
        std::process::exit(1);
    }
}

#[async_trait]
impl StoreWrapper for CutOff {
    fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }

    async fn on_writes(
        &self,
        writes: Vec<PartitionWrite>,
        atomicity: Atomicity,
        options: WriteOptions,
    ) -> Result<WriteOutcome, StoreError> {
        let call = writes.first().map_or(Call::Other, Call::write);
        let written = self.inner.write_many(writes, atomicity, options);
        self.shared.call(call, written).await
    }

    async fn on_cas(&self, cas: Cas, options: WriteOptions) -> Result<CasOutcome, StoreError> {
        let call = Call::cas(&cas);
        self.shared.call(call, self.inner.cas(cas, options)).await
    }

    async fn on_empty_table(&self, table: &Table) -> Result<TableOutcome, StoreError> {
        let emptied = self.inner.empty_table(table);
        self.shared.call(Call::Empty, emptied).await
    }

    fn on_snapshot(&self, snapshot: Arc<dyn Snapshot>) -> Arc<dyn Snapshot> {
        Arc::new(CutOffSnapshot {
            inner: snapshot,
            shared: Arc::clone(&self.shared),
        })
    }
}

#[async_trait]
impl SnapshotWrapper for CutOffSnapshot {
    fn inner(&self) -> &Arc<dyn Snapshot> {
        &self.inner
    }

    async fn on_slice(&self, slice: &Slice, options: &ReadOptions) -> Result<RowsRead, StoreError> {
        let read = self.inner.slice(slice, options);
        self.shared.call(Call::read(slice), read).await
    }
}
