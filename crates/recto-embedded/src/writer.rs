//! The one writer: a thread that combines the requests of callers into transactions.
//!
//! While one group of requests becomes durable, the next group is collected. Many callers thus share one wait
//! for the disk (group commit).

use std::sync::Arc;
use std::time::Duration;

use recto_model::Table;
use recto_model::table::TableOptions;
use recto_store::tables::{added_columns, serves};
use recto_store::{StoreError, StoreErrorKind};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TryRecvError;

use crate::apply::{Moment, OpenTables, apply, check_table};
use crate::catalog::{self, CATALOG, Catalog, StoredTable, different, missing};
use crate::clock::now_seconds;
use crate::damage::damaged;
use crate::error::{corrupt, engine, guarded, stops_engine, timeout};
use crate::expired;
use crate::limits::{MAX_GROUP_BYTES, MAX_GROUP_REQUESTS, MAX_RELAXED_BYTES};
use crate::log::{IDLE_BEFORE_CHECKPOINT, Transaction, WriteTable, unrecovered};
use crate::meta;
use crate::row::StoredRow;
use crate::shared::{Durable, Shared};
use crate::walk::find;
use crate::work::{Conditional, Guard, Reply, Request, Work};

/// Maximum time for which the writer waits for the next request without sleeping.
const MAX_SPIN: Duration = Duration::from_micros(100);
/// Maximum number of attempts to receive the next request without sleeping.
const MAX_SPINS: u32 = 10_000;

/// Runs the writer on its thread: executes requests until all senders of requests are dropped.
pub(crate) fn run(shared: &Shared, mut requests: mpsc::Receiver<Request>) {
    let timer = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    let mut writer = Writer {
        shared,
        timer: timer.ok(),
        retry_at_write: false,
        relaxed_bytes: 0,
        lost_relaxed: None,
        expired: None,
        next_pass_nanos: after(shared, expired::PASS_EVERY),
        next_step_nanos: 0,
        spins: false,
    };
    let mut next = None;
    loop {
        let first = match next.take().map_or_else(|| requests.try_recv(), Ok) {
            Ok(first) => first,
            Err(TryRecvError::Disconnected) => break,
            Err(TryRecvError::Empty) if writer.expired.is_some() => {
                writer.delete_expired();
                continue;
            }
            Err(TryRecvError::Empty) => match writer.wait(&mut requests) {
                Waited::Request(first) => first,
                Waited::Idle => {
                    writer.checkpoint();
                    continue;
                }
                Waited::Closed => break,
            },
        };
        let mut group = Vec::new();
        let mut bytes = 0;
        let mut candidate = Some(first);
        while let Some(request) = candidate.take() {
            if matches!(request.work, Work::Exclusive(_)) && !group.is_empty() {
                next = Some(request);
                break;
            }
            let alone = matches!(request.work, Work::Exclusive(_));
            bytes += request.byte_len();
            group.push(request);
            if alone || bytes >= MAX_GROUP_BYTES || group.len() >= MAX_GROUP_REQUESTS {
                break;
            }
            candidate = requests.try_recv().ok();
        }
        writer.serve(group);
        writer.begin_pass_or_step();
    }
    if writer.lost_relaxed.is_none() && shared.check_open().is_ok() {
        // Ignore an error: the next process that opens the store applies the records again.
        let _ = guarded(|| shared.finish_log());
    }
}

/// End of a wait for a request.
enum Waited {
    Request(Request),
    /// No request came, and it is time for a checkpoint.
    Idle,
    /// All senders of requests are dropped.
    Closed,
}

struct Writer<'a> {
    shared: &'a Shared,
    /// Runtime for waits that end after a time.
    timer: Option<Runtime>,
    /// True if the last checkpoint failed. The writer then tries again at the next write, and not while it
    /// waits.
    retry_at_write: bool,
    /// Bytes of relaxed writes that are committed and not yet durable.
    relaxed_bytes: usize,
    /// Reason why acknowledged relaxed writes were lost, if they were. The store then rejects all writes
    /// until it is opened again, so that the callers of the lost writes notice the loss.
    lost_relaxed: Option<String>,
    /// Position of the current pass over the store that deletes expired rows. `None` between two passes.
    expired: Option<expired::Position>,
    /// Earliest time at which the next pass that deletes expired rows begins, in nanoseconds of the monotonic
    /// clock.
    next_pass_nanos: u64,
    /// Earliest time of the next step of the deletion of expired rows while requests wait, in nanoseconds of
    /// the monotonic clock.
    next_step_nanos: u64,
    /// True if the last request came within [`MAX_SPIN`].
    spins: bool,
}

fn after(shared: &Shared, wait: Duration) -> u64 {
    let nanos = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
    shared.environment.monotonic_nanos().saturating_add(nanos)
}

/// Result of applying a group of requests in a transaction, before the commit.
struct Applied {
    replies: Vec<Reply>,
    /// Catalog after the transaction, if it changed.
    catalog: Option<Catalog>,
    /// Newest timestamp of the store after the transaction, if it rose.
    newest_stamp: Option<i64>,
}

impl Writer<'_> {
    /// Waits for the next request, or for the time of a checkpoint.
    fn wait(&mut self, requests: &mut mpsc::Receiver<Request>) -> Waited {
        let end = after(self.shared, MAX_SPIN);
        let waited = match self.spin(end, requests) {
            Some(request) => Waited::Request(request),
            None => self.sleep(requests),
        };
        let is_soon = self.shared.environment.monotonic_nanos() < end;
        self.spins = is_soon && matches!(waited, Waited::Request(_));
        waited
    }

    /// Waits for a request without sleeping, if the last one came soon. To wake a sleeping thread takes about
    /// as long as to write a row.
    fn spin(&self, end_nanos: u64, requests: &mut mpsc::Receiver<Request>) -> Option<Request> {
        // Limit the number of attempts, too, because the clock of a test may stand still.
        let attempts = if self.spins { MAX_SPINS } else { 0 };
        for _ in 0..attempts {
            if let Ok(request) = requests.try_recv() {
                return Some(request);
            }
            if self.shared.environment.monotonic_nanos() >= end_nanos {
                break;
            }
            std::hint::spin_loop();
        }
        None
    }

    /// Sleeps until the next request, or until the time of a checkpoint.
    fn sleep(&self, requests: &mut mpsc::Receiver<Request>) -> Waited {
        let closed = |request: Option<Request>| request.map_or(Waited::Closed, Waited::Request);
        let idle = {
            let log = self.shared.log();
            match log.has_records() {
                _ if self.retry_at_write => None,
                _ if log.needs_checkpoint() => Some(Duration::ZERO),
                true => Some(IDLE_BEFORE_CHECKPOINT),
                false => None,
            }
        };
        let Some((idle, timer)) = idle.zip(self.timer.as_ref()) else {
            return closed(requests.blocking_recv());
        };
        let wait = async { tokio::time::timeout(idle, requests.recv()).await };
        timer.block_on(wait).map_or(Waited::Idle, closed)
    }

    /// Makes a checkpoint, so that a crash leaves no records to apply. After a failure, the next write tries
    /// again.
    fn checkpoint(&mut self) {
        let made = guarded(|| self.shared.checkpoint(Durable::Now));
        self.retry_at_write = !matches!(made, Ok(true));
        match made {
            Ok(true) => self.relaxed_bytes = 0,
            Ok(false) => {}
            Err(error) => {
                self.stop(Some(&error));
                // Open the engine again, so that reads continue.
                let _ = self.shared.resume();
            }
        }
    }

    /// Makes the checkpoint after a recovery, before the first write.
    fn complete_recovery(&mut self) -> Result<(), StoreError> {
        if !self.shared.log().needs_checkpoint() {
            return Ok(());
        }
        let made = guarded(|| self.shared.checkpoint(Durable::Now));
        made.map(drop).map_err(|error| {
            self.stop(Some(&error));
            let _ = self.shared.resume();
            unrecovered(error)
        })
    }

    fn serve(&mut self, group: Vec<Request>) {
        if self.shared.has_failed() {
            self.stop(None);
        }
        let now = self.shared.environment.monotonic_nanos();
        let (late, mut group): (Vec<_>, Vec<_>) = group
            .into_iter()
            .partition(|request| request.deadline_nanos < now);
        for request in late {
            request.answer(Err(timeout("a write that waited for the writer")));
        }
        if let [
            Request {
                work: Work::Exclusive(_),
                ..
            },
        ] = group.as_slice()
        {
            let Some(mut request) = group.pop() else { return };
            if let Work::Exclusive(work) = std::mem::replace(&mut request.work, Work::Sync) {
                let result = guarded(|| work(self.shared)).map(|()| Reply::Done);
                request.answer(result);
            }
            return;
        }
        while !group.is_empty() {
            let committed = guarded(|| Ok(self.commit(&group)));
            let fatal = match &committed {
                Ok(Ok(_) | Err(Failure::Closed(_))) => None,
                Ok(Err(Failure::Commit(error))) | Err(error) => Some(error),
                Ok(Err(Failure::Begin(error) | Failure::Request(_, error))) => {
                    stops_engine(error).then_some(error)
                }
            };
            if let Some(error) = fatal {
                self.stop(Some(error));
            }
            match committed {
                Ok(Ok(replies)) => {
                    for (request, reply) in group.drain(..).zip(replies) {
                        request.answer(Ok(reply));
                    }
                }
                Ok(Err(Failure::Request(index, error))) => group.remove(index).answer(Err(error)),
                Ok(Err(Failure::Begin(error) | Failure::Closed(error))) | Err(error) => {
                    answer_all(&mut group, &error, Err);
                }
                Ok(Err(Failure::Commit(error))) => {
                    answer_all(&mut group, &error, |error| Ok(Reply::Unknown(error)));
                }
            }
        }
    }

    /// Begins to delete expired rows, or does the next step, if it is time. Called after each group of requests, so that
    /// rows are deleted although requests always wait.
    fn begin_pass_or_step(&mut self) {
        let now = self.shared.environment.monotonic_nanos();
        if self.expired.is_none() && now >= self.next_pass_nanos {
            self.expired = Some(expired::Position::default());
            self.next_pass_nanos = after(self.shared, expired::PASS_EVERY);
        } else if self.expired.is_some() && now >= self.next_step_nanos {
            self.delete_expired();
        }
    }

    /// Does one step of the deletion of expired rows. After a failure, the next pass begins at the start of
    /// the store.
    fn delete_expired(&mut self) {
        let Some(position) = self.expired.take() else {
            return;
        };
        if self.lost_relaxed.is_some() || self.shared.log().check_applied().is_err() {
            return;
        }
        match guarded(|| expired::step(self.shared, position)) {
            Ok(next) => {
                self.expired = next;
            }
            Err(error) if stops_engine(&error) || self.shared.has_failed() => self.stop(Some(&error)),
            Err(_) => {}
        }
        self.next_step_nanos = after(self.shared, expired::STEP_EVERY);
    }

    /// Closes an engine that rejects all calls from now on. The next group of requests reopens it.
    fn stop(&mut self, cause: Option<&StoreError>) {
        if self.relaxed_bytes > 0 && self.lost_relaxed.is_none() {
            let cause = cause.map_or_else(|| "a read of the disk failed".to_owned(), ToString::to_string);
            self.lost_relaxed = Some(cause);
        }
        self.shared.stop();
    }

    /// Applies and commits a group of requests in one transaction. Returns a reply for each request.
    fn commit(&mut self, group: &[Request]) -> Result<Vec<Reply>, Failure> {
        // Reopen a stopped engine before all checks, so that reads continue even if writes are not
        // possible.
        self.shared.resume().map_err(Failure::Begin)?;
        if let Some(cause) = &self.lost_relaxed {
            return Err(Failure::Closed(lost_relaxed(cause)));
        }
        self.shared.log().check_applied().map_err(Failure::Closed)?;
        self.complete_recovery().map_err(Failure::Closed)?;
        let (current, catalog) = self.shared.engine_and_catalog();
        let database = current.writable().ok_or_else(|| {
            Failure::Begin(StoreError::new(
                StoreErrorKind::Invalid,
                "the store is open read-only",
            ))
        })?;
        let bytes: usize = group.iter().map(Request::byte_len).sum();
        let relaxed =
            group.iter().all(|request| request.relaxed) && self.relaxed_bytes + bytes < MAX_RELAXED_BYTES;
        let is_close = |request: &Request| matches!(request.work, Work::Close);
        if group.iter().all(is_close) && self.relaxed_bytes == 0 && !self.shared.log().is_in_use() {
            // Everything is durable already.
            return Ok(group.iter().map(|_| Reply::Done).collect());
        }
        let is_sync = |request: &Request| matches!(request.work, Work::Sync);
        let durable = if relaxed {
            Durable::Later
        } else if group.iter().any(is_close) {
            Durable::AtClose
        } else if self.relaxed_bytes > 0 || group.iter().any(is_sync) {
            Durable::Now
        } else {
            Durable::ByRecord
        };
        let transaction = Transaction::begin(database).map_err(Failure::Begin)?;
        let applied = match self.apply(group, &transaction, &catalog) {
            Ok(applied) => applied,
            Err(failure) => {
                transaction.abort().map_err(Failure::Begin)?;
                return Err(failure);
            }
        };
        self.shared
            .commit(transaction, applied.catalog, durable)
            .map_err(Failure::Commit)?;
        if let Some(newest) = applied.newest_stamp {
            self.shared.set_newest_stamp(Some(newest));
        }
        match durable {
            Durable::Later => self.relaxed_bytes += bytes,
            // No relaxed write is pending.
            Durable::ByRecord => {}
            Durable::Now | Durable::AtClose => self.relaxed_bytes = 0,
        }
        self.retry_at_write = false;
        Ok(applied.replies)
    }

    fn apply(
        &self,
        group: &[Request],
        transaction: &Transaction,
        catalog: &Catalog,
    ) -> Result<Applied, Failure> {
        let mut changed: Option<Catalog> = None;
        let mut tables = OpenTables::new(transaction);
        let mut replies = Vec::with_capacity(group.len());
        let environment = &self.shared.environment;
        let now_micros = environment.now_micros();
        for (index, request) in group.iter().enumerate() {
            let catalog_now = changed.as_ref().unwrap_or(catalog);
            let step = Step {
                transaction,
                now: Moment {
                    now_seconds: now_seconds(environment),
                    now_micros,
                },
            };
            // Catch a panic of the request here, so that the transaction is rolled back and the
            // engine continues. A panic that unwinds through the transaction would leave a file
            // that must be verified completely before it can be opened again.
            let mut new = None;
            tables.begin_request(index);
            let reply = guarded(|| match &request.work {
                Work::Write(batch) => apply(batch, catalog_now, &mut tables, step.now),
                Work::Conditional(conditional) => step.conditional(conditional, catalog_now, &mut tables),
                Work::Sync | Work::Close | Work::Exclusive(_) => Ok(Reply::Done),
                Work::RecordTime(micros) => {
                    meta::set_clock_record(transaction, *micros).map(|()| Reply::Done)
                }
                Work::Create(_) | Work::AddColumns(_) | Work::Drop(_) | Work::Empty(_) => {
                    let new = new.insert(catalog_now.clone());
                    step.change_tables(&request.work, new, &mut tables)
                        .map(|()| Reply::Done)
                }
            });
            if new.is_some() {
                changed = new;
            }
            replies.push(reply.map_err(|error| Failure::Request(index, error))?);
        }
        let counted = guarded(|| Ok(tables.put_down_blocks(changed.as_ref().unwrap_or(catalog))));
        counted
            .map_err(Failure::Begin)?
            .map_err(|(index, error)| Failure::Request(index, error))?;
        for table in tables.take_tables_without_sums() {
            let catalog_now = changed.get_or_insert_with(|| catalog.clone());
            guarded(|| create_sums(transaction, &table, catalog_now, &mut tables)).map_err(Failure::Begin)?;
        }
        let written = group.iter().zip(&replies);
        let written =
            written.filter(|(_, reply)| !matches!(reply, Reply::Conflict(_) | Reply::NotApplied(_)));
        let newest_stamp = written.filter_map(|(request, _)| request.newest_stamp()).max();
        let newest_stamp = newest_stamp.filter(|newest| Some(*newest) > self.shared.newest_stamp());
        if let Some(newest) = newest_stamp {
            meta::set_newest_stamp(transaction, newest).map_err(Failure::Begin)?;
        }
        Ok(Applied {
            replies,
            catalog: changed,
            newest_stamp,
        })
    }
}

#[cold]
fn lost_relaxed(cause: &str) -> StoreError {
    StoreError::new(
        StoreErrorKind::Storage,
        format!("the last relaxed writes were not on disk yet and are lost: {cause}"),
    )
    .with_hint("free disk space or repair the disk, open the store again, and repeat the bulk load")
}

/// Reason why a group of requests failed.
enum Failure {
    /// The request with this index failed. The other requests of the group are applied again without this
    /// request.
    Request(usize, StoreError),
    /// The group failed before its commit. Nothing is written.
    Begin(StoreError),
    /// The store rejects all writes because relaxed writes were lost, although the engine works.
    Closed(StoreError),
    /// The commit failed. The writes of the group may be applied or not.
    Commit(StoreError),
}

fn answer_all(
    group: &mut Vec<Request>,
    error: &StoreError,
    outcome: impl Fn(StoreError) -> Result<Reply, StoreError>,
) {
    for request in group.drain(..) {
        let mut copy = StoreError::new(error.kind(), error.to_string());
        if let Some(hint) = error.hint() {
            copy = copy.with_hint(hint);
        }
        request.answer(outcome(copy));
    }
}

/// Transaction and time with which one request of a group is applied.
struct Step<'t> {
    transaction: &'t Transaction,
    now: Moment,
}

impl<'t> Step<'t> {
    /// Applies conditional writes if all their conditions hold. Otherwise writes nothing, and returns the
    /// current cells.
    fn conditional(
        &self,
        conditional: &Conditional,
        catalog: &Catalog,
        tables: &mut OpenTables<'t>,
    ) -> Result<Reply, StoreError> {
        let mut current = Vec::with_capacity(conditional.guards.len());
        let mut hold = true;
        for guard in &conditional.guards {
            let found = self.current(guard, catalog, tables)?;
            let mut each = guard.conditions.iter().zip(&found);
            hold &= each.all(|((_, condition), found)| condition.expected == *found);
            current.push(found);
        }
        if !hold {
            return Ok(Reply::NotApplied(current));
        }
        apply(&conditional.batch, catalog, tables, self.now)
    }

    /// Returns the current cells of the columns that the conditions compare.
    fn current(
        &self,
        guard: &Guard,
        catalog: &Catalog,
        tables: &mut OpenTables<'t>,
    ) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        // Check that the table exists, because opening a missing table would create it.
        check_table(&guard.table, catalog)?;
        let rows = tables.rows(&guard.table)?;
        let mut current = Vec::with_capacity(guard.conditions.len());
        for (key, condition) in &guard.conditions {
            let damage = |damage| damaged(&guard.table, key, damage);
            let value = match find(&guard.table, rows, key)? {
                None => None,
                Some(value) => {
                    let checksum = guard.table.key_checksum(key);
                    let stored = StoredRow::open(checksum, value.value()).map_err(damage)?;
                    let mut row = stored.decode(0).map_err(damage)?;
                    row.end(self.now.now_seconds);
                    let cell = row.cells.get(usize::from(condition.column));
                    cell.and_then(|cell| cell.value).map(<[u8]>::to_vec)
                }
            };
            current.push(value);
        }
        Ok(current)
    }

    fn change_tables(
        &self,
        work: &Work,
        catalog: &mut Catalog,
        tables: &mut OpenTables<'t>,
    ) -> Result<(), StoreError> {
        match work {
            Work::Create(table) => match catalog.get(table.name()) {
                Some(stored) if serves(&stored.definition, table) && serves(table, &stored.definition) => {
                    Ok(())
                }
                Some(_) => Err(different(table.name())),
                None => self.create(table, catalog, tables),
            },
            Work::AddColumns(table) => {
                let stored = catalog.get(table.name()).ok_or_else(|| missing(table.name()))?;
                if added_columns(&stored.definition, table)?.is_empty() {
                    return Ok(());
                }
                let options = TableOptions {
                    // Keep the stored setting, because only a new table gets blocks for row counts.
                    counts_rows: stored.blocks.is_some(),
                    ..table.options()
                };
                let table = Table::new(table.name(), table.columns().to_vec(), options);
                let table = table.map_err(|error| different(stored.definition.name()).with_source(error))?;
                // The rows stay as they are: a row with fewer cells has nulls in the other columns.
                let has_sums = stored.sums.is_some();
                define(
                    self.transaction,
                    StoredTable::new(stored.id, Arc::new(table), has_sums),
                    catalog,
                )
            }
            Work::Drop(name) => match catalog.get(name).cloned() {
                None => Ok(()),
                Some(stored) => self.drop(&stored, catalog, tables),
            },
            Work::Empty(table) => {
                let stored = Arc::clone(catalog.find(table)?);
                self.drop(&stored, catalog, tables)?;
                self.create(&stored.definition, catalog, tables)
            }
            _ => Ok(()),
        }
    }

    fn create(
        &self,
        table: &Arc<Table>,
        catalog: &mut Catalog,
        tables: &mut OpenTables<'t>,
    ) -> Result<(), StoreError> {
        let id = meta::take_table_number(self.transaction)?;
        if catalog.iter().any(|stored| stored.id >= id) {
            return Err(corrupt("the number of the next table is already in use"));
        }
        let stored = StoredTable::new(id, Arc::clone(table), false);
        tables.rows(&stored)?;
        if let Some(companion) = &stored.blocks {
            self.transaction.open(&companion.rows)?;
        }
        define(self.transaction, stored, catalog)
    }

    fn drop(
        &self,
        stored: &Arc<StoredTable>,
        catalog: &mut Catalog,
        tables: &mut OpenTables<'t>,
    ) -> Result<(), StoreError> {
        let name = stored.definition.name();
        let mut definitions = open_catalog(self.transaction)?;
        if definitions.remove(name.as_bytes()).map_err(engine)?.is_none() {
            return Err(missing(name));
        }
        tables.close(stored);
        for table in stored.with_companions() {
            self.transaction.delete_table(&table.rows)?;
        }
        catalog.remove(name);
        Ok(())
    }
}

fn open_catalog(transaction: &Transaction) -> Result<WriteTable<'_>, StoreError> {
    transaction.open_catalog(redb::TableHandle::name(&CATALOG))
}

/// Stores the definition of a table in the engine and in the catalog.
fn define(transaction: &Transaction, table: StoredTable, catalog: &mut Catalog) -> Result<(), StoreError> {
    let mut definitions = open_catalog(transaction)?;
    definitions
        .insert(table.definition.name().as_bytes(), &catalog::encode(&table))
        .map_err(engine)?;
    catalog.insert(table);
    Ok(())
}

/// Builds sums over the blocks (row counts by key range) of a table that has no sums. Records in the table's
/// definition that sums exist.
fn create_sums<'t>(
    transaction: &'t Transaction,
    table: &StoredTable,
    catalog: &mut Catalog,
    tables: &mut OpenTables<'t>,
) -> Result<(), StoreError> {
    // Skip the table if a later request of the group dropped it. Use its current definition, which a later
    // request may have changed.
    let Some(stored) = catalog
        .get(table.definition.name())
        .filter(|now| now.id == table.id)
    else {
        return Ok(());
    };
    let stored = StoredTable::new(stored.id, Arc::clone(&stored.definition), true);
    tables.build_sums(&stored)?;
    define(transaction, stored, catalog)
}
