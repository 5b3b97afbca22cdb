//! Changes of one record and its entries (rows of views), on condition that the stored version has not
//! changed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use recto_model::{Cells, RowSet, Table};
use recto_protocol::views::change::{RowOf, TransactionOf};
use recto_protocol::views::collection::MAX_VIEW_KEY_BYTES;
use recto_protocol::views::{
    Arranged, BaseTable, FieldCells, Misfit, MisfitCause, Refusal, Refused, Request, Version,
    ViewedCollection, transaction,
};
use recto_store::{
    Cas, CasCondition, Mutation, Operation, PartitionWrite, PointRead, RowAddress, Stamp, TransactionOutcome,
    WriteOptions,
};

use super::claims::{taken, unique_fields};
use super::{MAX_LOOKS, busy, invalid_key, pause, refused};
use crate::catalog;
use crate::core::CollectionCore;
use crate::entries::EntryWrites;
use crate::error::{Error, ErrorKind, Part, Result};
use crate::settle::{Attempt, Policy, settle};
use crate::viewed::{Viewed, Written, check_size};

/// Requested change of a record. Contains either the cells of the whole record in the order of the
/// collection's fields, or the indexes and cells of the fields to set.
pub(crate) type RequestedChange = Request<Cells, FieldCells>;

/// Result of a change of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Changed {
    /// New version of the record, or version of its deletion. It is greater than all earlier versions of the record.
    pub version: i64,
    /// True if some views of the record may not show the change yet, because the time limit ended before all
    /// entries were written. These views show the change later.
    pub pending: bool,
}

/// Changes the record with the given key. `key` has the cells of the base table's partition key.
///
/// # Errors
/// If the kind is [`ErrorKind::OutcomeUnknown`], the change may be written. Otherwise nothing was
/// written.
pub(crate) async fn change(core: &CollectionCore, key: &Cells, asked: &RequestedChange) -> Result<Changed> {
    let limits = core.shared.store.limits();
    limits
        .check_partition(&core.base().table, key)
        .map_err(invalid_key)?;
    // Hold the guard until the outcome is known, so that no view is added that this change does not write.
    let _writing = core.shared.writing().await;
    if !limits.transactions {
        return by_the_writer(core, key, asked).await;
    }
    transact(core, key, asked, None).await
}

/// Makes the change as a transaction. If `at` is given, it is the version of the change, unless the record
/// already has a greater version. The caller must hold the guard of
/// [`Shared::writing`](crate::shared::Shared::writing), so that no view is added during the change.
pub(crate) async fn transact(
    core: &CollectionCore,
    key: &Cells,
    asked: &RequestedChange,
    at: Option<Version>,
) -> Result<Changed> {
    let environment = &core.shared.environment;
    let begun_nanos = environment.monotonic_nanos();
    let options = core.shared.write_options();
    for _ in 0..MAX_LOOKS {
        let spent = Duration::from_nanos(environment.monotonic_nanos().saturating_sub(begun_nanos));
        let viewed = core.viewed_now()?;
        let Some((viewed, base)) = viewed.as_deref().and_then(|one| Some((one, one.base.as_ref()?))) else {
            return Err(not_changed(core));
        };
        let transacting = Transacting {
            core,
            viewed,
            base,
            key,
        };
        match transacting
            .run(asked, at, options.timeout.saturating_sub(spent))
            .await?
        {
            Ended::Applied(version) => {
                return Ok(Changed {
                    version: version.0,
                    pending: false,
                });
            }
            Ended::Lost => pause(environment).await,
            Ended::OtherSchema => core.shared.look_for_schema().await?,
        }
    }
    Err(busy(&format!(
        "the record {} of {}",
        core.key_text(key, &Cells::new()),
        core.definition.name
    )))
}

/// Makes the change in a task of the writer, which continues if the caller stops waiting.
async fn by_the_writer(core: &CollectionCore, key: &Cells, asked: &RequestedChange) -> Result<Changed> {
    let shared = &core.shared;
    let (name, time) = (&core.definition.name, shared.write_options().timeout);
    let changed = shared
        .writer
        .change(name, core.key_of(key), asked.clone(), time)
        .await?;
    let changed = changed.map_err(|refused| refused_by(core, key, &refused))?;
    Ok(Changed {
        version: changed.version.0,
        pending: changed.pending,
    })
}

/// Known outcome of an attempt to change a record.
#[derive(Debug, Clone, Copy)]
enum Ended {
    Applied(Version),
    /// Nothing was written, because another change of the record came first.
    Lost,
    /// Nothing was written, because another schema was recorded after this process read the schema.
    OtherSchema,
}

/// Change of a record that is made as a transaction.
pub(crate) struct Transacting<'c> {
    pub(crate) core: &'c CollectionCore,
    pub(crate) viewed: &'c Viewed,
    pub(crate) base: &'c BaseTable,
    pub(crate) key: &'c Cells,
}

impl Transacting<'_> {
    /// Reads the record, and changes it on condition that its version has not changed since the read.
    async fn run(&self, asked: &RequestedChange, at: Option<Version>, time: Duration) -> Result<Ended> {
        let shared = &self.core.shared;
        let row = self.read().await?;
        let now = shared.environment.now_micros();
        let least = at.unwrap_or_else(|| Version(shared.stamps.next().0));
        let change = transaction(asked, row.as_ref(), &self.viewed.views, now, least)
            .map_err(|refusal| refusal_of(self.core, self.key, refusal))?;
        let version = change.entries.version;
        shared.stamps.skip_to(Stamp(version.0));
        if change.expected.is_none() && change.after.record.is_none() {
            return Ok(Ended::Applied(version));
        }
        let generation = self.viewed.views.generation().0;
        let schema = (generation > 0).then(|| catalog::is_of_generation(generation));
        let version = self.condition(change.expected);
        let claims = self.claims(&change, now).await?;
        let conditions = std::iter::once(version).chain(schema);
        let conditions: Vec<Cas> = conditions.chain(claims.conditions).collect();
        let mut writes = self.writes(&change, now)?;
        writes.extend(claims.writes);
        let is_unsure = AtomicBool::new(false);
        let attempt = |left| {
            let options = WriteOptions {
                timeout: left,
                ..shared.write_options()
            };
            self.attempt(&change, (conditions.clone(), writes.clone()), &is_unsure, options)
        };
        let ended = settle(&shared.environment, Policy::write(time), attempt).await;
        ended.map_err(|unsettled| {
            unsettled.or(|unknown| {
                Error::new(
                    ErrorKind::OutcomeUnknown,
                    format!(
                        "it is not known whether the record {} of {} was changed",
                        self.key_text(),
                        self.core.definition.name
                    ),
                )
                .with_hint(
                    "read the record to find out: the change may be applied now or later, completely or not \
                     at all",
                )
                .with_source(unknown)
            })
        })
    }

    fn key_text(&self) -> String {
        self.core.key_text(self.key, &Cells::new())
    }

    pub(super) async fn read(&self) -> Result<Option<RowOf<ViewedCollection>>> {
        let found = get(self.core, self.base.table(), self.key).await?;
        let row = found.iter().next();
        Ok(row
            .map(|row| self.viewed.row(row, Written::UNTOLD))
            .transpose()?
            .flatten())
    }

    /// Returns the condition that the stored record has the version `expected`; `None` means that
    /// no record is stored.
    pub(crate) fn condition(&self, expected: Option<Version>) -> Cas {
        Cas {
            table: Arc::clone(self.base.table()),
            partition: self.key.clone(),
            conditions: vec![CasCondition {
                row: RowAddress::Row(Cells::new()),
                column: BaseTable::STAMP,
                expected: expected.map(|version| version.0.to_be_bytes().to_vec()),
            }],
            mutations: Vec::new(),
        }
    }

    /// Returns the writes of the record's row and of its entries (rows of views). The version of the change
    /// is the timestamp of all writes.
    pub(crate) fn writes(
        &self,
        change: &TransactionOf<ViewedCollection>,
        now: i64,
    ) -> Result<Vec<PartitionWrite>> {
        let entries = &change.entries;
        let ttl_seconds = entries.ttl_seconds(now);
        let operation = match &change.after.record {
            // Put the record only if it has not expired by now. Otherwise, delete its row.
            Some(record) if change.after.expires_at.is_none_or(|at| at > now) => {
                check_size(&self.core.definition.name, record)?;
                let expires = change
                    .after
                    .expires_at
                    .map(|at| (at, self.viewed.views.generation()));
                let cells = self.base.transacted_cells(record, entries.version, expires);
                Operation::Put {
                    clustering: Cells::new(),
                    cells: cells.map_err(|error| {
                        Error::new(ErrorKind::LimitExceeded, error.to_string()).with_hint(error.hint())
                    })?,
                    replace: true,
                }
            }
            _ => Operation::DeleteRow {
                clustering: Cells::new(),
            },
        };
        let mut writes = vec![PartitionWrite {
            table: Arc::clone(self.base.table()),
            partition: self.key.clone(),
            mutations: vec![Mutation {
                operation,
                stamp: Some(Stamp(entries.version.0)),
                ttl_seconds,
            }],
        }];
        let views = &self.viewed.views;
        let entry_writes = EntryWrites::new(self.core.shared.store.limits());
        writes.extend(
            entries
                .removals
                .iter()
                .filter_map(|(key, stamp)| EntryWrites::remove(views.view(key.view)?, &key.key, *stamp)),
        );
        writes.extend(entries.puts.iter().filter_map(|entry| {
            entry_writes.put(views.view(entry.key.view)?, entry, entries.version, ttl_seconds)
        }));
        Ok(writes)
    }

    async fn attempt(
        &self,
        change: &TransactionOf<ViewedCollection>,
        (conditions, writes): (Vec<Cas>, Vec<PartitionWrite>),
        is_unsure: &AtomicBool,
        options: WriteOptions,
    ) -> Attempt<Ended, Error> {
        let version = change.entries.version;
        match self.core.shared.store.transact(conditions, writes, options).await {
            Ok(TransactionOutcome::Applied) => Attempt::Known(Ended::Applied(version)),
            Ok(TransactionOutcome::NotApplied { current }) => {
                let there = current.first().and_then(|current| current.first()?.as_deref());
                let bytes = |version: Version| version.0.to_be_bytes();
                let left = change.after.record.is_some().then(|| bytes(version));
                let was_unsure = is_unsure.load(Ordering::Relaxed);
                if was_unsure && there == left.as_ref().map(<[u8; 8]>::as_slice) {
                    // An earlier attempt, whose outcome was unknown, applied this change.
                    Attempt::Known(Ended::Applied(version))
                } else if there == change.expected.map(bytes).as_ref().map(<[u8; 8]>::as_slice) {
                    Attempt::Known(Ended::OtherSchema)
                } else if was_unsure {
                    // The stored version is neither the old nor the new one. Another change came after this
                    // change or instead of it, so the outcome stays unknown.
                    Attempt::Refused(busy(&self.key_text()))
                } else {
                    Attempt::Known(Ended::Lost)
                }
            }
            Ok(TransactionOutcome::Unknown(error)) => {
                is_unsure.store(true, Ordering::Relaxed);
                Attempt::Unknown(error)
            }
            Ok(TransactionOutcome::Refused(error)) => Attempt::Refused(refused(error)),
            // Every put of a record or an entry replaces its row, so conflicts do not occur.
            Ok(TransactionOutcome::Conflict(_)) => Attempt::Known(Ended::Lost),
            Err(error) => Attempt::Failed(error.into()),
        }
    }
}

/// Reads the row of a partition that has at most one row.
pub(super) async fn get(core: &CollectionCore, table: &Arc<Table>, partition: &Cells) -> Result<RowSet> {
    let shared = &core.shared;
    let read = PointRead {
        table: Arc::clone(table),
        partition: partition.clone(),
        clustering: Cells::new(),
    };
    let found = shared
        .store
        .snapshot()?
        .get(&read, &shared.read_options())
        .await?;
    Ok(found.rows)
}

/// Returns the error for a rejected change of the record with the given key.
#[cold]
pub(crate) fn refusal_of(core: &CollectionCore, key: &Cells, refusal: Refusal) -> Error {
    let record = || {
        format!(
            "the record {} of {}",
            core.key_text(key, &Cells::new()),
            core.definition.name
        )
    };
    match refusal {
        Refusal::Exists(version) => Error::new(ErrorKind::Exists, format!("{} exists already", record()))
            .with_version(version.0)
            .with_hint("put the record to replace it, or update it"),
        Refusal::Absent => Error::new(ErrorKind::NotFound, format!("{} does not exist", record()))
            .with_hint("insert or put the record"),
        Refusal::Changed(Some(version)) => Error::new(
            ErrorKind::Changed,
            format!(
                "the version of {} is now {}, not the requested version",
                record(),
                version.0
            ),
        )
        .with_version(version.0)
        .with_hint("read the record again, and repeat the change"),
        Refusal::Changed(None) => Error::new(
            ErrorKind::Changed,
            format!("{} has no version: it does not exist", record()),
        )
        .with_hint("insert the record, if it should exist: it was deleted, or has expired"),
        Refusal::Taken(number) => taken(core, number, None),
        Refusal::DoesNotFit(misfit) => does_not_fit(core, misfit),
        Refusal::ExpiresTooLate => Error::new(
            ErrorKind::InvalidArgument,
            format!("{} would expire too late for the store", record()),
        ),
    }
}

/// Returns the error for a change that the writer's protocol rejected. If another record has the unique
/// values, names that record.
#[cold]
pub(crate) fn refused_by(core: &CollectionCore, key: &Cells, refused: &Refused) -> Error {
    match refused.refusal {
        Refusal::Taken(number) => taken(core, number, refused.holder.as_ref()),
        refusal => refusal_of(core, key, refusal),
    }
}

/// Returns the error for an insert of a record that exists, for a caller that may not see the existing
/// record.
#[cold]
pub(crate) fn exists_unseen(core: &CollectionCore, key: &Cells) -> Error {
    let key = core.key_text(key, &Cells::new());
    let message = format!("the record {key} of {} exists already", core.definition.name);
    Error::new(ErrorKind::Exists, message).with_hint("give the record another key")
}

/// Returns the error for a record that a view or a unique constraint cannot store.
#[cold]
pub(crate) fn does_not_fit(core: &CollectionCore, misfit: Misfit) -> Error {
    let collection = &core.definition;
    let mut tables = core.recorded.views.tables.iter();
    let view = tables.find(|one| one.number == misfit.number.0);
    let (field, is_optional) = match collection.fields.get(misfit.field) {
        Some(field) => (&*field.name, !collection.is_required(&field.name)),
        None => ("a field", false),
    };
    let (kind, cause, instead) = match misfit.cause {
        MisfitCause::Empty => (
            ErrorKind::InvalidRecord,
            format!("{field} is empty"),
            format!("nothing was written; give {field} a value"),
        ),
        MisfitCause::TooLarge(bytes) => (
            ErrorKind::LimitExceeded,
            format!(
                "{field} is too large: the key in the view would have {bytes} bytes; at most \
                 {MAX_VIEW_KEY_BYTES} are allowed"
            ),
            format!("nothing was written; use a shorter {field}"),
        ),
    };
    let name = &collection.name;
    let (message, or_null) = if let Some(kept) = view {
        (
            format!("a record of {name} does not fit view {}: {cause}", kept.view.name),
            "which leaves the record out of the view",
        )
    } else {
        let fields = unique_fields(core, misfit.number);
        let is = if fields.len() == 1 { "is" } else { "are" };
        (
            format!(
                "{} of a record of {name}, which {is} unique, cannot be stored: {cause}",
                fields.join(", ")
            ),
            "which does not need to be unique",
        )
    };
    let hint = if is_optional {
        format!("{instead}, or null, {or_null}")
    } else {
        instead
    };
    let error = Error::new(kind, message).with_part(Part::Record).with_hint(hint);
    error.with_field(field)
}

/// Returns the error for an operation that needs versions, in a collection whose records have no versions.
#[cold]
pub(crate) fn not_changed(core: &CollectionCore) -> Error {
    Error::new(
        ErrorKind::NotOffered,
        format!(
            "records of {} have writes = \"{}\", and so no versions: they can only be put and deleted, \
             without conditions",
            core.definition.name,
            core.definition.writes.as_str()
        ),
    )
    .with_hint("use writes = \"update\" for inserts, updates and conditions on versions")
}
