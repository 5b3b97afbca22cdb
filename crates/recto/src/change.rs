//! Changes of one record: insert, put, update and delete.

use std::collections::HashMap;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, StreamExt};
use recto_model::native::FieldType;
use recto_model::record::{RecordError, TypedField};
use recto_model::schema::WriteMode;
use recto_model::{Cells, cell};
use recto_protocol::views::{Change as Becomes, FieldCells, Request, Version};

use crate::core::CollectionCore;
use crate::error::{Error, ErrorKind, Part, Result};
use crate::filter::{Literal, literal_of};
use crate::record::{CheckCell, no_field};
use crate::writes::{Changed, Changes, MAX_BATCH_CHANGES, RowChange, change, not_changed, ttl_seconds};

/// Maximum number of changes of one request that run concurrently.
const MAX_AT_ONCE: usize = 256;

/// A change of one record, made when it is awaited. The change is durable when the call returns.
///
/// In a collection with `writes = "update"`, the change applies to the record and all its views, or to
/// nothing. The result contains the new [version](Changed::version) of the record. The change can require the
/// record's current version.
///
/// ```
/// # use recto::{OpenOptions, Record, Recto};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> recto::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let store = Recto::open_with(folder.path().join("store"), OpenOptions::new().create()).await?;
/// use recto::ErrorKind;
///
/// #[derive(Debug, Clone, PartialEq, Record)]
/// #[record(collection = "users", key = ["id"])]
/// struct User {
///     id: i64,
///     name: String,
///     status: Option<String>,
/// }
/// # store.apply(&recto::schema_of([User::collection()])).await?;
/// # let users = store.collection::<User>()?;
///
/// let ada = User { id: 1, name: "Ada".into(), status: None };
/// let inserted = users.insert(&ada).await?;
/// assert_eq!(users.insert(&ada).await.unwrap_err().kind(), ErrorKind::Exists);
///
/// let updated = users.update(1).set("status", "away").if_version(inserted.version).await?;
/// let late = users.delete(1).if_version(inserted.version).await.unwrap_err();
/// assert_eq!((late.kind(), late.version()), (ErrorKind::Changed, Some(updated.version)));
/// # Ok(())
/// # }
/// ```
#[must_use = "a change does nothing until it is awaited"]
#[derive(Debug)]
pub struct Change {
    asked: Result<PendingChange>,
    if_version: Option<i64>,
    time_to_live: Option<Duration>,
}

/// Requested change of one record, and the state of the record's collection.
#[derive(Debug)]
struct PendingChange {
    core: Arc<CollectionCore>,
    what: ChangeAction,
}

#[derive(Debug)]
enum ChangeAction {
    /// Cells of a record, in the order of the base table's columns.
    Insert(Cells),
    Put(Cells),
    /// Cells of the key, then cells of the changed fields.
    Update(Cells, FieldCells),
    Delete(Cells),
}

impl Change {
    pub(crate) fn insert(encoded: Result<(Arc<CollectionCore>, Cells)>) -> Self {
        Self::new(encoded, ChangeAction::Insert)
    }

    pub(crate) fn put(encoded: Result<(Arc<CollectionCore>, Cells)>) -> Self {
        Self::new(encoded, ChangeAction::Put)
    }

    pub(crate) fn delete(key: Result<(Arc<CollectionCore>, Cells)>) -> Self {
        Self::new(key, ChangeAction::Delete)
    }

    fn new(given: Result<(Arc<CollectionCore>, Cells)>, what: impl FnOnce(Cells) -> ChangeAction) -> Self {
        Self {
            asked: given.map(|(core, cells)| PendingChange {
                core,
                what: what(cells),
            }),
            if_version: None,
            time_to_live: None,
        }
    }

    /// Sets the version that the record must have. If the record has another version, awaiting the change
    /// fails.
    pub fn if_version(mut self, version: i64) -> Self {
        self.if_version = Some(version);
        self
    }

    /// Sets the time to live of the record that is put (whole seconds, at least one).
    pub fn lives_for(mut self, time_to_live: Duration) -> Self {
        self.time_to_live = Some(time_to_live);
        self
    }

    /// Returns the change if its arguments are valid. Does not read the stored record.
    pub(crate) fn checked(self) -> Result<Self> {
        Ok(Self {
            asked: Ok(self.asked?),
            ..self
        })
    }

    /// Returns the collection and the key of the changed record. Returns `None` if the arguments of the
    /// change were invalid.
    fn record(&self) -> Option<(String, Cells)> {
        let PendingChange { core, what } = self.asked.as_ref().ok()?;
        let (ChangeAction::Insert(cells)
        | ChangeAction::Put(cells)
        | ChangeAction::Update(cells, _)
        | ChangeAction::Delete(cells)) = what;
        Some((core.definition.name.clone(), key_of(core, cells)))
    }

    async fn run(self) -> Result<Changed> {
        let PendingChange { core, what } = self.asked?;
        core.check_written_here()?;
        let ttl_seconds = self.time_to_live.map(ttl_seconds).transpose()?;
        if core.definition.writes == WriteMode::Update {
            let (cells, becomes) = becomes(&core, what, ttl_seconds);
            let key = key_of(&core, &cells);
            let if_version = self.if_version.map(Version);
            let asked = Request {
                change: becomes,
                if_version,
            };
            return change(&core, &key, &asked).await;
        }
        let change = match what {
            ChangeAction::Put(cells) if self.if_version.is_none() => RowChange::Put { cells, ttl_seconds },
            ChangeAction::Delete(key) if self.if_version.is_none() => RowChange::Delete { key },
            _ => return Err(not_changed(&core)),
        };
        let mut changes = Changes::new(&core.shared);
        changes.add(&core, change)?;
        let stamp = changes.commit().await?;
        Ok(Changed {
            version: stamp.map_or(0, |stamp| stamp.0),
            pending: false,
        })
    }
}

impl IntoFuture for Change {
    type Output = Result<Changed>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<Changed>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// Makes each change independently, and returns the results in the order of the changes. Changes of the same
/// record are made in order, all others concurrently, so that an embedded store commits many together.
///
/// # Errors
/// The request has more than [`MAX_BATCH_CHANGES`] changes. Nothing is written.
pub(crate) async fn change_each(changes: Vec<Change>) -> Result<Vec<Result<Changed>>> {
    if changes.len() > MAX_BATCH_CHANGES {
        return Err(Error::new(
            ErrorKind::LimitExceeded,
            format!("the request has more than {MAX_BATCH_CHANGES} changes"),
        )
        .with_hint("split the changes into several calls; nothing was written"));
    }
    let changes = changes.into_iter().map(|change| (change.record(), change));
    Ok(side_by_side(changes, MAX_AT_ONCE, Change::run).await)
}

/// Runs `make` on each change, and returns the results in the order of the changes. Changes of the same
/// record run one after another, all others concurrently, at most `at_once` at a time. A change without a
/// record runs independently of all others.
pub(crate) async fn side_by_side<C, E, F>(
    changes: impl IntoIterator<Item = (Option<(String, Cells)>, C)>,
    at_once: usize,
    make: impl Fn(C) -> F,
) -> Vec<E>
where
    F: Future<Output = E>,
{
    let mut lanes: Vec<Vec<(usize, C)>> = Vec::new();
    let mut lane_of: HashMap<(String, Cells), usize> = HashMap::new();
    for (index, (record, change)) in changes.into_iter().enumerate() {
        let next = lanes.len();
        let lane = record.map_or(next, |record| *lane_of.entry(record).or_insert(next));
        if lane == next {
            lanes.push(Vec::new());
        }
        lanes[lane].push((index, change));
    }
    let make = &make;
    let one_after_the_other = |lane: Vec<(usize, C)>| async move {
        let mut ended = Vec::with_capacity(lane.len());
        for (index, change) in lane {
            ended.push((index, make(change).await));
        }
        ended
    };
    let lanes: Vec<_> = lanes.into_iter().map(one_after_the_other).collect();
    let ended: Vec<Vec<_>> = stream::iter(lanes).buffer_unordered(at_once).collect().await;
    let mut ended: Vec<(usize, E)> = ended.into_iter().flatten().collect();
    ended.sort_unstable_by_key(|(index, _)| *index);
    ended.into_iter().map(|(_, ended)| ended).collect()
}

/// A change of some fields of a record of type `T`. The other fields keep their values; see
/// [`Collection::update`](crate::Collection::update).
#[must_use = "a change does nothing until it is awaited"]
pub struct Update<T> {
    change: Change,
    check_cell: CheckCell,
    records: PhantomData<fn() -> T>,
}

impl<T> std::fmt::Debug for Update<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.change.fmt(f)
    }
}

/// A field whose value an [update](Update::set) of a record of type `T` sets. Types that implement the trait
/// are names, whose values are checked at run time, and members of [`Record::FIELDS`](crate::Record::FIELDS),
/// whose values the compiler checks.
pub trait SetField<T> {
    /// Type of the values that the field takes.
    type Value;

    /// Returns the field's name in the collection.
    fn name(&self) -> &str;

    /// Converts a value to the literal that the update stores.
    fn literal(value: Self::Value) -> Literal;
}

impl<T> SetField<T> for &str {
    type Value = Literal;

    fn name(&self) -> &str {
        self
    }

    fn literal(value: Literal) -> Literal {
        value
    }
}

impl<T> SetField<T> for &String {
    type Value = Literal;

    fn name(&self) -> &str {
        self
    }

    fn literal(value: Literal) -> Literal {
        value
    }
}

impl<T, V: FieldType> SetField<T> for TypedField<T, V> {
    type Value = V;

    fn name(&self) -> &str {
        Self::name(self)
    }

    fn literal(value: V) -> Literal {
        literal_of(&value)
    }
}

impl<T> Update<T> {
    pub(crate) fn new(key: Result<(Arc<CollectionCore>, Cells)>, check_cell: CheckCell) -> Self {
        let what = |key| {
            let (fields, cells) = (Vec::new(), Cells::new());
            ChangeAction::Update(key, FieldCells { fields, cells })
        };
        Self {
            change: Change::new(key, what),
            check_cell,
            records: PhantomData,
        }
    }

    /// Sets a field to a value, or to null (`None`). A text is parsed as a value of the field's type.
    ///
    /// If a value does not have the field's type, or if the record type cannot represent it, awaiting the
    /// update fails with [`ErrorKind::InvalidRecord`]. Nothing is sent then. A field of the collection that
    /// the record type lacks is checked only against the schema.
    pub fn set<F: SetField<T>>(mut self, field: F, value: impl Into<F::Value>) -> Self {
        let check_cell = self.check_cell;
        self.change.asked = self.change.asked.and_then(|mut asked| {
            asked.set(field.name(), &F::literal(value.into()), check_cell)?;
            Ok(asked)
        });
        self
    }

    /// Sets the version that the record must have. If the record has another version, awaiting the update
    /// fails.
    pub fn if_version(mut self, version: i64) -> Self {
        self.change = self.change.if_version(version);
        self
    }
}

impl<T> From<Update<T>> for Change {
    fn from(update: Update<T>) -> Self {
        update.change
    }
}

impl<T> IntoFuture for Update<T> {
    type Output = Result<Changed>;
    type IntoFuture = <Change as IntoFuture>::IntoFuture;

    fn into_future(self) -> Self::IntoFuture {
        self.change.into_future()
    }
}

impl PendingChange {
    /// Adds a field and its new value to an update, after checks of the field and of the value.
    fn set(&mut self, name: &str, value: &Literal, check_cell: CheckCell) -> Result<()> {
        let definition = &self.core.definition;
        let invalid = |message: String| {
            Error::new(ErrorKind::InvalidRecord, format!("{name}: {message}"))
                .with_part(Part::Record)
                .with_field(name)
        };
        let (index, field) = definition
            .field(name)
            .ok_or_else(|| no_field(ErrorKind::InvalidRecord, definition, name))?;
        if definition.key.iter().any(|key| key == name) {
            return Err(invalid(format!(
                "it is part of the key of {}, which cannot change",
                definition.name
            ))
            .with_hint("insert a record with the new key, and delete this one"));
        }
        let ChangeAction::Update(_, fields) = &mut self.what else {
            return Ok(());
        };
        if fields.fields.contains(&index) {
            return Err(invalid("it occurs twice".to_owned()));
        }
        let mut bytes = Vec::new();
        let cell = if matches!(value, Literal::Null) {
            None
        } else {
            let value = value.value(&field.ty).map_err(invalid)?;
            cell::encode(&field.ty, &value, &mut bytes).map_err(|error| invalid(error.to_string()))?;
            Some(&*bytes)
        };
        check_cell(&self.core, index, cell).map_err(|error| {
            let reason = match &error {
                RecordError::Field { source, .. } => source.to_string(),
                _ => "null, which only an Option can hold".to_owned(),
            };
            invalid(reason).with_source(error)
        })?;
        fields.cells.push(cell);
        fields.fields.push(index);
        Ok(())
    }
}

/// Returns the key of a record: the first cells of `cells`, one for each key column of the base table.
fn key_of(core: &CollectionCore, cells: &Cells) -> Cells {
    (0..core.base().table.key_len())
        .map(|column| cells.get(column))
        .collect()
}

/// Converts a requested change to the form of the protocol that keeps views correct. Also returns cells that
/// begin with the record's key.
fn becomes(
    core: &CollectionCore,
    what: ChangeAction,
    ttl_seconds: Option<u32>,
) -> (Cells, Becomes<Cells, FieldCells>) {
    let now = core.shared.environment.now_micros();
    let expires_at = ttl_seconds.map(|seconds| now + i64::from(seconds) * 1_000_000);
    match what {
        ChangeAction::Insert(cells) => {
            let record = core.record_of(&cells);
            (cells, Becomes::Insert { record, expires_at })
        }
        ChangeAction::Put(cells) => {
            let record = core.record_of(&cells);
            // A record type may lack fields of the collection. The put lists the fields that the type has, so
            // that the other fields stay unchanged.
            let fields: Vec<usize> = (0..record.len()).filter(|field| core.knows(*field)).collect();
            let known = FieldCells {
                cells: fields.iter().map(|&field| record.get(field)).collect(),
                fields,
            };
            let put = Becomes::PutKnown {
                known,
                record,
                expires_at,
            };
            (cells, put)
        }
        ChangeAction::Update(key, fields) => (key, Becomes::Update(fields)),
        ChangeAction::Delete(key) => (key, Becomes::Delete),
    }
}
