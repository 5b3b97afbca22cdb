//! What every handle on an open store shares.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use recto_model::schema::{Collection, Schema, WriteMode};
use recto_model::{Cells, Environment, RowRef, Value, cell, json};
use recto_plan::cursor::{self, Cursor, KeyRing, OpenedCursor};
use recto_plan::{Arrangement, Plan, Position, Travel};
use recto_store::{ReadOptions, Stamp, Store, WriteOptions};

use crate::catalog::Catalog;
use crate::error::{Error, ErrorKind, Result};
use crate::page_text::FieldNames;
use crate::plan_cache::PlanCache;
use crate::recto::OpenOptions;
use crate::tables::Problem;

/// How soon after one look at the catalog for cursor keys the next may follow, in nanoseconds. Anybody can
/// write a cursor that names an unknown key: however many come, the catalog is read this often at most.
const KEYS_PAUSE_NANOS: u64 = 1_000_000_000;

/// What every handle on one open store shares.
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) environment: Environment,
    /// Changes when the first schema is applied, which makes the lasting keys, and when they rotate.
    keys: RwLock<Arc<KeyRing>>,
    /// Whether the keys come from configuration, so that the catalog has nothing to say on them.
    pub(crate) keys_are_given: bool,
    /// When the catalog was last asked for keys, as the monotonic clock says; held while it is asked.
    keys_asked_nanos: tokio::sync::Mutex<Option<u64>>,
    /// The collections whose tables cannot serve them, as last looked at.
    problems: RwLock<Arc<BTreeMap<String, Problem>>>,
    pub(crate) cursor_lifetime: Option<Duration>,
    request_timeout: Option<Duration>,
    pub(crate) last_stamp: AtomicI64,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("store", &self.store.describe())
            .finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        environment: Environment,
        keys: KeyRing,
        options: &OpenOptions,
    ) -> Self {
        let keys = RwLock::new(Arc::new(keys));
        let last_stamp = store.newest_stamp().map_or(0, |stamp| stamp.0);
        Self {
            store,
            environment,
            keys,
            keys_are_given: options.has_cursor_keys(),
            keys_asked_nanos: tokio::sync::Mutex::new(None),
            problems: RwLock::default(),
            cursor_lifetime: options.cursor_lifetime,
            request_timeout: options.request_timeout,
            last_stamp: AtomicI64::new(last_stamp),
        }
    }

    /// The collections whose tables cannot serve them, as last looked at.
    pub(crate) fn problems(&self) -> Arc<BTreeMap<String, Problem>> {
        Arc::clone(&self.problems.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set_problems(&self, problems: BTreeMap<String, Problem>) {
        *self.problems.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(problems);
    }

    /// Refuses a collection whose table is gone or is not what the schema says.
    pub(crate) fn check_table(&self, collection: &str) -> Result<()> {
        self.problems()
            .get(collection)
            .map_or(Ok(()), |problem| Err(problem.error()))
    }

    /// How to read.
    pub(crate) fn read_options(&self) -> ReadOptions {
        read_options(self.request_timeout)
    }

    /// How to write.
    pub(crate) fn write_options(&self) -> WriteOptions {
        write_options(self.request_timeout)
    }

    /// How to write rows of a load, where nobody waits for the single request, or (not relaxed) how far
    /// it is.
    pub(crate) fn load_options(&self, timeout: Duration, relaxed: bool) -> WriteOptions {
        WriteOptions {
            timeout: self.request_timeout.unwrap_or(timeout),
            relaxed,
            row_by_row: relaxed,
            ..WriteOptions::default()
        }
    }

    /// The keys that cursors are sealed with.
    pub(crate) fn keys(&self) -> Arc<KeyRing> {
        Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Seals with these keys from now on.
    pub(crate) fn use_keys(&self, keys: KeyRing) {
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
    }

    /// Seals with these keys from now on if they are newer: a rotation always adds a key of a higher
    /// number, and what is known here may be newer than what was read.
    pub(crate) fn use_newer_keys(&self, keys: KeyRing) {
        let mut current = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        if keys.active_id() > current.active_id() {
            *current = Arc::new(keys);
        }
    }

    /// Learns of keys that another process made, if `text` is a cursor that names one not known here:
    /// the catalog is read once, and not again before [`KEYS_PAUSE_NANOS`] have passed. A cursor that
    /// is met in between is opened with the keys there are, which refuses it.
    pub(crate) async fn learn_keys(&self, text: &str, timeout: Duration) -> Result<()> {
        let unknown = cursor::key_id(text).filter(|id| !self.keys().has(*id));
        let (Some(unknown), false) = (unknown, self.keys_are_given) else {
            return Ok(());
        };
        // Whoever meets a new key while it is being learned waits for that, instead of asking too.
        let mut asked_nanos = self.keys_asked_nanos.lock().await;
        let now_nanos = self.environment.monotonic_nanos();
        let recently = asked_nanos.is_some_and(|asked| now_nanos < asked.saturating_add(KEYS_PAUSE_NANOS));
        if recently || self.keys().has(unknown) {
            return Ok(());
        }
        *asked_nanos = Some(now_nanos);
        let catalog = Catalog::new(&self.store, Some(timeout));
        if let Some(keys) = catalog.decided_cursor_keys().await? {
            self.use_keys(keys);
        }
        Ok(())
    }

    /// A stamp that is now, and greater than any this process has given before and any the store says it
    /// was given: a clock that was set back makes no write older than what it is to replace.
    pub(crate) fn next_stamp(&self) -> Stamp {
        let now = self.environment.now_micros();
        let previous = self
            .last_stamp
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| {
                Some(now.max(last.saturating_add(1)))
            })
            .expect("the update always gives a value");
        Stamp(now.max(previous.saturating_add(1)))
    }

    /// From when on what is sealed now opens no more, in seconds since 1970; never without it.
    pub(crate) fn expires_at_seconds(&self) -> Option<u64> {
        self.cursor_lifetime.map(|lifetime| {
            let now_seconds = u64::try_from(self.environment.now_micros() / 1_000_000).unwrap_or(0);
            now_seconds.saturating_add(lifetime.as_secs())
        })
    }

    pub(crate) fn seal(&self, plan: &Plan, position: &Position, travel: Travel) -> Cursor {
        cursor::seal(
            &self.keys(),
            &self.environment,
            &plan.identity,
            position,
            travel,
            None,
            self.expires_at_seconds(),
        )
        .expect("keys within the stores' limits fit in a cursor")
    }

    pub(crate) fn open(&self, plan: &Plan, text: &str) -> Result<OpenedCursor> {
        let opened =
            cursor::open(&self.keys(), &self.environment, text, &plan.identity).map_err(|error| {
                let hint = error.hint();
                Error::new(ErrorKind::InvalidCursor, error.to_string())
                    .with_hint(hint)
                    .with_source(error)
            })?;
        check_position(plan, &opened.position)?;
        Ok(opened)
    }
}

/// How to read where a request may take this long, or what reads may.
pub(crate) fn read_options(request_timeout: Option<Duration>) -> ReadOptions {
    let default = ReadOptions::default();
    ReadOptions {
        timeout: request_timeout.unwrap_or(default.timeout),
        ..default
    }
}

/// How to write where a request may take this long, or what writes may.
pub(crate) fn write_options(request_timeout: Option<Duration>) -> WriteOptions {
    let default = WriteOptions::default();
    WriteOptions {
        timeout: request_timeout.unwrap_or(default.timeout),
        ..default
    }
}

/// A position of this plan's identity holds cells of its order's types; anything else is a defect
/// of whoever sealed it, and must not reach a store.
pub(crate) fn check_position(plan: &Plan, position: &Position) -> Result<()> {
    let unknown = || {
        Error::new(
            ErrorKind::InvalidCursor,
            "the cursor holds what this release does not understand",
        )
    };
    if position.values.len() > plan.order.len() {
        return Err(unknown());
    }
    for (term, value) in plan.order.iter().zip(position.values.iter()) {
        let value = value.ok_or_else(unknown)?;
        cell::validate(plan.arrangement.type_of(term.column), value).map_err(|_| unknown())?;
    }
    Ok(())
}

/// A collection of an open store.
#[derive(Debug)]
pub(crate) struct CollectionCore {
    pub(crate) shared: Arc<Shared>,
    pub(crate) definition: Arc<Collection>,
    /// The schema it is of.
    pub(crate) schema: Arc<Schema>,
    pub(crate) arrangements: Vec<Arc<Arrangement>>,
    /// For each field of the record type, in its order, its column in the base table.
    pub(crate) columns: Vec<u16>,
    /// For each field, where it stands in the record type: a type may declare fields in another order
    /// than the one they were added to the collection in, and not know all of them.
    pub(crate) places: Vec<Option<usize>>,
    /// The fields' names as JSON text, once a page was asked for as text.
    field_names: OnceLock<FieldNames>,
    pub(crate) plans: PlanCache,
}

impl CollectionCore {
    pub(crate) fn new(shared: Arc<Shared>, schema: Arc<Schema>, definition: Arc<Collection>) -> Self {
        let base = Arrangement::base(&definition);
        let columns = base
            .column_of_field
            .iter()
            .map(|column| column.expect("a base table holds every field") as u16)
            .collect();
        let places = (0..definition.fields.len()).map(Some).collect();
        Self {
            field_names: OnceLock::new(),
            plans: PlanCache::default(),
            shared,
            definition,
            schema,
            arrangements: vec![Arc::new(base)],
            columns,
            places,
        }
    }

    /// The collection for a record type with these of its fields, in this order.
    pub(crate) fn for_fields(mut self, names: &[&str]) -> Self {
        let fields = &self.definition.fields;
        let field_of = |name: &&str| fields.iter().position(|field| field.name == **name);
        let field_of: Vec<usize> = names.iter().filter_map(field_of).collect();
        debug_assert_eq!(field_of.len(), names.len(), "the fields were compared");
        self.columns = field_of.iter().map(|&field| self.columns[field]).collect();
        self.places = vec![None; fields.len()];
        for (place, &field) in field_of.iter().enumerate() {
            self.places[field] = Some(place);
        }
        self
    }

    /// The regular columns that the record type knows, as indexes into them; `None` if it knows all.
    pub(crate) fn known_columns(&self) -> Option<Vec<u16>> {
        if self.places.iter().all(Option::is_some) {
            return None;
        }
        let key_len = self.base().table.key_len() as u16;
        let mut known: Vec<u16> = self
            .columns
            .iter()
            .filter_map(|one| one.checked_sub(key_len))
            .collect();
        known.sort_unstable();
        Some(known)
    }

    /// The fields' names as JSON text.
    pub(crate) fn field_names(&self) -> &FieldNames {
        self.field_names.get_or_init(|| FieldNames::new(&self.definition))
    }

    /// The base table's arrangement.
    pub(crate) fn base(&self) -> &Arc<Arrangement> {
        &self.arrangements[0]
    }

    /// Whether a put replaces the whole row (or leaves what it does not name).
    pub(crate) fn replaces(&self) -> bool {
        self.definition.writes != WriteMode::Append
    }

    /// The value of a field of a row of an arrangement's table.
    pub(crate) fn value(
        &self,
        arrangement: &Arrangement,
        row: RowRef<'_>,
        field: usize,
    ) -> Result<Option<Value>> {
        let Some(column) = arrangement.column_of_field[field] else {
            return Ok(None);
        };
        let definition = &self.definition.fields[field];
        row.get(column)
            .map(|bytes| cell::decode(&definition.ty, bytes))
            .transpose()
            .map_err(|error| damaged(&self.definition.name, &definition.name, &error))
    }

    /// The key of a row, for people: the text of each of its values, in the key's order.
    pub(crate) fn key_text(&self, partition: &Cells, clustering: &Cells) -> String {
        let base = self.base();
        let texts = self.definition.key.iter().filter_map(|name| {
            let (field, definition) = self.definition.field(name)?;
            let column = base.column_of_field[field]?;
            let cell = match column.checked_sub(partition.len()) {
                None => partition.get(column),
                Some(column) => clustering.get(column),
            };
            let value = cell::decode(&definition.ty, cell?).ok()?;
            Some(json::to_text(&definition.ty, &value))
        });
        format!("({})", texts.collect::<Vec<_>>().join(", "))
    }

    /// Splits a record's cells, in the base table's column order, into partition, clustering and
    /// regular cells.
    pub(crate) fn split(&self, cells: &Cells) -> (Cells, Cells, Cells) {
        let table = &self.base().table;
        let (partition_len, key_len) = (table.partition().len(), table.key_len());
        let part = |range: std::ops::Range<usize>| range.map(|index| cells.get(index)).collect();
        (
            part(0..partition_len),
            part(partition_len..key_len),
            part(key_len..cells.len()),
        )
    }
}

/// The error of a stored cell that does not decode.
pub(crate) fn damaged(collection: &str, field: &str, error: &cell::CellError) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!("a stored {field} of collection {collection} is damaged: {error}"),
    )
    .with_field(field)
    .with_hint("a check of the store finds every damaged row")
}
