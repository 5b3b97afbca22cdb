//! Records into the other store: each as if it had been written there, at its version.
//!
//! | the collection's records | there |
//! |---|---|
//! | are written plainly | row and entries, plainly, at the stamp; repeated they change nothing |
//! | change, and the store has transactions | rows and entries of a step in one transaction, if none of the records is there |
//! | change, and it has none | each as a copy that the protocol makes, with a token of its own, as of the time that is its version |
//!
//! So a record that is there by an earlier run of the copy stays as it is, and so does one that somebody has changed since.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::stream::{self, StreamExt, TryStreamExt};
use recto_model::Cells;
use recto_model::schema::WriteMode;
use recto_protocol::views::change::TransactionOf;
use recto_protocol::views::{
    Arranged, Change, FieldCells, Refusal, Request, Version, ViewedCollection, transaction,
};
use recto_store::{Cas, PartitionWrite, Stamp, TransactionOutcome, WriteOptions};

use super::record::{Record, Records};
use crate::beside::{Beside, Sent, send_if};
use crate::catalog;
use crate::core::CollectionCore;
use crate::error::{Error, ErrorKind, Result};
use crate::room::{MAX_ROOM_TIME, ROOM_EACH, RoomMaking};
use crate::settle::{Attempt, Policy, settle};
use crate::viewed::Written;
use crate::writes::{MAX_LOOKS, Transacting, busy, mutation, refusal_of, refused_by};

/// How long one attempt may take, unless the store was opened with a limit of its own.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);
/// The most records of a step that are inserted side by side, where each is a change of its own.
const MAX_CHANGES: usize = 64;
/// The stamp of a row whose own is not known: any that is known is newer.
const LEAST_STAMP: i64 = 1;

/// The collection in the store that is written to.
#[derive(Clone, Copy)]
pub(super) struct Target<'a>(pub(super) &'a Arc<CollectionCore>);

/// What is asked for a record that changes.
type CopyRequest = Request<Cells, FieldCells>;

impl Target<'_> {
    /// Writes records. Durable they are with the next durable write.
    ///
    /// # Errors
    /// The store does not take them. Another schema was applied to it meanwhile, or records were put there that are never changed.
    pub(super) async fn write(self, records: Records) -> Result<()> {
        let newest = records.0.iter().map(|record| record.version.0).max();
        if let Some(newest) = newest {
            // What is written there next is newer, whatever the clock says.
            self.0.shared.stamps.skip_to(Stamp(newest));
        }
        if RoomMaking::of(std::slice::from_ref(self.0)) == RoomMaking::Steps {
            let some = records.0.iter().step_by(ROOM_EACH as usize).cloned();
            self.make_room(&some.collect::<Vec<_>>(), ROOM_EACH).await?;
        }
        match (
            self.0.definition.writes,
            self.0.shared.store.limits().transactions,
        ) {
            (WriteMode::Update, true) => self.transact(records.0).await,
            (WriteMode::Update, false) => self.insert(&records.0).await,
            (WriteMode::Append | WriteMode::Overwrite, _) => self.put(&records.0).await,
        }
    }

    /// Refuses to go on by what is not so any more.
    fn check_current(self) -> Result<()> {
        if self.0.is_current() {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::SchemaMismatch,
            format!(
                "the schema of {} was changed meanwhile",
                self.0.shared.store.describe()
            ),
        ))
    }

    async fn put(self, records: &[Record]) -> Result<()> {
        let shared = &self.0.shared;
        loop {
            // Until its outcome is known no view is added that this does not write.
            let mut writing = shared.writing_plainly(WRITE_TIMEOUT).await?;
            self.check_current()?;
            let writes = self.puts(records)?;
            let options = WriteOptions {
                row_by_row: false,
                ..shared.load_options(WRITE_TIMEOUT, true)
            };
            let sent = send_if(shared, writes, options, || writing.check_lease()).await?;
            let is_all = writing.is_all(shared, WRITE_TIMEOUT).await?;
            writing.ended();
            match sent {
                Sent::Conflicts => return Err(self.others_are_there()),
                Sent::Written if is_all => return Ok(()),
                Sent::Written | Sent::Moved => {}
            }
        }
    }

    /// Rows with their entries.
    fn puts(self, records: &[Record]) -> Result<Vec<PartitionWrite>> {
        let core = self.0;
        let views = core.viewed.iter().flat_map(|viewed| viewed.views.views());
        let views = views.filter_map(|view| Beside::new(core, view.number()));
        let views: Vec<Beside> = views.collect();
        let mut writes = Vec::with_capacity(records.len() * (1 + views.len()));
        for record in records {
            let clustering = mutation::clustering(core, &record.cells);
            if self.is_late(&clustering)? {
                continue;
            }
            let stamp = Stamp(record.version.0.max(LEAST_STAMP));
            writes.push(PartitionWrite {
                table: Arc::clone(&core.written),
                partition: mutation::partition(core, &record.cells),
                mutations: vec![mutation::put(core, &record.cells, stamp, record.ends_in_seconds)],
            });
            let written = Written {
                stamp: record.version.0,
                ends_at: record.expires_at,
            };
            let Some(first) = views.first() else { continue };
            let row = first.row(record.cells.as_row(), written)?;
            writes.extend(
                row.iter()
                    .flat_map(|row| views.iter().filter_map(|view| view.put(row))),
            );
        }
        Ok(writes)
    }

    /// Whether a record is too old to be kept: by the time it is written it may have become so.
    fn is_late(self, clustering: &Cells) -> Result<bool> {
        let (shared, table) = (&self.0.shared, &self.0.written);
        match &shared.buckets {
            Some(store) if table.options().buckets.is_some() => Ok(store.is_late(table, clustering)?),
            _ => Ok(false),
        }
    }

    /// Has the store make room for records of which these are some, each for so many, in tables that are kept in buckets. Where it fails they are
    /// written all the same, and cut later.
    ///
    /// # Errors
    /// What is written of them cannot be made.
    pub(super) async fn make_room(self, sample: &[Record], each: u32) -> Result<()> {
        let mut writes = match self.0.definition.writes {
            WriteMode::Update => self.transaction_of(sample)?.1,
            WriteMode::Append | WriteMode::Overwrite => self.puts(sample)?,
        };
        writes.retain(|write| write.table.options().buckets.is_some());
        if !writes.is_empty() {
            let made = self.0.shared.store.make_room(writes, each, MAX_ROOM_TIME);
            drop(made.await);
        }
        Ok(())
    }

    #[cold]
    fn others_are_there(self) -> Error {
        Error::new(
            ErrorKind::Conflict,
            format!(
                "others put records of collection {} into {}, whose records are never changed",
                self.0.definition.name,
                self.0.shared.store.describe()
            ),
        )
        .with_hint("let nobody write there before all is copied")
    }

    /// Each record by the protocol.
    async fn insert(self, records: &[Record]) -> Result<()> {
        let inserted: Vec<_> = records
            .iter()
            .map(|record| self.insert_one(record).boxed())
            .collect();
        stream::iter(inserted)
            .buffer_unordered(MAX_CHANGES)
            .try_collect()
            .await
    }

    async fn insert_one(self, record: &Record) -> Result<()> {
        let (core, shared) = (self.0, &self.0.shared);
        let partition = mutation::partition(core, &record.cells);
        let (key, name) = (core.key_of(&partition), &core.definition.name);
        let (at, request) = (record.version.0, copy_of(record));
        let attempt = |_| async {
            let changed = shared
                .writer
                .change_at(at, name, key.clone(), request.clone(), WRITE_TIMEOUT)
                .await;
            match changed {
                Ok(outcome) => Attempt::Known(outcome.map(drop)),
                // The same again finds out what became of it.
                Err(error) if error.is_retryable() => Attempt::Failed(error),
                Err(error) => Attempt::Refused(error),
            }
        };
        let inserted = settle(&shared.environment, Policy::LOAD, attempt).await;
        match inserted.map_err(|unsettled| unsettled.or(Error::from))? {
            Ok(()) => Ok(()),
            Err(refused) if matches!(refused.refusal, Refusal::Exists(_)) => Ok(()),
            Err(refused) => Err(refused_by(core, &partition, &refused)),
        }
    }

    /// All of them, but for those that are there.
    async fn transact(self, records: Vec<Record>) -> Result<()> {
        let shared = &self.0.shared;
        let mut left = records;
        for _ in 0..MAX_LOOKS {
            if left.is_empty() {
                return Ok(());
            }
            // Until its outcome is known no view is added that this does not write.
            let _writing = shared.writing().await;
            self.check_current()?;
            let Some(there) = self.transact_now(&left).await? else {
                return Ok(());
            };
            if !there.contains(&true) {
                // Another schema, then; or, where others write here, values of unique fields that they took.
                shared.look_for_schema().await?;
            }
            let mut there = there.into_iter();
            left.retain(|_| !there.next().unwrap_or(false));
        }
        Err(busy(&format!("collection {}", self.0.definition.name)))
    }

    /// One transaction; if it is not applied, which of the records are there.
    async fn transact_now(self, records: &[Record]) -> Result<Option<Vec<bool>>> {
        let (core, shared) = (self.0, &self.0.shared);
        let (conditions, writes) = self.transaction_of(records)?;
        let attempt = |_| async {
            let options = WriteOptions {
                row_by_row: false,
                ..shared.load_options(WRITE_TIMEOUT, false)
            };
            let sent = shared.store.transact(conditions.clone(), writes.clone(), options);
            match sent.await {
                Ok(TransactionOutcome::Applied) => Attempt::Known(None),
                Ok(TransactionOutcome::NotApplied { current }) => {
                    let is_there = |held: &Vec<Option<Vec<u8>>>| held.first().is_some_and(Option::is_some);
                    Attempt::Known(Some(current.iter().take(records.len()).map(is_there).collect()))
                }
                Ok(TransactionOutcome::Unknown(error)) => Attempt::Unknown(error),
                Ok(TransactionOutcome::Refused(error)) => Attempt::Refused(Error::from(error)),
                // No put of a record or of an entry is an insert.
                Ok(TransactionOutcome::Conflict(_)) => Attempt::Refused(busy(&core.definition.name)),
                Err(error) => Attempt::Failed(Error::from(error)),
            }
        };
        let settled = settle(&shared.environment, Policy::LOAD, attempt).await;
        settled.map_err(|unsettled| unsettled.or(Error::from))
    }

    /// What puts these records where none of them is.
    fn transaction_of(self, records: &[Record]) -> Result<(Vec<Cas>, Vec<PartitionWrite>)> {
        let core = self.0;
        let now = core.shared.environment.now_micros();
        let (mut conditions, mut claims, mut writes) = (Vec::new(), Vec::new(), Vec::new());
        let viewed = core.viewed.as_deref();
        let Some((viewed, base)) = viewed.and_then(|viewed| Some((viewed, viewed.base.as_ref()?))) else {
            return Ok((conditions, writes));
        };
        for record in records {
            let key = mutation::partition(core, &record.cells);
            let transacting = Transacting {
                core,
                viewed,
                base,
                key: &key,
            };
            let change: TransactionOf<ViewedCollection> =
                transaction(&copy_of(record), None, &viewed.views, now, record.version)
                    .map_err(|refusal| refusal_of(core, &key, refusal))?;
            debug_assert_eq!(change.entries.version, record.version, "nothing was there");
            writes.extend(transacting.writes(&change, now)?);
            conditions.push(transacting.condition(None));
            let first = transacting.first_claims(&change, now);
            writes.extend(first.writes);
            claims.extend(first.conditions);
        }
        let generation = viewed.views.generation().0;
        if generation > 0 {
            conditions.push(catalog::is_of_generation(generation));
        }
        conditions.extend(claims);
        Ok((conditions, writes))
    }
}

fn copy_of(record: &Record) -> CopyRequest {
    Request {
        change: Change::Copy {
            record: record.fields.clone(),
            expires_at: record.expires_at,
        },
        if_version: None::<Version>,
    }
}
