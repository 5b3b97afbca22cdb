//! Whoever applies a schema is killed at each call to the store, before it is done or after; who applies it again goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use async_trait::async_trait;
use recto::schema::Schema;
use recto::store::memory::MemoryStore;
use recto::store::wrapper::StoreWrapper;
use recto::store::{
    Atomicity, Cas, CasOutcome, PartitionWrite, Store, StoreError, TableOutcome, WriteOptions, WriteOutcome,
};
use recto::{ApplyOptions, Environment, OpenOptions, Recto};
use recto_model::Table;
use tokio::sync::Notify;

use crate::common::run;
use crate::common::stores::parse;
use crate::{BASE, VIEWS, assert_all_is_well, fill_each, tables, with_views};

/// More than is filled in at a time.
const RECORDS: i32 = 1_100;
/// More than an apply takes.
const MOST_CALLS: i64 = 400;

/// Does so many changes of the store, and then no more.
struct Killing {
    inner: Arc<dyn Store>,
    left: AtomicI64,
    /// Whether the last of them is done.
    does_last: bool,
    killed: Notify,
}

impl Killing {
    async fn call<T>(&self, call: impl Future<Output = T>) -> T {
        let left = self.left.fetch_sub(1, Ordering::SeqCst);
        if left > 1 {
            return call.await;
        }
        if left == 1 && self.does_last {
            call.await;
        }
        self.killed.notify_one();
        std::future::pending().await
    }
}

#[async_trait]
impl StoreWrapper for Killing {
    fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }

    async fn on_writes(
        &self,
        writes: Vec<PartitionWrite>,
        atomicity: Atomicity,
        options: WriteOptions,
    ) -> Result<WriteOutcome, StoreError> {
        self.call(self.inner.write_many(writes, atomicity, options)).await
    }

    async fn on_cas(&self, cas: Cas, options: WriteOptions) -> Result<CasOutcome, StoreError> {
        self.call(self.inner.cas(cas, options)).await
    }

    async fn on_create_table(&self, table: &Table) -> Result<TableOutcome, StoreError> {
        self.call(self.inner.create_table(table)).await
    }

    async fn on_drop_table(&self, name: &str) -> Result<TableOutcome, StoreError> {
        self.call(self.inner.drop_table(name)).await
    }
}

async fn open(store: &Arc<dyn Store>) -> Recto {
    let options = OpenOptions::new().create();
    Recto::with_store(Arc::clone(store), options).await.unwrap()
}

/// Applies a schema until the store has been asked for so much; whether it came to its end.
async fn apply_for(store: &Arc<dyn Store>, calls: i64, does_last: bool, schema: &Schema) -> bool {
    let killing = Arc::new(Killing {
        inner: Arc::clone(store),
        left: AtomicI64::new(calls + 1),
        does_last,
        killed: Notify::new(),
    });
    let recto = open(&(Arc::clone(&killing) as Arc<dyn Store>)).await;
    let options = ApplyOptions::new().remove("people.ages");
    tokio::select! {
        applied = recto.apply_with(schema, &options) => { applied.unwrap(); true }
        () = killing.killed.notified() => false,
    }
}

#[test]
fn who_adds_changes_and_drops_views_is_killed_at_any_call() {
    let before = with_views();
    // One view is added, one changes, one goes.
    let changed = VIEWS.replace(r#"order = ["age"]"#, r#"order = ["-age"]"#);
    let kept = changed.split("[collection.people.view.ages]").next().unwrap();
    let after = parse(&format!(
        "{BASE}{kept}\n[collection.events.view.by_note]\npartition = [\"note\"]\norder = [\"score\"]\n"
    ));
    run(async {
        let mut ended = 0;
        for calls in 0..MOST_CALLS {
            for does_last in [false, true] {
                let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Environment::system()));
                let recto = open(&store).await;
                recto.apply(&before).await.unwrap();
                fill_each(&recto, RECORDS, RECORDS / 10).await;
                ended += i32::from(apply_for(&store, calls, does_last, &after).await);
                // Meanwhile another process writes, by what is recorded.
                let recto = open(&store).await;
                fill_each(&recto, RECORDS / 10, RECORDS / 5).await;
                let views = recto.views().await.unwrap();
                let has_view = views.iter().any(|view| view.view == "ages");
                let options = if has_view && recto.schema().to_toml().contains("ages") {
                    ApplyOptions::new().remove("people.ages")
                } else {
                    ApplyOptions::new()
                };
                recto.apply_with(&after, &options).await.unwrap();
                let names: Vec<String> = recto
                    .views()
                    .await
                    .unwrap()
                    .into_iter()
                    .map(|view| view.view)
                    .collect();
                assert_eq!(names.len(), 3, "after {calls} calls: {names:?}");
                assert_eq!(
                    tables(&recto).await.len(),
                    5,
                    "after {calls} calls: {:?}",
                    tables(&recto).await
                );
                assert_all_is_well(&recto).await;
            }
            if ended > 0 {
                println!("an apply takes {calls} calls");
                return;
            }
        }
        panic!("an apply takes more than {MOST_CALLS} calls");
    });
}
