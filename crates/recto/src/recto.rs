//! An open store: the entry point of this crate.

mod reaching;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use recto_buckets::BucketMetrics;
use recto_model::Environment;
use recto_model::record::Record;
use recto_model::schema::Schema;
use recto_plan::cursor::KeyRing;
use recto_protocol::queues::StoreOptions;
use recto_store::{AttachedStore, ClockStatus, Store, StoreMetrics};

use crate::address::StoreAddress;
use crate::batch::WriteBatch;
use crate::build::Build;
use crate::catalog::apply::{self, Intent};
use crate::catalog::tables::{self, FoundTables};
use crate::catalog::{self, Catalog, Recorded};
use crate::change::{Change, change_each};
use crate::collection::Collection;
use crate::core::CollectionCore;
use crate::error::{Error, ErrorKind, Result};
use crate::handle::Handle;
use crate::keys::MAX_EARLIER_CURSOR_KEYS;
use crate::misfits::Checked;
use crate::open::{self, Opened, Operations};
use crate::options::{GivenKeys, OpenOptions};
use crate::partition_store::PartitionStore;
use crate::queues::Queues;
use crate::reach::Reach;
use crate::record::DynamicRecord;
use crate::retention;
use crate::runtime;
use crate::session::{
    Applied, ApplyOptions, CursorKey, Progress, SchemaPlan, StoreProgress, UnavailableCollection,
    VerifyReport, VerifyRequest, ViewProgress, ViewStatus,
};
use crate::session::{ClusterStatus, CommitLog, RecoveryPass};
use crate::shared::Shared;
use crate::stamps::Stamps;
use crate::writer::WriterMetrics;
use crate::writes::Changed;
use crate::{build, verify};

/// Interval between attempts to open a store that is not available yet.
const OPEN_INTERVAL: Duration = Duration::from_millis(250);
const CLOCK_TIME: Duration = Duration::from_secs(5);

/// An open store with its collections. A clone is cheap. The store is closed when the last clone, collection,
/// query and page of it is dropped.
///
/// ```
/// # use recto::{OpenOptions, Record, Recto};
/// # #[derive(Debug, Clone, PartialEq, Record)]
/// # #[record(collection = "events", key = ["day", "id"], partition = ["day"], order = ["id"], writes = "append")]
/// # struct Event { day: String, id: i64, kind: String }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> recto::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let store = Recto::open_with(folder.path().join("store"), OpenOptions::new().create()).await?;
/// # store.apply(&recto::schema_of([Event::collection()])).await?;
/// # let events = store.collection::<Event>()?;
/// # let event = |id| Event { day: "mon".into(), id, kind: if id % 9 == 0 { "alarm" } else { "tick" }.into() };
/// # events.put_all(&(0..60).map(event).collect::<Vec<_>>()).await?;
/// // The folder can be a Cassandra keyspace as well: "cassandra://host/keyspace".
/// assert_eq!(store.generation(), 1);
/// assert_eq!(store.schema().collections[0].name, "events");
/// let events = store.collection::<Event>()?;
/// assert!(events.get(("mon", 1)).await?.is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Recto {
    shared: Arc<Shared>,
    own: Arc<Own>,
}

/// State that all clones of [`Recto`] share, except the state that collections also need.
struct Own {
    /// Handles of collections that were opened by name. Each handle is created once, and follows changes of
    /// the schema.
    handles: Mutex<HashMap<String, Arc<Handle>>>,
    /// Lock that serializes applications of schemas by users of this open store. Otherwise an embedded store
    /// could have its tables changed for a schema that is not recorded in the end.
    applying: tokio::sync::Mutex<()>,
    /// Version of the store's tables at the last check of the tables against the schema; `None` before the
    /// first check.
    tables_version: tokio::sync::Mutex<Option<String>>,
    operations: Operations,
    reach: Reach,
    options: OpenOptions,
    /// Queues of the store, opened at first use.
    queues: tokio::sync::OnceCell<Queues>,
    /// State of the local clock at the last check.
    clock: Mutex<ClockStatus>,
}

impl std::fmt::Debug for Recto {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recto")
            .field("store", &self.describe())
            .finish_non_exhaustive()
    }
}

impl Recto {
    /// Opens the store at an address. The address is the path of a folder, or a text: a folder, or
    /// `cassandra://host[:port]/keyspace`. The store must exist; [`open_with`](Self::open_with) can create
    /// it.
    ///
    /// # Errors
    /// - [`ErrorKind::NotFound`]: the store does not exist.
    /// - [`ErrorKind::Unavailable`]: the store is unreachable, or another process holds it.
    /// - [`ErrorKind::Corrupt`]: the store is damaged, or a newer release wrote it.
    /// - [`ErrorKind::Unsupported`]: the caller does not run in a Tokio runtime with timers.
    pub async fn open<A>(address: A) -> Result<Self>
    where
        A: TryInto<StoreAddress>,
        Error: From<A::Error>,
    {
        Self::open_with(address, OpenOptions::default()).await
    }

    /// Opens the store at an address with the given options, which can also create the store.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> recto::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// use recto::{OpenOptions, Recto};
    ///
    /// let store = Recto::open_with(folder.path().join("shop"), OpenOptions::new().create()).await?;
    /// assert_eq!(store.generation(), 0);
    /// store.close().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`open`](Self::open).
    pub async fn open_with<A>(address: A, options: OpenOptions) -> Result<Self>
    where
        A: TryInto<StoreAddress>,
        Error: From<A::Error>,
    {
        let address = address.try_into()?;
        // Box the future, because it is deep and large, and the futures of callers would contain all of it.
        Box::pin(Self::open_at(&address, options)).await
    }

    pub(crate) async fn open_at(address: &StoreAddress, mut options: OpenOptions) -> Result<Self> {
        runtime::check()?;
        if let StoreAddress::Cassandra(address) = address {
            options.request_timeout = address.request_timeout.or(options.request_timeout);
        }
        let environment = options.environment.clone().unwrap_or_else(Environment::system);
        let began = environment.monotonic_nanos();
        loop {
            let opened = Self::open_now(address, &environment, options.clone()).await;
            let waited = Duration::from_nanos(environment.monotonic_nanos().saturating_sub(began));
            match opened {
                Err(error)
                    if matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout)
                        && waited < options.wait =>
                {
                    tokio::time::sleep(OPEN_INTERVAL.min(options.wait.saturating_sub(waited))).await;
                }
                ended => return ended,
            }
        }
    }

    async fn open_now(
        address: &StoreAddress,
        environment: &Environment,
        options: OpenOptions,
    ) -> Result<Self> {
        let opened = open::open(address, environment, &options).await?;
        Self::start(opened, environment.clone(), options).await
    }

    /// Opens a store over the caller's own implementation of [`Store`].
    pub async fn with_store(store: Arc<dyn Store>, options: OpenOptions) -> Result<Self> {
        runtime::check()?;
        let environment = options.environment.clone().unwrap_or_else(Environment::system);
        Self::start(
            Opened {
                store,
                operations: Operations::None,
            },
            environment,
            options,
        )
        .await
    }

    async fn start(opened: Opened, environment: Environment, options: OpenOptions) -> Result<Self> {
        let stamps = Arc::new(Stamps::after(opened.store.newest_stamp(), environment.clone()));
        let attached = Arc::new(AttachedStore::over(opened.store));
        let store = Arc::clone(&attached) as Arc<dyn Store>;
        let partitions = PartitionStore::over(&store, &environment, &stamps).await?;
        let store = partitions.as_ref().map_or(store, PartitionStore::store);
        let catalog = Catalog::new(&store, &environment, options.request_timeout);
        // Use time 0 for a local store. No other process writes to a local store, so the cached schema never
        // becomes outdated.
        let is_remote = store.limits().remote;
        let asked_nanos = if is_remote {
            environment.continuous_nanos()
        } else {
            0
        };
        let (recorded, keys) = if catalog.exists().await? {
            let recorded = catalog.known_schema().await?;
            (recorded, keys(&catalog, &environment, &options).await?)
        } else {
            // Without a schema there are no cursors, so temporary keys are enough. `apply` loads
            // the permanent keys.
            (Recorded::default(), KeyRing::generate(&environment))
        };
        let shared = Shared::new(
            (store, partitions, stamps),
            environment,
            keys,
            (recorded, asked_nanos),
            &options,
        );
        let recto = Self {
            shared: Arc::new(shared),
            own: Arc::new(Own {
                handles: Mutex::default(),
                applying: tokio::sync::Mutex::default(),
                tables_version: tokio::sync::Mutex::default(),
                operations: opened.operations,
                reach: Reach::new(attached),
                options,
                queues: tokio::sync::OnceCell::new(),
                clock: Mutex::default(),
            }),
        };
        if recto.own.options.without_upkeep {
            recto.shared.writer.leave_stale();
            if let Some(partitions) = &recto.shared.partitions {
                partitions.stop_upkeep();
            }
        }
        recto.look_at_tables(true).await?;
        Ok(recto)
    }

    /// Copies this embedded store, which is a backup, to the folder `to`. The copy is a normal store.
    /// Returns the size of the copy in bytes. A crash leaves no partial store at `to`.
    ///
    /// # Errors
    /// After any of these errors, nothing is left at `to`.
    ///
    /// - [`ErrorKind::Unavailable`]: there is already something at `to`.
    /// - [`ErrorKind::Corrupt`]: a row of the backup is damaged.
    /// - [`ErrorKind::Unsupported`]: the store is on Cassandra.
    pub async fn restore_to(
        &self,
        to: impl AsRef<Path>,
        progress: Progress<'_, StoreProgress>,
    ) -> Result<u64> {
        open::restore(self.operations(), to.as_ref(), progress).await
    }

    /// Announces to other processes on this machine the address at which this process serves its embedded
    /// store. If another process cannot open the store, its error names the address. Does nothing on
    /// Cassandra.
    ///
    /// # Errors
    /// The store's lock file cannot be written.
    pub fn announce(&self, url: &str) -> Result<()> {
        open::announce(self.operations(), url)
    }

    /// Returns the connections to the keyspaces with attached tables.
    pub(crate) fn reach(&self) -> &Reach {
        &self.own.reach
    }

    /// Checks whether the tables of the schema exist and match the schema. Skips the check if no table has
    /// changed since the last check, unless `again` is true.
    async fn look_at_tables(&self, again: bool) -> Result<()> {
        self.reach_attached().await?;
        let mut looked = self.own.tables_version.lock().await;
        // Read the version before the check, so that the next check sees changes that happen during the
        // current check.
        let version = self.shared.store.tables_version().await?;
        let attached = self.own.reach.versions().await;
        let version = match (version, attached) {
            (own, None) => own,
            (own, Some(attached)) => Some(own.unwrap_or_default() + &attached),
        };
        if again || version != *looked {
            let problems = tables::problems(&self.shared.store, &self.recorded(), &self.own.reach).await?;
            self.shared.holding.hold_problems(problems);
            *looked = version;
        }
        self.reach_beside();
        Ok(())
    }

    /// Returns the errors of the unavailable collections, one error with a hint for each. A collection is
    /// unavailable if another program dropped its tables or changed them so that they no longer match the
    /// schema. Tables are checked when a store is opened, when a schema is applied, and by
    /// [`refresh`](Self::refresh).
    pub fn unavailable_collections(&self) -> Vec<Error> {
        let held = self.shared.held();
        held.problems.values().map(tables::Problem::error).collect()
    }

    /// Returns the unavailable collections with the reasons, for lists of collections.
    pub(crate) fn refused(&self) -> Vec<UnavailableCollection> {
        let held = self.shared.held();
        let each = held.problems.iter();
        each.map(|(collection, problem)| problem.refused(collection))
            .collect()
    }

    /// Closes the store for every clone, collection and query of this handle. Waits for writes that were
    /// requested earlier, so that acknowledged writes are on disk. Another process can then open an embedded
    /// store. Later calls fail with [`ErrorKind::Unavailable`]. A second call does nothing.
    ///
    /// Without a call of `close`, the store is closed when the last clone, collection, query and page is
    /// dropped.
    ///
    /// # Errors
    /// The store could not be closed in time. A second call of `close` closes the store after the last
    /// operation has ended.
    pub async fn close(&self) -> Result<()> {
        self.own.reach.close();
        let time = self.shared.write_options().timeout;
        if let Some(queues) = self.own.queues.get() {
            // Ignore a timeout, because receivers in other processes find the sent messages
            // when they poll again.
            let _ = tokio::time::timeout(time, queues.has_told()).await;
        }
        self.shared.writer.close(time).await;
        Ok(self.shared.store.close().await?)
    }

    /// Returns the kind and the address of the store.
    pub fn describe(&self) -> String {
        self.shared.store.describe()
    }

    /// Returns the store itself, for operations that this crate does not offer.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.shared.store
    }

    /// Returns counters of the work that this process has done on buckets since the store was opened. Returns
    /// `None` if no collection has buckets, or this process maintains none.
    pub(crate) fn bucket_metrics(&self) -> Option<BucketMetrics> {
        let schema = self.schema();
        let mut arranged = schema.collections.iter().flat_map(|one| one.sort_orders());
        let buckets = self.shared.partitions.as_ref()?.buckets()?;
        arranged
            .any(|one| one.bucket().is_some())
            .then(|| buckets.bucket_metrics())
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn catalog(&self) -> Catalog<'_> {
        Catalog::new(
            &self.shared.store,
            &self.shared.environment,
            self.own.options.request_timeout,
        )
    }

    pub(crate) fn recorded(&self) -> Recorded {
        self.shared.held().recorded.clone()
    }

    /// Returns the schema of the store, as this process last read it.
    pub fn schema(&self) -> Arc<Schema> {
        self.recorded().schema
    }

    /// Returns the number of schemas that were applied to the store so far; 0 for a store without a schema.
    pub fn generation(&self) -> u64 {
        self.shared.held().recorded.generation
    }

    /// Returns the keys that encrypt cursors, as secret bytes for [`OpenOptions::cursor_keys`].
    pub fn export_cursor_keys(&self) -> Vec<u8> {
        self.shared.keys.ring().to_bytes().to_vec()
    }

    /// Returns the public information about the keys that encrypt cursors, in the order in which the keys
    /// were added. The keys come from the configuration or, if it has none, are read from the store.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn cursor_keys(&self) -> Result<Vec<CursorKey>> {
        if !self.shared.keys.are_given
            && self.generation() > 0
            && let Some(keys) = self.catalog().decided_cursor_keys().await?
        {
            self.shared.keys.replace(keys);
        }
        Ok(self.describe_keys(&self.shared.keys.ring()))
    }

    /// Adds a new key that encrypts cursors from now on. Returns all keys that the store then has.
    ///
    /// The newest `earlier` keys before the new one still open the cursors that they encrypted. `earlier`
    /// is at most [`MAX_EARLIER_CURSOR_KEYS`].
    /// [`DEFAULT_EARLIER_CURSOR_KEYS`](crate::DEFAULT_EARLIER_CURSOR_KEYS) suits most stores. Cursors of
    /// older keys are rejected. If `earlier` is 0, every existing cursor is rejected.
    ///
    /// The keys in the store are replaced by compare-and-set. Another open handle learns of the new key in
    /// one of two ways:
    ///
    /// - when it [refreshes](Self::refresh), as servers do every second
    /// - when it receives a cursor that the new key encrypted, at the cost of one read of the catalog
    ///
    /// Until then, the other handle continues with the keys that it knows. It encrypts with the previous key,
    /// and opens cursors of keys that this call removed. If several processes serve pages, `earlier` should
    /// therefore be at least 1. After a key has leaked, drop all keys (`earlier` 0) and refresh every other
    /// handle.
    ///
    /// # Errors
    /// - [`ErrorKind::InvalidArgument`]: the keys come from configuration, or `earlier` is too large.
    /// - [`ErrorKind::NotFound`]: no schema was applied yet.
    /// - [`ErrorKind::OutcomeUnknown`]: it is not known whether the keys were replaced.
    pub async fn rotate_cursor_keys(&self, earlier: u32) -> Result<Vec<CursorKey>> {
        if self.shared.keys.are_given {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "the cursor keys are configured, and not stored in the store",
            )
            .with_hint("change the configured keys, or open the store without them"));
        }
        if earlier > MAX_EARLIER_CURSOR_KEYS {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!(
                    "{earlier} earlier cursor keys are too many; at most {MAX_EARLIER_CURSOR_KEYS} can be \
                     kept"
                ),
            ));
        }
        if self.generation() == 0 {
            return Err(catalog::no_keys());
        }
        let keys = self.catalog().rotate_cursor_keys(earlier as usize).await?;
        let described = self.describe_keys(&keys);
        self.shared.keys.replace(keys);
        Ok(described)
    }

    fn describe_keys(&self, keys: &KeyRing) -> Vec<CursorKey> {
        let now_seconds = self.shared.environment.now_seconds();
        let described = keys.describe().map(|key| CursorKey {
            id: key.id,
            encrypts: key.active,
            created_at_seconds: key.created_at_seconds,
            age_seconds: key
                .created_at_seconds
                .map(|made| now_seconds.saturating_sub(made)),
        });
        described.collect()
    }

    /// Reads from the store whether another process applied a schema or rotated the cursor keys. Every
    /// collection, query and session of this open store adopts the new schema and keys. Returns whether
    /// another process applied a schema.
    ///
    /// The call also finds tables that another program dropped or changed. The collections of such tables are
    /// [unavailable](Self::unavailable_collections) from then on, also through handles that were opened
    /// before.
    ///
    /// A call makes three small reads in the local data center, and one read of each keyspace with attached
    /// tables. It is cheap enough for every second, and shows whether the store is reachable. If an attached
    /// keyspace is unreachable, its collections are unavailable, but the call does not fail.
    ///
    /// # Errors
    /// The store cannot be read, or a newer release changed it. This open store then adopts nothing.
    pub async fn refresh(&self) -> Result<bool> {
        let catalog = self.catalog();
        let generation = self.generation();
        if generation == 0 && !catalog.exists().await? {
            return Ok(false);
        }
        let asked_nanos = self.shared.environment.continuous_nanos();
        let recorded = catalog.known_schema_other_than(generation).await?;
        if generation == 0 && recorded.is_some() {
            // Before the first schema, this process generated its own cursor keys. They are not in the store,
            // so replace them by the keys of the store.
            let keys = keys(&catalog, &self.shared.environment, &self.own.options).await?;
            self.shared.keys.replace(keys);
        } else if generation > 0
            && !self.shared.keys.are_given
            && let Some(keys) = catalog.known_cursor_keys().await?
        {
            self.shared.keys.replace_if_newer(keys);
        }
        // A schema that this process itself is applying does not count as another process's schema.
        let is_applying = self.own.applying.try_lock().is_err();
        let is_newer = recorded.is_some_and(|recorded| self.shared.holding.hold_newer(recorded));
        self.shared.holding.was_asked(asked_nanos);
        self.look_at_tables(is_newer).await?;
        Ok(is_newer && !is_applying)
    }

    /// Returns the effect of applying `schema`, without applying it.
    ///
    /// # Errors
    /// The store's tables cannot be examined.
    pub async fn plan(&self, schema: &Schema) -> Result<SchemaPlan> {
        self.plan_with(schema, &ApplyOptions::default()).await
    }

    /// Returns the effect of applying `schema` with the given options, without applying it.
    ///
    /// # Errors
    /// The errors of [`plan`](Self::plan).
    pub async fn plan_with(&self, schema: &Schema, options: &ApplyOptions) -> Result<SchemaPlan> {
        self.check_reached(schema)?;
        self.own.operations.check_needs(schema).await?;
        let recorded = self.recorded();
        let mut plan = self.intent(&recorded, schema, options).await?.plan;
        let there = self.own.operations.count_tables().await?;
        plan.notes = open::table_notes(there, &plan.statements);
        Ok(plan)
    }

    /// Plans the application of `schema`. Reads the records of collections to which the plan adds views that the
    /// records may not fit, or whose retention time becomes shorter.
    async fn intent(&self, recorded: &Recorded, schema: &Schema, options: &ApplyOptions) -> Result<Intent> {
        let found = FoundTables::look(&self.catalog(), recorded, schema, options).await?;
        let show = |change: &_| self.own.operations.show(change);
        let mut intent = Intent::new(recorded, &found, schema, options, show);
        let mut misfits = Vec::new();
        for added in intent.added(recorded, &found) {
            let checked = Checked::from(added);
            let found = checked.find(&self.shared, options.rows_per_second).await?;
            misfits.extend(found.into_values());
        }
        intent.add_misfits(misfits, options);
        for keep in intent.shorter_keeps(recorded, &found) {
            let line = retention::describe(&keep, options.rows_per_second, &self.shared).await?;
            intent.plan.changes.push(line);
        }
        Ok(intent)
    }

    /// Returns the error that applying `schema` would return, without applying it.
    #[cfg_attr(not(feature = "cassandra"), allow(dead_code))]
    pub(crate) async fn check_applies(&self, schema: &Schema) -> Result<()> {
        match apply::refusal_of(&self.plan(schema).await?, schema) {
            Some(refusal) => Err(refusal),
            None => Ok(()),
        }
    }

    /// Applies `schema` to the store: changes its tables first, then records the schema.
    ///
    /// Collections, fields and types that the store has and that `schema` does not name stay unchanged. So an
    /// old and a new version of a program can each apply the parts that they know. The position of a new
    /// field in the schema has no meaning: a store keeps its fields in their order and appends new fields.
    ///
    /// Any handle can apply a schema while others read and write. Collections, queries and sessions of this
    /// open store adopt the schema at once. Other processes adopt it when they [refresh](Self::refresh).
    /// Changes that already wait in a batch, and existing [`DynamicRecord`]s, leave new fields unset.
    ///
    /// # Errors
    /// Nothing is changed if one of these errors occurs.
    ///
    /// - [`ErrorKind::SchemaMismatch`]: data in the store conflicts with the change. For example, records do
    ///   not fit a new view and [`allow_misfits`](ApplyOptions::allow_misfits) is not set.
    /// - [`ErrorKind::Unsupported`]: this release does not support a part of the schema.
    pub async fn apply(&self, schema: &Schema) -> Result<Applied> {
        self.apply_with(schema, &ApplyOptions::default()).await
    }

    /// Applies `schema` to the store as [`apply`](Self::apply) does, with the given options.
    ///
    /// # Errors
    /// The errors of [`apply`](Self::apply).
    pub async fn apply_with(&self, schema: &Schema, options: &ApplyOptions) -> Result<Applied> {
        self.apply_telling(schema, options, &|_| {}).await
    }

    /// Applies a schema, and reports the progress of views that are filled from records.
    pub(crate) async fn apply_telling(
        &self,
        schema: &Schema,
        options: &ApplyOptions,
        progress: Progress<'_, ViewProgress>,
    ) -> Result<Applied> {
        let _one_at_a_time = self.own.applying.lock().await;
        self.own.operations.check_needs(schema).await?;
        let mut first = self.generation() == 0;
        let catalog = self.catalog();
        if catalog.exists().await? {
            // Another process may have applied a schema since this process last read the
            // catalog, so read it again.
            let recorded = catalog.schema().await?;
            if first && recorded.generation > 0 {
                // Load the cursor keys of the recorded schema now, because the application of the new schema
                // may fail.
                self.take_cursor_keys(&catalog).await?;
                first = false;
            }
            self.shared.holding.hold_newer(recorded);
        }
        self.check_reached(schema)?;
        let store = &self.shared.store;
        let recorded = self.recorded();
        let intent = self.intent(&recorded, schema, options).await?;
        let (applied, after) = apply::apply(store, &catalog, &recorded, schema, intent).await?;
        if first {
            self.take_cursor_keys(&catalog).await?;
        }
        self.shared.holding.hold_newer(catalog.schema().await?);
        if !after.dropped.is_empty() {
            // Before the tables are dropped, wait until changes that began earlier have completed.
            drop(self.shared.alone().await);
        }
        // Drop the tables only now: requests to a dropped collection already fail with an error
        // about the collection, not about a missing table.
        apply::drop_tables(store, &catalog, after.dropped).await?;
        if let Some(change) = after.queues {
            // The queue settings are not recorded together with the schema. If the process stops in
            // between, the next plan finds the missing changes.
            self.queues().await?.configure(change).await?;
        }
        self.look_at_tables(true).await?;
        let build = Build {
            shared: &self.shared,
            options,
            progress,
        };
        Box::pin(build.run()).await?;
        self.look_at_tables(true).await?;
        Ok(Applied {
            generation: self.generation(),
            ..applied
        })
    }

    /// Returns the views of the store, in the order of their collections.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn views(&self) -> Result<Vec<ViewStatus>> {
        build::statuses(&self.shared).await
    }

    /// Compares views with their records and returns the missing, superfluous and different entries. With
    /// `repair`, corrects these entries while others write. Compares only views that are ready.
    ///
    /// # Errors
    /// - [`ErrorKind::NotFound`]: the collection does not exist.
    /// - The store cannot be read or written, or a row is damaged.
    pub async fn verify(
        &self,
        request: &VerifyRequest,
        progress: Progress<'_, ViewProgress>,
    ) -> Result<VerifyReport> {
        Box::pin(verify::verify(&self.shared, request, progress)).await
    }

    /// Replaces the temporary cursor keys with the permanent keys of the store. The temporary keys were
    /// generated while the store had no schema.
    async fn take_cursor_keys(&self, catalog: &Catalog<'_>) -> Result<()> {
        let lasting = keys(catalog, &self.shared.environment, &self.own.options).await?;
        self.shared.keys.replace(lasting);
        Ok(())
    }

    /// Uses `schema` as the schema of the store, in this process only. Tests call this method after they have
    /// created and filled the tables of sort orders themselves.
    #[doc(hidden)]
    pub fn assume(&self, schema: Schema) {
        let assumed = Recorded {
            generation: self.generation(),
            views: Arc::new(self.recorded().views.of_all_ready(&schema)),
            schema: Arc::new(schema),
        };
        self.shared.holding.hold_schema(assumed, |_| true);
    }

    /// Returns the collection whose records have the type `T`.
    ///
    /// `T` may have fewer fields than the collection, for example in a program that is older than a field.
    /// Such a program reads the fields it knows, and its puts leave the other fields of a record unchanged.
    ///
    /// # Errors
    /// The store has no such collection, or declares it differently than `T` does. The error names each
    /// difference.
    pub fn collection<T: Record>(&self) -> Result<Collection<T>> {
        Ok(Collection::typed(Handle::typed::<T>(&self.shared)?))
    }

    /// Returns a collection by its name, with records whose fields are known only at run time.
    ///
    /// # Errors
    /// The store has no such collection.
    pub fn dynamic(&self, name: &str) -> Result<Collection<DynamicRecord>> {
        self.handle(name).map(Collection::dynamic)
    }

    /// Completes the work of processes that died while they changed records. Each of their changes is then
    /// applied whole or not at all, and views show the result. Every process that writes recovers dead
    /// processes by itself. Call this method if no process writes, or to observe the recovery.
    ///
    /// Every few seconds, the method checks for dead processes and calls `told` with its findings. It
    /// continues for as long as `told` returns true. A process counts as dead if it has not renewed its
    /// registration for half a minute. Does nothing on a store that has transactions.
    ///
    /// # Errors
    /// The store cannot be read or written. Completed work stays; another call continues.
    pub async fn recover(&self, told: impl FnMut(&RecoveryPass) -> bool) -> Result<RecoveryPass> {
        self.recover_bearing(told, Err).await
    }

    /// Recovers like [`recover`](Self::recover), for callers that tolerate errors. After a failed check,
    /// calls `bears` with the error, and continues unless `bears` returns an error.
    pub(crate) async fn recover_bearing(
        &self,
        told: impl FnMut(&RecoveryPass) -> bool,
        bears: impl FnMut(Error) -> Result<()>,
    ) -> Result<RecoveryPass> {
        self.shared.writer.recover(told, bears).await
    }

    /// Makes this process recover the work of dead processes for as long as the store is open, even if it
    /// writes nothing itself. Servers call this method from time to time. A call costs nothing if recovery
    /// already runs, or if the store never needs recovery.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub async fn recover_in_background(&self) -> Result<()> {
        self.shared.writer.watch().await
    }

    /// Returns the metrics of this process as a writer to a store without transactions. On other stores, all
    /// metrics are zero.
    pub fn writer_metrics(&self) -> WriterMetrics {
        self.shared.writer.metrics()
    }

    /// Returns the queues of this store. Creates their tables at the first call. On an embedded store that is
    /// open [read-only](OpenOptions::read_only), creates nothing: without tables the store has no queues, and
    /// this process does not maintain existing queues.
    ///
    /// # Errors
    /// A table cannot be created, the cluster would keep a snapshot of each emptied table, or stored data is damaged
    /// or was written by a newer release.
    pub async fn queues(&self) -> Result<Queues> {
        let opened = self.own.queues.get_or_try_init(async || {
            if self.is_looked_at() {
                Queues::look(&self.shared).await
            } else if let Some(queues) = Queues::open_there(&self.shared).await? {
                Ok(queues)
            } else {
                // Check this before the first table is created.
                self.own.operations.check_queues().await?;
                Queues::open(&self.shared).await
            }
        });
        Ok(opened.await?.clone())
    }

    /// Returns whether this handle must not create tables of queues, because it leaves maintenance to others
    /// or is read-only.
    fn is_looked_at(&self) -> bool {
        let options = &self.own.options;
        options.without_upkeep || (options.read_only && !self.shared.store.limits().remote)
    }

    /// Returns the queues for a caller that only inspects them. Creates no tables.
    pub(crate) async fn queues_as_they_are(&self) -> Result<Queues> {
        match self.queues_there().await? {
            Some(queues) => Ok(queues),
            None => Queues::look(&self.shared).await,
        }
    }

    /// Returns the queues, or `None` if the store has no tables of queues. Creates nothing.
    pub(crate) async fn queues_there(&self) -> Result<Option<Queues>> {
        let opened = self.own.queues.get_or_try_init(async || {
            let there = if self.is_looked_at() {
                Queues::look_there(&self.shared).await
            } else {
                Queues::open_there(&self.shared).await
            };
            there.map_err(Some)?.ok_or(None)
        });
        match opened.await {
            Ok(queues) => Ok(Some(queues.clone())),
            Err(None) => Ok(None),
            Err(Some(error)) => Err(error),
        }
    }

    /// Returns the options that apply to all queues; `None` if they were never set and no queue exists.
    /// Creates nothing.
    pub(crate) async fn stored_queue_options(&self) -> Result<Option<StoreOptions>> {
        catalog::queues::stored_options(&self.catalog()).await
    }

    pub(crate) fn now_micros(&self) -> i64 {
        self.shared.environment.now_micros()
    }

    /// Checks the local clock and returns its state. A process deletes no data by a clock that is too far
    /// ahead. On Cassandra, the clock is compared with the nodes' clocks. An embedded store compares the
    /// clock with the time that it recorded before this process opened it.
    ///
    /// On Cassandra, clocks are compared at most every 30 seconds, which takes two small requests.
    pub async fn check_clock(&self) -> ClockStatus {
        let Some(guard) = self.shared.store.clock_guard() else {
            return ClockStatus::default();
        };
        guard.compare(CLOCK_TIME).await;
        let shortest = if self.shared.store.limits().remote {
            None
        } else {
            // If the queues cannot be listed, report no shortest retention: it is unknown whether
            // the clock endangers any data.
            self.shortest_retention().await.unwrap_or_default()
        };
        let status = guard.status(shortest);
        *self.own.clock.lock().unwrap_or_else(PoisonError::into_inner) = status;
        status
    }

    /// Returns the state of the local clock at the last [check](Self::check_clock), without a request.
    pub fn clock_status(&self) -> ClockStatus {
        *self.own.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Confirms that the local clock is right, in an embedded store. Queues then expire messages, and
    /// collections delete old records (`keep`), by this clock. Returns the time that the clock shows,
    /// in microseconds since 1970.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] on Cassandra, where the nodes' clocks are the evidence. The store
    /// cannot be written.
    pub async fn confirm_clock(&self) -> Result<i64> {
        let Some(guard) = self.shared.store.clock_guard() else {
            return Ok(self.now_micros());
        };
        let confirmed = guard.confirm(self.shared.write_options().timeout).await?;
        self.check_clock().await;
        Ok(confirmed)
    }

    /// Returns the shortest retention time of all queues, collections and views; `None` if nothing expires.
    /// Creates no tables of queues.
    async fn shortest_retention(&self) -> Result<Option<Duration>> {
        let of_queues = match self.own.queues.get() {
            Some(queues) => queues.shortest_retention().await?,
            None => Queues::look(&self.shared).await?.shortest_retention().await?,
        };
        let schema = self.schema();
        let sort_orders = schema.collections.iter().flat_map(|one| one.sort_orders());
        let of_records = sort_orders
            .filter_map(|one| one.bucket()?.keep)
            .map(|keep| Duration::from_millis(keep.longest_ms().unsigned_abs()));
        Ok(of_queues.into_iter().chain(of_records).min())
    }

    /// Returns metrics of the store since it was opened: which nodes are up, and the numbers of resent
    /// requests, timeouts and tombstones. Sends no request. An embedded store reports no metrics.
    pub fn store_metrics(&self) -> StoreMetrics {
        self.shared.store.metrics()
    }

    /// Returns the versions of the nodes of a store on Cassandra, and what the cluster cannot do, as of the last
    /// time when the store was opened or its schema changed. Returns `None` for an embedded store.
    pub fn cluster_status(&self) -> Option<ClusterStatus> {
        self.operations().cluster_status()
    }

    /// Returns the state of the commit log of an embedded store, without reading the store. Returns `None` for
    /// a store on Cassandra.
    pub fn commit_log(&self) -> Option<CommitLog> {
        open::commit_log(self.operations(), self.now_micros())
    }

    /// Makes changes to any collections, each independently of all others. Returns the results in the order
    /// of the changes. Changes to the same record run one after another, other changes concurrently. An
    /// embedded store commits many changes together.
    ///
    /// ```
    /// # use recto::{OpenOptions, Record, Recto};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> recto::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let store = Recto::open_with(folder.path().join("store"), OpenOptions::new().create()).await?;
    /// # #[derive(Debug, Record)]
    /// # #[record(collection = "users", key = ["id"])]
    /// # struct User { id: i64, name: String }
    /// # store.apply(&recto::schema_of([User::collection()])).await?;
    /// # let users = store.collection::<User>()?;
    /// let user = |id| User { id, name: "Ada".into() };
    /// let ended = store.change_each([users.insert(&user(1)), users.insert(&user(2)), users.insert(&user(1))]).await?;
    /// assert!(ended[0].is_ok() && ended[1].is_ok());
    /// assert_eq!(ended[2].as_ref().unwrap_err().kind(), recto::ErrorKind::Exists);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// There are more changes than [`MAX_BATCH_CHANGES`](crate::MAX_BATCH_CHANGES). Nothing is written.
    pub async fn change_each(
        &self,
        changes: impl IntoIterator<Item = impl Into<Change>>,
    ) -> Result<Vec<Result<Changed>>> {
        change_each(changes.into_iter().map(Into::into).collect()).await
    }

    /// Returns an empty batch of writes.
    pub fn batch(&self) -> WriteBatch {
        WriteBatch::new(&self.shared)
    }

    /// Returns the current state of the collection `name`.
    pub(crate) fn core(&self, name: &str) -> Result<Arc<CollectionCore>> {
        self.handle(name)?.now()
    }

    /// Returns the collection `name`, fixed to its current state. The collection does not adopt later
    /// schemas, so that one request sees one definition.
    pub(crate) fn pinned(&self, name: &str) -> Result<Collection<DynamicRecord>> {
        let pinned = Handle::pinned(self.core(name)?);
        Ok(Collection::dynamic(Arc::new(pinned)))
    }

    /// Returns the handle of the collection `name`, if the collection exists.
    pub(crate) fn handle(&self, name: &str) -> Result<Arc<Handle>> {
        let mut handles = self.own.handles.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(handle) = handles.get(name) {
            let is_there = handle.now().map(drop);
            let handle = Arc::clone(handle);
            if is_there.is_err() {
                handles.remove(name);
            }
            return is_there.map(|()| handle);
        }
        let handle = Arc::new(Handle::dynamic(&self.shared, name)?);
        handles.insert(name.to_owned(), Arc::clone(&handle));
        Ok(handle)
    }

    pub(crate) fn operations(&self) -> &Operations {
        &self.own.operations
    }
}

async fn keys(catalog: &Catalog<'_>, environment: &Environment, options: &OpenOptions) -> Result<KeyRing> {
    match &options.cursor_keys {
        // A read-only handle must not create permanent keys, so it generates temporary keys if
        // the store has none.
        None if options.read_only => {
            let known = catalog.known_cursor_keys().await?;
            Ok(known.unwrap_or_else(|| KeyRing::generate(environment)))
        }
        None => catalog.cursor_keys().await,
        Some(GivenKeys(bytes)) => KeyRing::from_bytes(bytes).map_err(|error| {
            Error::new(
                ErrorKind::InvalidArgument,
                format!("the configured cursor keys cannot be read: {error}"),
            )
            .with_hint(error.hint())
        }),
    }
}
