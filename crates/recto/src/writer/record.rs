//! What is done to one record on behalf of a change: the requests of its [`Drive`](super::drive::Drive).

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

/// How many of a version's entries are written at a time.
const MAX_ENTRIES_IN_FLIGHT: usize = 16;
/// About how long to wait before the second attempt at a change, or the second sending of a conditional write; each
/// further wait is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(4);
/// About the longest such wait.
const MAX_PAUSE: Duration = Duration::from_millis(500);
/// How long to wait before the resolving of an intent begins again.
const AGAIN_PAUSE: Duration = Duration::from_millis(500);

/// That something is under way, which a newer schema is not announced before.
pub(super) struct UnderWay {
    process: Arc<Process>,
    generation: Generation,
}

impl UnderWay {
    /// None when the process leaves.
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

/// A record that is changed, or whose intent is resolved.
pub(super) struct Record {
    pub(super) common: Arc<Common>,
    pub(super) process: Arc<Process>,
    pub(super) collection: String,
    /// The cells of its key fields, in the schema's order, which is that of the base table's partition.
    pub(super) key: Cells,
    /// The same, as claims say it.
    pub(super) owner: KeyCells,
    /// Where the intent stands.
    place: Mutex<Option<IntentPlace>>,
    /// When the base row was begun to be read that it goes by, by the clock that never goes back.
    looked_nanos: AtomicU64,
    /// Why the last request failed.
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

    /// Its collection, as the schema that is held has it; none if that was dropped, and one of the name may have been made
    /// anew that has no such key.
    pub(super) fn known(&self) -> Option<Arc<Known>> {
        let known = self.common.known(&self.collection)?;
        is_key_of(known.base.table(), &self.key).then_some(known)
    }

    /// Remembers why something failed, for who is told that it did.
    pub(super) fn failed(&self, error: Error) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }

    fn failure(&self) -> Option<Error> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The base row, and beside it the intent; from the second attempt on after a pause. What follows may need a lease: it
    /// may have ended meanwhile.
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

    /// Waits for the lease, as long as it can be hoped for.
    async fn leased(&self) -> Result<()> {
        if !self.process.has_lease(&self.common) {
            // What is said if that takes too long.
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

    /// The intent is done with.
    pub(super) fn settle(&self) {
        let place = self.place.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(place) = place {
            self.process.settle(place);
        }
    }

    /// The catalog, until it is read.
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

    /// Sends the conditional write once.
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
                // Whether the own token is among them cannot be told.
                self.failed(stored(error));
                Decision::NotApplied(None)
            }
        }
    }

    /// The entries, until all are written, and the releases, or some came to lie in other buckets since the base row was read.
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

    /// Whether it is written; else it came to lie elsewhere.
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
        // It ends only when it is written: there is no other end to a change that is applied.
        let settled = settle(&self.common.environment, Policy::ENTRY, attempt).await;
        settled.unwrap_or(false)
    }

    /// Says that a version's entries are written; nobody waits, and one that does not come changes nothing.
    pub(super) async fn mark(&self, known: &Known, version: Version, ttl_seconds: Option<u32>) {
        let options = self.common.write_options();
        let marked = mark(known, &self.key, version, ttl_seconds);
        drop(self.common.store.write(marked, options).await);
    }

    /// Waits longer the more often it waited, by chance, so that those who met do not meet again.
    pub(super) async fn pause(&self, attempt: u32) {
        let doubled = 1_u32.checked_shl(attempt - 1).unwrap_or(u32::MAX);
        self.pause_about(FIRST_PAUSE.saturating_mul(doubled).min(MAX_PAUSE))
            .await;
    }

    /// Waits about as long: between half of it and one and a half.
    pub(super) async fn pause_about(&self, due: Duration) {
        let [drawn] = self.common.environment.random::<1>();
        tokio::time::sleep(due / 2 + due * u32::from(drawn) / 256).await;
    }

    pub(super) fn gone(&self) -> Error {
        Error::new(
            ErrorKind::NotFound,
            format!("collection {} was removed meanwhile", self.collection),
        )
    }

    /// Why nothing was written.
    pub(super) fn not_written(&self, why: NotWritten) -> Error {
        let failure = self.failure();
        match (why, failure) {
            (NotWritten::Failed, Some(failure)) => failure,
            (NotWritten::NoLease, _) => no_lease(),
            (NotWritten::Deadline | NotWritten::Failed, failure) => {
                let error = Error::new(ErrorKind::Timeout, "the change was not made in time")
                    .with_hint("nothing was written: try again, or raise request_timeout_ms of the store");
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
        .with_hint("it is decided soon: read the record, and compare its version");
        match self.failure() {
            Some(failure) => error.with_source(failure),
            None => error,
        }
    }
}

/// Whether these are cells of a table's partition key.
fn is_key_of(table: &Table, key: &Cells) -> bool {
    let columns = table.partition();
    let fits = |(column, cell): (&Column, Option<&[u8]>)| {
        cell.is_some_and(|cell| cell::validate(&column.ty, cell).is_ok())
    };
    columns.len() == key.len() && columns.iter().zip(key.iter()).all(fits)
}
