//! An open store.

mod reaching;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use recto_model::Environment;
use recto_model::record::Record;
use recto_model::schema::Schema;
use recto_pieces::{BucketMetrics, BucketedStore};
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
use crate::queues::Queues;
use crate::reach::Reach;
use crate::record::DynamicRecord;
use crate::runtime;
use crate::session::RecoveryPass;
use crate::session::{
    Applied, ApplyOptions, CursorKey, Progress, SchemaPlan, StoreProgress, UnavailableCollection,
    VerifyReport, VerifyRequest, ViewProgress, ViewStatus,
};
use crate::shared::Shared;
use crate::stamps::Stamps;
use crate::writer::WriterMetrics;
use crate::writes::Changed;
use crate::{build, verify};

/// How long a store that cannot be opened yet is left before it is tried again.
const OPEN_INTERVAL: Duration = Duration::from_millis(250);
/// Maximum time that a check of the clock waits for the store.
const CLOCK_TIME: Duration = Duration::from_secs(5);

/// An open store with its collections. Cheap to clone; closed when the last clone, collection,
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

/// What open stores share that their collections need not know.
struct Own {
    /// Collections that were asked for by name: each is made once, and follows the schema.
    handles: Mutex<HashMap<String, Arc<Handle>>>,
    /// Held while a schema is applied. Who uses the same open store applies before or after: where stores are
    /// of one process, nobody's tables are changed for a schema that is not recorded in the end.
    applying: tokio::sync::Mutex<()>,
    /// What the store's tables were last looked at as.
    tables_version: tokio::sync::Mutex<Option<String>>,
    operations: Operations,
    /// The keyspaces of which tables are attached.
    reach: Reach,
    options: OpenOptions,
    /// Opened by whoever asks first.
    queues: tokio::sync::OnceCell<Queues>,
    /// State of the local clock when it was checked last.
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
    /// Opens the store at an address: the path of a folder, or text: a folder, or
    /// `cassandra://host[:port]/keyspace`. It must be there: [`open_with`](Self::open_with) makes one.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if it is not there, [`ErrorKind::Unavailable`] if it cannot be
    /// reached or another process holds it, [`ErrorKind::Corrupt`] if it is damaged or of a newer
    /// release, [`ErrorKind::Unsupported`] outside a Tokio runtime with timers.
    pub async fn open<A>(address: A) -> Result<Self>
    where
        A: TryInto<StoreAddress>,
        Error: From<A::Error>,
    {
        Self::open_with(address, OpenOptions::default()).await
    }

    /// Opens the store at an address as the options say.
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
    /// As [`open`](Self::open).
    pub async fn open_with<A>(address: A, options: OpenOptions) -> Result<Self>
    where
        A: TryInto<StoreAddress>,
        Error: From<A::Error>,
    {
        let address = address.try_into()?;
        // Boxed: what opening awaits is deep and large, and callers' futures would hold all of it.
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

    /// An open store of the caller's own.
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
        let (store, buckets) = in_buckets(Arc::clone(&attached) as Arc<dyn Store>, &environment, &stamps);
        let catalog = Catalog::new(&store, &environment, options.request_timeout);
        // Where nobody else writes what is held does not grow old.
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
            // Without a schema there is no page and so no cursor: `apply` takes the lasting keys.
            (Recorded::default(), KeyRing::generate(&environment))
        };
        let shared = Shared::new(
            (store, buckets, stamps),
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
            if let Some(buckets) = &recto.shared.buckets {
                buckets.stop_upkeep();
            }
        }
        recto.look_at_tables(true).await?;
        Ok(recto)
    }

    /// Copies this embedded store, which is a backup, to the folder `to`, which then is a store. Returns the bytes of the
    /// copy. A crash leaves no half store at `to`.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`]: there is something at `to` already. [`ErrorKind::Corrupt`]: a row of the backup is
    /// damaged. [`ErrorKind::Unsupported`]: the store is on Cassandra. Nothing is left at `to` then.
    pub async fn restore_to(
        &self,
        to: impl AsRef<Path>,
        progress: Progress<'_, StoreProgress>,
    ) -> Result<u64> {
        open::restore(self.operations(), to.as_ref(), progress).await
    }

    /// Tells other processes on this machine the address at which this process serves its embedded store: the error of a
    /// process that cannot open the store names the address. Does nothing on Cassandra.
    ///
    /// # Errors
    /// The store's lock file cannot be written.
    pub fn announce(&self, url: &str) -> Result<()> {
        open::announce(self.operations(), url)
    }

    /// The keyspaces of which tables are attached.
    pub(crate) fn reach(&self) -> &Reach {
        &self.own.reach
    }

    /// Looks whether the tables of the schema are there and are what it says, if any was changed since they
    /// were last looked at; `again`: in any case.
    async fn look_at_tables(&self, again: bool) -> Result<()> {
        self.reach_attached().await?;
        let mut looked = self.own.tables_version.lock().await;
        // Asked before: what changes meanwhile is looked at next time.
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

    /// The collections that are refused because their tables are gone or are not what the schema says, as
    /// another program left them: an error each, with what to do. Tables are looked at when a store is
    /// opened, when a schema is applied, and by [`refresh`](Self::refresh).
    pub fn unavailable_collections(&self) -> Vec<Error> {
        let held = self.shared.held();
        held.problems.values().map(tables::Problem::error).collect()
    }

    /// The same, for who lists collections.
    pub(crate) fn refused(&self) -> Vec<UnavailableCollection> {
        let held = self.shared.held();
        let each = held.problems.iter();
        each.map(|(collection, problem)| problem.refused(collection))
            .collect()
    }

    /// Closes the store, for every clone, collection and query of this handle: what was acknowledged is on
    /// disk, writes that were asked for are done first, and another process can take an embedded store. Later
    /// calls are errors of kind [`ErrorKind::Unavailable`]. A second call does nothing.
    ///
    /// Without it the store is closed when the last of them is dropped.
    ///
    /// # Errors
    /// The store could not be closed in time: another call closes it when what still uses it has ended.
    pub async fn close(&self) -> Result<()> {
        self.own.reach.close();
        let time = self.shared.write_options().timeout;
        if let Some(queues) = self.own.queues.get() {
            // If there is no time for it, who waits elsewhere finds what was sent when it looks again.
            let _ = tokio::time::timeout(time, queues.has_told()).await;
        }
        self.shared.writer.close(time).await;
        Ok(self.shared.store.close().await?)
    }

    /// What the store is and where.
    pub fn describe(&self) -> String {
        self.shared.store.describe()
    }

    /// The store itself, for what this crate does not do.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.shared.store
    }

    /// What was done for buckets in this process since the store was opened; none where none are kept here.
    pub(crate) fn bucket_metrics(&self) -> Option<BucketMetrics> {
        let schema = self.schema();
        let mut arranged = schema.collections.iter().flat_map(|one| one.sort_orders());
        let buckets = self.shared.buckets.as_ref()?;
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

    /// The schema that the store holds.
    pub fn schema(&self) -> Arc<Schema> {
        self.recorded().schema
    }

    /// Counts the schemas the store has held; 0 before the first.
    pub fn generation(&self) -> u64 {
        self.shared.held().recorded.generation
    }

    /// The keys cursors are sealed with, as secret bytes for [`OpenOptions::cursor_keys`].
    pub fn export_cursor_keys(&self) -> Vec<u8> {
        self.shared.keys.ring().to_bytes().to_vec()
    }

    /// What may be told of the keys that cursors are sealed with: those that the store holds now, in
    /// the order they were added; or those from configuration.
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

    /// Adds a new key to those that cursors are sealed with. It encrypts from now on; of the keys before it,
    /// the newest `earlier` still open the cursors they sealed (at most [`MAX_EARLIER_CURSOR_KEYS`];
    /// [`DEFAULT_EARLIER_CURSOR_KEYS`](crate::DEFAULT_EARLIER_CURSOR_KEYS) suits most). Cursors of older keys are refused: with
    /// 0, every cursor there is. Returns the keys there are then.
    ///
    /// The keys are replaced in the store by compare-and-set. Another open handle learns of the new key
    /// when it [looks](Self::refresh), as servers do every second, or when it is given a cursor sealed with
    /// it, which costs it one read of the catalog. Until then it goes on with the keys it knows: it encrypts
    /// with the previous one, so `earlier` should be 1 at least where several processes answer, and it
    /// opens cursors of keys that were dropped here. After a key leaked, drop all (`earlier` 0) and have
    /// every other handle look.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] if the keys come from configuration, or `earlier` is too large;
    /// [`ErrorKind::NotFound`] before the first schema is applied; [`ErrorKind::OutcomeUnknown`] if it
    /// is not known whether the keys were replaced.
    pub async fn rotate_cursor_keys(&self, earlier: u32) -> Result<Vec<CursorKey>> {
        if self.shared.keys.are_given {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "the cursor keys come from configuration, not from the store",
            )
            .with_hint("change the keys there, or open the store without them"));
        }
        if earlier > MAX_EARLIER_CURSOR_KEYS {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!(
                    "{earlier} earlier cursor keys cannot be kept; at most {MAX_EARLIER_CURSOR_KEYS} can"
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

    /// Looks at the store for a schema that another process applied and for cursor keys that it rotated,
    /// and takes both over, for every collection, query and session of this open store. Whether another process applied
    /// one.
    ///
    /// Also finds tables that another program dropped or changed: their collections are
    /// [refused](Self::unavailable_collections) from then on, with those of handles opened before.
    ///
    /// Three small reads, of what is known in this data centre (and one of each keyspace of which tables are attached): cheap enough
    /// for every second, and an answer to whether the store is there. A keyspace that is away refuses its collections, and is no error.
    ///
    /// # Errors
    /// The store cannot be read, or was changed by a newer release; nothing is taken over then.
    pub async fn refresh(&self) -> Result<bool> {
        let catalog = self.catalog();
        let generation = self.generation();
        if generation == 0 && !catalog.exists().await? {
            return Ok(false);
        }
        let asked_nanos = self.shared.environment.continuous_nanos();
        let recorded = catalog.known_schema_other_than(generation).await?;
        if generation == 0 && recorded.is_some() {
            // Those of before the first schema were made up here.
            let keys = keys(&catalog, &self.shared.environment, &self.own.options).await?;
            self.shared.keys.replace(keys);
        } else if generation > 0
            && !self.shared.keys.are_given
            && let Some(keys) = catalog.known_cursor_keys().await?
        {
            self.shared.keys.replace_if_newer(keys);
        }
        // What this process itself is applying is not another's.
        let is_applying = self.own.applying.try_lock().is_err();
        let is_newer = recorded.is_some_and(|recorded| self.shared.holding.hold_newer(recorded));
        self.shared.holding.was_asked(asked_nanos);
        self.look_at_tables(is_newer).await?;
        Ok(is_newer && !is_applying)
    }

    /// What applying `schema` would do.
    ///
    /// # Errors
    /// The store's tables cannot be looked at.
    pub async fn plan(&self, schema: &Schema) -> Result<SchemaPlan> {
        self.plan_with(schema, &ApplyOptions::default()).await
    }

    /// What applying `schema` with these options would do.
    ///
    /// # Errors
    /// As [`plan`](Self::plan).
    pub async fn plan_with(&self, schema: &Schema, options: &ApplyOptions) -> Result<SchemaPlan> {
        self.check_reached(schema)?;
        self.own.operations.check_features(schema).await?;
        let recorded = self.recorded();
        Ok(self.intent(&recorded, schema, options).await?.plan)
    }

    /// Plans the application of `schema`. Records are read if some may not fit views that would be added.
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
        Ok(intent)
    }

    /// Refuses a schema that cannot be applied, as applying it would.
    #[cfg_attr(not(feature = "cassandra"), allow(dead_code))]
    pub(crate) async fn check_applies(&self, schema: &Schema) -> Result<()> {
        match apply::refusal_of(&self.plan(schema).await?, schema) {
            Some(refusal) => Err(refusal),
            None => Ok(()),
        }
    }

    /// Makes the store hold `schema`: its tables first, then the record of it.
    ///
    /// What the store has and the schema does not name (collections, fields, types) stays as it is:
    /// programs that know less of a store and programs that know more may each apply what they know.
    /// Where a new field stands in the schema says nothing: a store keeps the fields it has in their
    /// order and puts new ones after them.
    ///
    /// Any handle applies, while others read and write. Collections, queries and sessions of this open store follow at
    /// once, those of other processes when they [look](Self::refresh). What was begun before leaves new fields alone: a
    /// change in a batch, a [`DynamicRecord`] that was made before.
    ///
    /// # Errors
    /// [`ErrorKind::SchemaMismatch`] for a change that data in the store stands against, such as a view that records do
    /// not fit, unless [that is allowed](ApplyOptions::allow_misfits),
    /// [`ErrorKind::Unsupported`] for parts of the schema that this release cannot do; nothing is
    /// changed then.
    pub async fn apply(&self, schema: &Schema) -> Result<Applied> {
        self.apply_with(schema, &ApplyOptions::default()).await
    }

    /// Makes the store hold `schema`, as [`apply`](Self::apply) does, with these options.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub async fn apply_with(&self, schema: &Schema, options: &ApplyOptions) -> Result<Applied> {
        self.apply_telling(schema, options, &|_| {}).await
    }

    /// The same, and tells how far views are that are filled from records. Boxed: what it awaits is deep.
    pub(crate) async fn apply_telling(
        &self,
        schema: &Schema,
        options: &ApplyOptions,
        progress: Progress<'_, ViewProgress>,
    ) -> Result<Applied> {
        let _one_at_a_time = self.own.applying.lock().await;
        self.own.operations.check_features(schema).await?;
        let mut first = self.generation() == 0;
        let catalog = self.catalog();
        if catalog.exists().await? {
            // Another process may have applied a schema since this one looked.
            let recorded = catalog.schema().await?;
            if first && recorded.generation > 0 {
                // Its cursor keys with it, whatever becomes of this schema.
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
            // Changes that were begun before are at their end.
            drop(self.shared.alone().await);
        }
        // Who asks for what is removed is told so by now, and not that a table is gone.
        apply::drop_tables(store, &catalog, after.dropped).await?;
        if let Some(change) = after.queues {
            // Not with the schema: whoever is cut off between finds what is left of it by the next plan.
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

    /// The views of the store, in the order of their collections.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn views(&self) -> Result<Vec<ViewStatus>> {
        build::statuses(&self.shared).await
    }

    /// Compares views with the records that they are of: which entries are missing, which are left over, which differ.
    /// With `repair` they are repaired, while others write. Only views that are ready are compared.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]: there is no such collection. The store cannot be read or written, or holds a damaged row.
    pub async fn verify(
        &self,
        request: &VerifyRequest,
        progress: Progress<'_, ViewProgress>,
    ) -> Result<VerifyReport> {
        Box::pin(verify::verify(&self.shared, request, progress)).await
    }

    /// Takes over the keys that last, in place of those made up while the store had no schema.
    async fn take_cursor_keys(&self, catalog: &Catalog<'_>) -> Result<()> {
        let lasting = keys(catalog, &self.shared.environment, &self.own.options).await?;
        self.shared.keys.replace(lasting);
        Ok(())
    }

    /// Takes a schema for the one that the store holds, in this process only, whose tables and rows the caller sees
    /// to: for tests that fill the tables of sort orders themselves.
    #[doc(hidden)]
    pub fn assume(&self, schema: Schema) {
        let assumed = Recorded {
            generation: self.generation(),
            views: Arc::new(self.recorded().views.of_all_ready(&schema)),
            schema: Arc::new(schema),
        };
        self.shared.holding.hold_schema(assumed, |_| true);
    }

    /// The collection whose records are `T`s.
    ///
    /// `T` may know fewer fields than the store, such as a program of before a field was added: it reads
    /// those it knows, and what it puts leaves the others of a record alone.
    ///
    /// # Errors
    /// The store has no such collection, or declares it otherwise than `T` does: each difference is
    /// named.
    pub fn collection<T: Record>(&self) -> Result<Collection<T>> {
        Ok(Collection::typed(Handle::typed::<T>(&self.shared)?))
    }

    /// A collection by its name, with records known at run time.
    ///
    /// # Errors
    /// The store has no such collection.
    pub fn dynamic(&self, name: &str) -> Result<Collection<DynamicRecord>> {
        self.handle(name).map(Collection::dynamic)
    }

    /// Looks after what processes left that died while they changed records: their changes are wholly made, or not at all, and
    /// views show them. Every process that writes does so by itself; this is for when none runs, and to see it done.
    ///
    /// It looks every few seconds, tells each time what it saw, and goes on for as long as it is told to. That a process is
    /// dead is known when it did not renew its registration for half a minute. Where the store has transactions there is
    /// nothing to be done.
    ///
    /// # Errors
    /// The store cannot be read or written. What is done is done; another call goes on.
    pub async fn recover(&self, told: impl FnMut(&RecoveryPass) -> bool) -> Result<RecoveryPass> {
        self.recover_bearing(told, Err).await
    }

    /// The same, which goes on when a look failed, if `bears` gives no error back.
    pub(crate) async fn recover_bearing(
        &self,
        told: impl FnMut(&RecoveryPass) -> bool,
        bears: impl FnMut(Error) -> Result<()>,
    ) -> Result<RecoveryPass> {
        self.shared.writer.recover(told, bears).await
    }

    /// Has this process look after what others leave that die, as long as the store is open, though it may not write itself:
    /// for servers, which call it now and then. Costs nothing where that is so already, and where nothing is ever left.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub async fn recover_in_background(&self) -> Result<()> {
        self.shared.writer.watch().await
    }

    /// What this process did as one of those who write to a store without transactions; all zero elsewhere.
    pub fn writer_metrics(&self) -> WriterMetrics {
        self.shared.writer.metrics()
    }

    /// The queues of this store; their tables are made when they are asked for first. An embedded store that is open
    /// [read-only](OpenOptions::read_only) is looked at: without tables it has no queues, and nobody looks after those it has.
    ///
    /// # Errors
    /// A table cannot be made, or what is stored is damaged or of a newer
    /// release.
    pub async fn queues(&self) -> Result<Queues> {
        let opened = self.own.queues.get_or_try_init(async || {
            if self.is_looked_at() {
                Queues::look(&self.shared).await
            } else {
                Queues::open(&self.shared).await
            }
        });
        Ok(opened.await?.clone())
    }

    /// Whether nothing may be made here.
    fn is_looked_at(&self) -> bool {
        let options = &self.own.options;
        options.without_upkeep || (options.read_only && !self.shared.store.limits().remote)
    }

    /// The same for who only looks at them: where there are none, nothing is made.
    pub(crate) async fn queues_as_they_are(&self) -> Result<Queues> {
        match self.queues_there().await? {
            Some(queues) => Ok(queues),
            None => Queues::look(&self.shared).await,
        }
    }

    /// The same, if the store has any; makes nothing.
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

    /// What all queues go by, if anybody has said so, or made a queue; nothing is made for that.
    pub(crate) async fn stored_queue_options(&self) -> Result<Option<StoreOptions>> {
        catalog::queues::stored_options(&self.catalog()).await
    }

    pub(crate) fn now_micros(&self) -> i64 {
        self.shared.environment.now_micros()
    }

    /// Checks the local clock, and returns its state. A process deletes nothing by a clock that is too far ahead: of the
    /// clocks of nodes on Cassandra, of the time that an embedded store recorded before this process opened it.
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
            // If the queues cannot be listed, no data is known that the clock could delete.
            self.shortest_retention().await.unwrap_or_default()
        };
        let status = guard.status(shortest);
        *self.own.clock.lock().unwrap_or_else(PoisonError::into_inner) = status;
        status
    }

    /// Returns the state of the local clock when it was [checked](Self::check_clock) last. Asks the store nothing.
    pub fn clock_status(&self) -> ClockStatus {
        *self.own.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Confirms that the local clock is right, in an embedded store: queues expire messages by it from now on. Returns the
    /// time that it shows, in microseconds since 1970.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] on Cassandra, where the nodes' clocks are the evidence. The store cannot be written.
    pub async fn confirm_clock(&self) -> Result<i64> {
        let Some(guard) = self.shared.store.clock_guard() else {
            return Ok(self.now_micros());
        };
        let confirmed = guard.confirm(self.shared.write_options().timeout).await?;
        self.check_clock().await;
        Ok(confirmed)
    }

    /// Returns the shortest retention of all queues. Creates no tables of queues.
    async fn shortest_retention(&self) -> Result<Option<Duration>> {
        match self.own.queues.get() {
            Some(queues) => queues.shortest_retention().await,
            None => Queues::look(&self.shared).await?.shortest_retention().await,
        }
    }

    /// What the store has seen of the nodes it asks, since it was opened: which are up, requests sent
    /// again, timeouts, tombstones. Costs no request; nothing on the embedded store.
    pub fn store_metrics(&self) -> StoreMetrics {
        self.shared.store.metrics()
    }

    /// Makes changes, of any collections, each for itself: how each of them ended, in their order. Those of one record are
    /// made in that order, the others side by side: an embedded store commits many at once.
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
    /// There are more than [`MAX_BATCH_CHANGES`](crate::MAX_BATCH_CHANGES); nothing is written.
    pub async fn change_each(
        &self,
        changes: impl IntoIterator<Item = impl Into<Change>>,
    ) -> Result<Vec<Result<Changed>>> {
        change_each(changes.into_iter().map(Into::into).collect()).await
    }

    /// An empty batch of writes.
    pub fn batch(&self) -> WriteBatch {
        WriteBatch::new(&self.shared)
    }

    /// A collection by its name, as the store holds it now.
    pub(crate) fn core(&self, name: &str) -> Result<Arc<CollectionCore>> {
        self.handle(name)?.now()
    }

    /// A collection by its name, which stays as the store holds it now.
    pub(crate) fn pinned(&self, name: &str) -> Result<Collection<DynamicRecord>> {
        let pinned = Handle::pinned(self.core(name)?);
        Ok(Collection::dynamic(Arc::new(pinned)))
    }

    /// A collection by its name, which is there.
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
        // Whoever only reads makes none that last.
        None if options.read_only => {
            let known = catalog.known_cursor_keys().await?;
            Ok(known.unwrap_or_else(|| KeyRing::generate(environment)))
        }
        None => catalog.cursor_keys().await,
        Some(GivenKeys(bytes)) => KeyRing::from_bytes(bytes).map_err(|error| {
            Error::new(
                ErrorKind::InvalidArgument,
                format!("the cursor keys given cannot be read: {error}"),
            )
            .with_hint(error.hint())
        }),
    }
}

/// A store that keeps partitions in buckets where tables ask for it. What it moves gets stamps as all that is written here does.
fn in_buckets(
    store: Arc<dyn Store>,
    environment: &Environment,
    stamps: &Arc<Stamps>,
) -> (Arc<dyn Store>, Option<BucketedStore>) {
    if store.keeps_buckets() {
        return (store, None);
    }
    let stamps = Arc::clone(stamps);
    let next = Arc::new(move || stamps.next());
    let store = BucketedStore::over(store, environment.clone(), next);
    (Arc::new(store.clone()), Some(store))
}
