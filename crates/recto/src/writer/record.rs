//! Requests to the store for one record, which a change ([`Drive`](super::drive::Drive)) makes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::{join, join_all};
use futures::stream::{self, StreamExt};
use recto_model::{Cells, Column, Table, cell};
use recto_protocol::views::stored::decode_tokens;
use recto_protocol::views::write::NotWritten;
use recto_protocol::views::{
    ClaimsTable, Decision, Entries, Event, Found, Generation, Intent, IntentPlace, KeyCells, Token, Version,
};
use recto_store::{Cas, CasOutcome, PointRead, StoreErrorKind, WriteOptions, WriteOutcome};

use super::common::{Common, Known};
use super::no_lease;
use super::process::Process;
use super::requests::{EntryWrite, mark};
use super::tables::stored;
use crate::error::{Error, ErrorKind, Result};
use crate::options::read_options;
use crate::settle::{Attempt, Policy, settle};

/// Maximum number of requests for view entries of one change that are sent concurrently.
const MAX_ENTRIES_IN_FLIGHT: usize = 16;
/// Average wait before the second attempt at a change, or before a conditional write is sent again.
/// Each further wait is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(4);
/// Upper limit of the average wait before a repeated attempt. The actual wait is random, between 50% and 150%
/// of the average.
const MAX_PAUSE: Duration = Duration::from_millis(500);
/// Wait before the resolution of an intent (the record of an unfinished change) starts again.
const AGAIN_PAUSE: Duration = Duration::from_millis(500);

/// Guard that marks a change, or a resolution of an intent, as running. While the guard exists,
/// this process does not announce a newer schema.
pub(super) struct UnderWay {
    process: Arc<Process>,
    generation: Generation,
}

impl UnderWay {
    /// Marks a change or resolution as running; returns `None` if the process is about to remove
    /// its registration.
    pub(super) fn begin(common: &Common, process: &Arc<Process>) -> Option<Self> {
        Some(Self {
            generation: process.began(common)?,
            process: Arc::clone(process),
        })
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.process.ended(self.generation);
    }
}

/// Record that is being changed, or whose intent (record of an unfinished change) is being
/// resolved.
pub(super) struct Record {
    pub(super) common: Arc<Common>,
    pub(super) process: Arc<Process>,
    pub(super) collection: String,
    /// Cells of the record's key fields, in the order of the schema, which is also the order of the
    /// base table's partition key.
    pub(super) key: Cells,
    /// Key of the record, in the form in which claims of unique values store it.
    pub(super) owner: KeyCells,
    /// Segment and row in which the intent of the change is stored; `None` without an unsettled
    /// intent.
    place: Mutex<Option<IntentPlace>>,
    /// Time at which the last read of the base row began, by the monotonic clock.
    looked_nanos: AtomicU64,
    /// Error of the last request that failed, which is reported to the caller of the change.
    failure: Mutex<Option<Error>>,
}

pub(super) type Events = Vec<Event<Cells, KeyCells>>;

impl Record {
    pub(super) fn new(
        common: &Arc<Common>,
        process: &Arc<Process>,
        collection: &str,
        key: Cells,
    ) -> Arc<Self> {
        Arc::new(Self {
            common: Arc::clone(common),
            process: Arc::clone(process),
            collection: collection.to_owned(),
            owner: ClaimsTable::owner_key(&key),
            key,
            place: Mutex::default(),
            looked_nanos: AtomicU64::new(0),
            failure: Mutex::default(),
        })
    }

    /// Returns the record's collection as the cached schema defines it; `None` if the collection
    /// was dropped. Also `None` if the key does not fit, because a collection with the same name
    /// may have been created with another key.
    pub(super) fn known(&self) -> Option<Arc<Known>> {
        let known = self.common.known(&self.collection)?;
        is_key_of(known.base.table(), &self.key).then_some(known)
    }

    /// Stores the error of a request, so that it can be reported to the caller.
    pub(super) fn failed(&self, error: Error) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }

    fn failure(&self) -> Option<Error> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Reads the base row. If `note` is true, concurrently stores an intent, the record of the
    /// unfinished change. From the second attempt on, first waits. If `needs_lease` is true, also
    /// waits for a lease, because the earlier lease may have ended.
    pub(super) async fn look(self: Arc<Self>, note: bool, attempt: u32, needs_lease: bool) -> Events {
        if attempt > 1 {
            self.pause(attempt - 1).await;
        }
        let looked_nanos = self.common.environment.monotonic_nanos();
        self.looked_nanos.store(looked_nanos, Ordering::Relaxed);
        let noted = async { if note { self.note().await } else { Ok(()) } };
        let looked = match join(self.read(), noted).await {
            (Ok(found), Ok(())) if needs_lease => self.leased().await.map(|()| found),
            (found, noted) => found.and_then(|found| noted.map(|()| found)),
        };
        match looked {
            Ok(found) => vec![Event::Noted, Event::Read(found)],
            Err(error) => {
                self.failed(error);
                vec![Event::Failed]
            }
        }
    }

    /// Waits for the lease, the permission to write, while the process can still get one.
    async fn leased(&self) -> Result<()> {
        if !self.process.has_lease(&self.common) {
            // Store the error in advance, so that the caller gets it if the wait takes too long.
            self.failed(no_lease());
        }
        self.process.leased_soon(&self.common).await?;
        self.failure();
        Ok(())
    }

    pub(super) async fn read(&self) -> Result<Found<Cells, KeyCells>> {
        let known = self.known().ok_or_else(|| self.gone())?;
        let read = PointRead {
            table: Arc::clone(known.base.table()),
            partition: self.key.clone(),
            clustering: Cells::new(),
        };
        let options = read_options(self.common.request_timeout);
        let attempt = |_| async {
            let found = match self.common.store.snapshot() {
                Ok(snapshot) => snapshot.get(&read, &options).await,
                Err(error) => Err(error),
            };
            match found {
                Ok(found) => Attempt::Known(found),
                Err(error) => Attempt::Failed(Error::from(error)),
            }
        };
        let found = settle(&self.common.environment, Policy::READ, attempt).await;
        let found = found.map_err(|unsettled| unsettled.or(Error::from))?;
        match found.rows.iter().next() {
            Some(row) => known.base.found(row).map_err(stored),
            None => Ok(Found::absent()),
        }
    }

    async fn note(&self) -> Result<()> {
        let intent = Intent {
            collection: self.collection.clone(),
            key: self.key.clone(),
            stamp: self.common.environment.now_micros(),
        };
        let place = self.process.place(intent.stamp).await;
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = Some(place);
        let incarnation = self.process.incarnation;
        let noted = self.common.tables.note(incarnation, place, &intent);
        self.common.write(noted).await
    }

    /// Marks the intent of the change as settled, because the change is complete.
    pub(super) fn settle(&self) {
        let place = self.place.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(place) = place {
            self.process.settle(place);
        }
    }

    /// Reads the catalog of schemas, and retries until the read succeeds.
    pub(super) async fn reload(self: Arc<Self>) -> Events {
        let mut attempt = 1;
        while let Err(error) = self.common.reload().await {
            self.failed(error);
            self.pause(attempt).await;
            attempt += 1;
        }
        vec![Event::Begin]
    }

    pub(super) async fn pause_and_begin(self: Arc<Self>) -> Events {
        tokio::time::sleep(AGAIN_PAUSE).await;
        vec![Event::Begin]
    }

    /// Sends the conditional write of the record's row once. If the write was sent before, first
    /// waits.
    pub(super) async fn cas(self: Arc<Self>, token: Token, cas: Arc<Cas>, repeats: u32) -> Events {
        if repeats > 0 {
            self.pause(repeats).await;
            self.process.leased(&self.common).await;
        }
        let sent = self
            .common
            .store
            .cas(Cas::clone(&cas), self.common.write_options());
        let decision = match sent.await {
            Ok(CasOutcome::Applied) => Decision::Applied,
            Ok(CasOutcome::NotApplied { current }) => self.not_applied(&current),
            Ok(CasOutcome::Unknown(error)) => {
                self.failed(error.into());
                Decision::Unknown
            }
            Ok(CasOutcome::Refused(error)) | Err(error) => {
                self.failed(error.into());
                Decision::NotSent
            }
        };
        vec![Event::Decided(token, decision)]
    }

    fn not_applied(&self, current: &[Option<Vec<u8>>]) -> Decision {
        let current = current.first().and_then(Option::as_deref);
        match current.map(decode_tokens).transpose() {
            Ok(tokens) => Decision::NotApplied(tokens),
            Err(error) => {
                // The stored tokens cannot be read, and may include the token of this change. So
                // report no tokens.
                self.failed(stored(error));
                Decision::NotApplied(None)
            }
        }
    }

    /// Writes the view entries and releases the claims of a change, and retries until all requests
    /// are done. Returns [`Event::Moved`] if entries have moved to other buckets since the base row
    /// was read.
    pub(super) async fn write(
        self: Arc<Self>,
        writes: Arc<[EntryWrite]>,
        entries: Entries<KeyCells, Cells>,
    ) -> Events {
        let mut written = Vec::with_capacity(writes.len());
        for write in &*writes {
            written.push(self.write_entry(write, &entries));
        }
        let written = stream::iter(written).buffer_unordered(MAX_ENTRIES_IN_FLIGHT);
        let releases = entries
            .releases
            .iter()
            .map(|(key, token)| self.release(key, *token));
        let (written, _): (Vec<bool>, Vec<()>) = join(written.collect(), join_all(releases)).await;
        let has_moved = written.contains(&false);
        vec![if has_moved { Event::Moved } else { Event::Written }]
    }

    /// Writes the view entries of one partition, and retries until the outcome is known. Returns
    /// false if the entries have moved to another bucket since the base row was read.
    async fn write_entry(&self, entry: &EntryWrite, entries: &Entries<KeyCells, Cells>) -> bool {
        let options = WriteOptions {
            looked_nanos: Some(self.looked_nanos.load(Ordering::Relaxed)),
            ..self.common.write_options()
        };
        let attempt = |_| async {
            self.process.leased(&self.common).await;
            let now = self.common.environment.now_micros();
            let request = entry.request(entries.ttl_seconds(now));
            match self.common.store.write(request, options).await {
                Ok(WriteOutcome::Unknown(error)) | Err(error) if error.kind() == StoreErrorKind::Moved => {
                    Attempt::Known(false)
                }
                Ok(WriteOutcome::Unknown(error)) => Attempt::Unknown(error),
                Ok(WriteOutcome::Refused(error)) | Err(error)
                    if self.is_dropped(entry.view, &error).await =>
                {
                    Attempt::Known(true)
                }
                Ok(WriteOutcome::Refused(error)) | Err(error) => Attempt::Failed(error),
                Ok(_) => Attempt::Known(true),
            }
        };
        // Retry without limit, because an applied change must be completed.
        let settled = settle(&self.common.environment, Policy::ENTRY, attempt).await;
        settled.unwrap_or(false)
    }

    /// Marks in the base row that the view entries of a version are written. A lost mark does no
    /// harm, so the request is not retried.
    pub(super) async fn mark(&self, known: &Known, version: Version, ttl_seconds: Option<u32>) {
        let options = self.common.write_options();
        let marked = mark(known, &self.key, version, ttl_seconds);
        drop(self.common.store.write(marked, options).await);
    }

    /// Waits for a random time that grows with the number of attempts. Writers that collided then
    /// do not collide again.
    pub(super) async fn pause(&self, attempt: u32) {
        let doubled = 1_u32.checked_shl(attempt - 1).unwrap_or(u32::MAX);
        self.pause_about(FIRST_PAUSE.saturating_mul(doubled).min(MAX_PAUSE))
            .await;
    }

    /// Waits for a random time between 50% and 150% of `due`.
    pub(super) async fn pause_about(&self, due: Duration) {
        let [drawn] = self.common.environment.random::<1>();
        tokio::time::sleep(due / 2 + due * u32::from(drawn) / 256).await;
    }

    pub(super) fn gone(&self) -> Error {
        Error::new(
            ErrorKind::NotFound,
            format!("collection {} was removed during the change", self.collection),
        )
    }

    /// Returns the error of a change that wrote nothing.
    pub(super) fn not_written(&self, why: NotWritten) -> Error {
        let failure = self.failure();
        match (why, failure) {
            (NotWritten::Failed, Some(failure)) => failure,
            (NotWritten::NoLease, _) => no_lease(),
            (NotWritten::Deadline | NotWritten::Failed, failure) => {
                let error = Error::new(ErrorKind::Timeout, "the change was not made in time")
                    .with_hint("try again, or raise request_timeout_ms of the store; nothing was written");
                match failure {
                    Some(failure) => error.with_source(failure),
                    None => error,
                }
            }
        }
    }

    pub(super) fn unknown(&self) -> Error {
        let error = Error::new(
            ErrorKind::OutcomeUnknown,
            "it is not known whether the change was made",
        )
        .with_hint("read the record, and compare its version: the outcome is decided soon");
        match self.failure() {
            Some(failure) => error.with_source(failure),
            None => error,
        }
    }
}

/// Returns whether the cells of `key` are valid values of a table's partition key.
fn is_key_of(table: &Table, key: &Cells) -> bool {
    let columns = table.partition();
    let fits = |(column, cell): (&Column, Option<&[u8]>)| {
        cell.is_some_and(|cell| cell::validate(&column.ty, cell).is_ok())
    };
    columns.len() == key.len() && columns.iter().zip(key.iter()).all(fits)
}
