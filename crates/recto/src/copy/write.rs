//! Writes of records into the target store. Each record keeps its version.
//!
//! | kind of records | how they are written |
//! |---|---|
//! | put and deleted without conditions | row and entries are put at the record's timestamp; repeated writes change nothing |
//! | with versions, store with transactions | one transaction per step, if none of its records exists |
//! | with versions, store without transactions | each record is inserted by the protocol, at the time of its version |
//!
//! A copied record therefore stays unchanged when the copy continues, even if another writer has changed it
//! since.

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
use crate::beside::{Sent, ViewComparer, send_if};
use crate::catalog;
use crate::core::CollectionCore;
use crate::error::{Error, ErrorKind, Result};
use crate::room::MAX_ROOM_TIME;
use crate::settle::{Attempt, Policy, settle};
use crate::viewed::Written;
use crate::writes::{MAX_LOOKS, Transacting, busy, mutation, refusal_of, refused_by};

/// Maximum time of one attempt to write, unless the store was opened with its own limit.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum number of records of a step that are inserted concurrently, if each insert is a separate
/// change.
const MAX_CHANGES: usize = 64;
/// Timestamp of a copied row whose own timestamp is unknown. It is older than all known timestamps.
const LEAST_STAMP: i64 = 1;

/// Collection in the target store of a copy.
#[derive(Clone, Copy)]
pub(super) struct Target<'a>(pub(super) &'a Arc<CollectionCore>);

/// Request to insert a copied record in a collection whose records can change.
type CopyRequest = Request<Cells, FieldCells>;

impl Target<'_> {
    /// Writes records to the target store. The records become durable with the next durable write.
    ///
    /// # Errors
    /// - The store rejects the records.
    /// - Another schema was applied to the target store during the copy.
    /// - In a collection whose records never change, another writer put records with the same keys.
    pub(super) async fn write(self, records: Records) -> Result<()> {
        let newest = records.0.iter().map(|record| record.version.0).max();
        if let Some(newest) = newest {
            // Later writes to the target must be newer than the copied records, even if the target's clock is
            // behind.
            self.0.shared.stamps.skip_to(Stamp(newest));
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

    /// Returns an error if the schema of the target store has changed, so that the copy stops.
    fn check_current(self) -> Result<()> {
        if self.0.is_current() {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::SchemaMismatch,
            format!(
                "another process changed the schema of {} during the copy",
                self.0.shared.store.describe()
            ),
        ))
    }

    async fn put(self, records: &[Record]) -> Result<()> {
        let shared = &self.0.shared;
        loop {
            // Hold the guard until the outcome is known, so that no view is added that this write does not
            // maintain.
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

    /// Returns the writes that put the records and their entries.
    fn puts(self, records: &[Record]) -> Result<Vec<PartitionWrite>> {
        let core = self.0;
        let views = core.viewed.iter().flat_map(|viewed| viewed.views.views());
        let views = views.filter_map(|view| ViewComparer::new(core, view.number()));
        let views: Vec<ViewComparer> = views.collect();
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

    /// Returns whether a record with this clustering key is older than the retention time. It may have become
    /// too old since the copy read it.
    fn is_late(self, clustering: &Cells) -> Result<bool> {
        let (shared, table) = (&self.0.shared, &self.0.written);
        match &shared.partitions {
            Some(store) if table.options().buckets.is_some() => Ok(store.is_late(table, clustering)?),
            _ => Ok(false),
        }
    }

    /// Splits the buckets of the target's tables in advance, for the records that `sample` represents. Each
    /// record of the sample represents `each` records. If a split fails, the records are written to the
    /// existing buckets, which are split later.
    ///
    /// # Errors
    /// The writes of the records cannot be created.
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
                "other processes put records of collection {} into {}, whose records never change",
                self.0.definition.name,
                self.0.shared.store.describe()
            ),
        )
        .with_hint("stop all writes to this collection until the copy is complete")
    }

    /// Inserts each record by a separate change.
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
                // The outcome may be unknown. Try again, because a repeated change also resolves the outcome
                // of the first one.
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

    /// Inserts all records that do not exist yet, in transactions.
    async fn transact(self, records: Vec<Record>) -> Result<()> {
        let shared = &self.0.shared;
        let mut left = records;
        for _ in 0..MAX_LOOKS {
            if left.is_empty() {
                return Ok(());
            }
            // Hold the guard until the outcome is known, so that no view is added that this write does not
            // maintain.
            let _writing = shared.writing().await;
            self.check_current()?;
            let Some(there) = self.transact_now(&left).await? else {
                return Ok(());
            };
            if !there.contains(&true) {
                // The transaction failed although no record exists. Either the schema changed, or another
                // writer took values of unique fields, so read the schema again.
                shared.look_for_schema().await?;
            }
            let mut there = there.into_iter();
            left.retain(|_| !there.next().unwrap_or(false));
        }
        Err(busy(&format!("collection {}", self.0.definition.name)))
    }

    /// Executes one transaction. Returns `None` if it is applied, and otherwise for each record whether it
    /// exists.
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
                // Every put of a record or an entry replaces its row, so conflicts do not occur.
                Ok(TransactionOutcome::Conflict(_)) => Attempt::Refused(busy(&core.definition.name)),
                Err(error) => Attempt::Failed(Error::from(error)),
            }
        };
        let settled = settle(&shared.environment, Policy::LOAD, attempt).await;
        settled.map_err(|unsettled| unsettled.or(Error::from))
    }

    /// Returns the conditions and the writes of a transaction that puts `records` if none of them exists.
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
            debug_assert_eq!(change.entries.version, record.version, "the record is new");
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
