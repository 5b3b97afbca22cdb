//! Second reads and repairs of suspected differences between a view and its records.

use std::time::Duration;

use futures::FutureExt as _;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use recto_model::Environment;
use recto_protocol::views::collection::KeyCells;
use recto_protocol::views::row::CLOCKS_APART_MICROS;
use recto_protocol::views::{Difference, Version, difference};
use recto_store::PartitionWrite;

use super::group_repair::repair_group;
use crate::beside::{RecordKey, RecordRow, Sent, StoredEntry, ViewComparer, send};
use crate::catalog::Catalog;
use crate::error::Result;
use crate::settle::patiently;

/// Number of suspects (suspected differences) of a remote store that are repaired concurrently.
const PARALLEL_REPAIRS: usize = 64;
/// Number of suspects (suspected differences) of a remote store that are read and repaired together.
/// Large chunks have more entries of the same partition, which share requests.
const CHUNK: usize = 2_048;
/// Number of chunks of suspects that are read concurrently.
const PARALLEL_CHUNKS: usize = 2;
/// Maximum number of attempts to repair one suspect. An attempt fails if rows move to other buckets
/// during it.
const MAX_MENDINGS: u32 = 16;
/// Minimum time between the two reads of a suspect of a remote store. In this time, a running write may
/// resolve the suspect. While a chunk waits, the suspects of earlier chunks are repaired.
const LOOK_PAUSE: Duration = Duration::from_secs(1);

/// Suspected difference between a view and its records, found by the first read of both.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Suspect {
    /// Entry of the view, given by its key, that may be wrong.
    Entry(KeyCells),
    /// Entry that the view may lack, and the record that it belongs to.
    Missing { record: RecordKey, entry: KeyCells },
}

/// Suspect, and the time at which it was found, in nanoseconds of the monotonic clock.
pub(super) type FoundSuspect = (Suspect, u64);

impl Suspect {
    /// Returns the key of the record that the suspect belongs to.
    fn record(&self, beside: &ViewComparer) -> RecordKey {
        match self {
            Self::Entry(key) => beside.key_of_entry(key),
            Self::Missing { record, .. } => record.clone(),
        }
    }

    /// Returns the key of the entry that may be wrong or missing.
    fn entry(&self) -> &KeyCells {
        match self {
            Self::Entry(key) | Self::Missing { entry: key, .. } => key,
        }
    }
}

/// Confirmed difference between a view and its records.
#[derive(Debug)]
pub(super) struct Wrong {
    pub(super) kind: Difference,
    pub(super) record: RecordKey,
    /// Key of the entry that is wrong or missing.
    pub(super) key: KeyCells,
    /// Stored entry and stored record, if they exist.
    pub(super) entry: Option<StoredEntry>,
    pub(super) row: Option<RecordRow>,
    /// Time at which the reads of the entry and the record began, by the monotonic clock.
    pub(super) looked_nanos: u64,
    pub(super) outcome: Outcome,
}

impl Wrong {
    /// Returns the suspect (suspected difference) that led to this confirmed difference.
    pub(super) fn suspect(&self) -> Suspect {
        match &self.entry {
            Some(_) => Suspect::Entry(self.key.clone()),
            None => Suspect::Missing {
                record: self.record.clone(),
                entry: self.key.clone(),
            },
        }
    }
}

/// Outcome of the repair of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The difference was not repaired.
    Left,
    Repaired,
    /// The difference cannot be repaired, for this reason.
    Stays(&'static str),
}

const OF_THE_FUTURE: &str =
    "its write timestamp is ahead of this machine's clock, so that no write of today can replace it";
const WITHOUT_TIMESTAMP: &str = "the store does not report when it was written, and it is less than an hour old: repair again \
                                 an hour later";
const MOVES: &str = "a split moved its rows at each attempt: repair again when no split is under way";

/// Reads all suspects (suspected differences) again. Returns the confirmed differences in the order
/// of the suspects, and repairs them if `mends` is true.
pub(super) async fn settle_all(
    beside: &ViewComparer,
    suspects: Vec<FoundSuspect>,
    mends: bool,
) -> Result<Vec<Wrong>> {
    if !beside.is_remote() {
        let settled = suspects
            .into_iter()
            .map(|(suspect, _)| settle(beside.clone(), suspect, mends).boxed());
        return side_by_side(settled, 1).await;
    }
    let environment = &beside.core.shared.environment;
    if !mends {
        return in_chunks(environment, suspects, |chunk| wrong_among(beside, chunk)).await;
    }
    in_chunks(environment, suspects, |chunk| repair(beside.clone(), chunk)).await
}

/// Repairs suspects (suspected differences) of a remote store. Repairs that need only one write are
/// sent in a group, all others individually.
async fn repair(beside: ViewComparer, suspects: Vec<Suspect>) -> Result<Vec<Wrong>> {
    let environment = &beside.core.shared.environment;
    let repaired = patiently(environment, || repair_group(beside.clone(), suspects.clone())).await?;
    let results = suspects.into_iter().zip(repaired);
    let results = results.map(|(suspect, repaired)| match repaired {
        Some(wrong) => std::future::ready(Ok(Some(wrong))).boxed(),
        None => settle(beside.clone(), suspect, true).boxed(),
    });
    side_by_side(results, PARALLEL_REPAIRS).await
}

/// Processes suspects (suspected differences) in chunks of [`CHUNK`], each after its pause, and concatenates
/// the results.
async fn in_chunks<F>(
    environment: &Environment,
    suspects: Vec<FoundSuspect>,
    work: impl Fn(Vec<Suspect>) -> F,
) -> Result<Vec<Wrong>>
where
    F: Future<Output = Result<Vec<Wrong>>>,
{
    let chunks = suspects.chunks(CHUNK).map(|chunk| {
        let found_nanos = chunk.iter().map(|(_, nanos)| *nanos).max().unwrap_or_default();
        let work = work(chunk.iter().map(|(suspect, _)| suspect.clone()).collect());
        async move {
            let passed = environment.monotonic_nanos().saturating_sub(found_nanos);
            tokio::time::sleep(LOOK_PAUSE.saturating_sub(Duration::from_nanos(passed))).await;
            work.await
        }
    });
    let chunks: Vec<_> = chunks.collect();
    stream::iter(chunks).buffered(PARALLEL_CHUNKS).try_concat().await
}

/// Reads suspects (suspected differences) for the second time, at quorum, and returns the confirmed
/// differences. Repairs nothing.
async fn wrong_among(beside: &ViewComparer, suspects: Vec<Suspect>) -> Result<Vec<Wrong>> {
    patiently(&beside.core.shared.environment, || look_again(beside, &suspects)).await
}

/// Reads suspects (suspected differences) for the second time. Reads each record after its entry,
/// so that the record shows whether the entry is current.
pub(super) async fn look_again(beside: &ViewComparer, suspects: &[Suspect]) -> Result<Vec<Wrong>> {
    let looked_nanos = beside.core.shared.environment.monotonic_nanos();
    let snapshot = beside.core.shared.store.snapshot()?;
    let keys: Vec<&KeyCells> = suspects.iter().map(Suspect::entry).collect();
    let entries = beside.read_entries(&*snapshot, &keys).await?;
    let records: Vec<RecordKey> = suspects.iter().map(|suspect| suspect.record(beside)).collect();
    let rows = beside
        .read_records(&*snapshot, &records.iter().collect::<Vec<_>>())
        .await?;
    let mut wrong = Vec::new();
    for (((suspect, there), record), row) in suspects.iter().zip(entries).zip(records).zip(rows) {
        let key = suspect.entry();
        let is_looked_at = match suspect {
            Suspect::Entry(_) => there.is_some(),
            // Only a missing entry is judged here, because the scan of the view compares
            // the existing entries.
            Suspect::Missing { .. } => {
                let expected = row.as_ref().and_then(|row| beside.entry(row));
                there.is_none() && expected.is_some_and(|expected| expected.key.key == *key)
            }
        };
        let kind = differs(beside, there.as_ref(), row.as_ref()).filter(|_| is_looked_at);
        let Some(kind) = kind else { continue };
        if beside.is_hidden(key).await? {
            continue;
        }
        let mut one = Wrong {
            kind,
            record,
            key: key.clone(),
            entry: there,
            row,
            looked_nanos,
            outcome: Outcome::Left,
        };
        one.outcome = foreseen(beside, &one);
        wrong.push(one);
    }
    Ok(wrong)
}

/// Awaits the results of suspects (suspected differences), `at_once` at a time. Returns the
/// confirmed differences in the order of the suspects.
async fn side_by_side<F>(results: impl Iterator<Item = F>, at_once: usize) -> Result<Vec<Wrong>>
where
    F: Future<Output = Result<Option<Wrong>>>,
{
    stream::iter(results)
        .buffered(at_once)
        .try_filter_map(|wrong| async { Ok(wrong) })
        .try_collect()
        .await
}

/// Reads a suspect (suspected difference) again, and repairs it if `mends` is true. Returns `None`
/// if no difference is found.
async fn settle(beside: ViewComparer, suspect: Suspect, mends: bool) -> Result<Option<Wrong>> {
    let environment = &beside.core.shared.environment;
    let mut met = None;
    for _ in 0..MAX_MENDINGS {
        let found = patiently(environment, || look(&beside, &suspect)).await?;
        let Some(mut wrong) = found else {
            return Ok(met.map(|wrong| Wrong {
                outcome: Outcome::Repaired,
                ..wrong
            }));
        };
        if !mends {
            wrong.outcome = foreseen(&beside, &wrong);
            return Ok(Some(wrong));
        }
        if let Some(outcome) = patiently(environment, || repair_at_once(&beside, &wrong)).await? {
            wrong.outcome = outcome;
            return Ok(Some(wrong));
        }
        met = Some(wrong);
    }
    Ok(met.map(|wrong| Wrong {
        outcome: Outcome::Stays(MOVES),
        ..wrong
    }))
}

async fn look(beside: &ViewComparer, suspect: &Suspect) -> Result<Option<Wrong>> {
    match suspect {
        Suspect::Entry(key) => look_at_entry(beside, key).await,
        Suspect::Missing { record, .. } => look_at_record(beside, record).await,
    }
}

/// Reads an entry, then its record, and returns the difference between them, if any.
async fn look_at_entry(beside: &ViewComparer, key: &KeyCells) -> Result<Option<Wrong>> {
    let looked_nanos = beside.core.shared.environment.monotonic_nanos();
    let snapshot = beside.core.shared.store.snapshot()?;
    let Some(there) = beside.read_entry(&*snapshot, key).await? else {
        return Ok(None);
    };
    let record = beside.key_of_entry(key);
    let row = beside.read_record(&*snapshot, &record).await?;
    let kind = differs(beside, Some(&there), row.as_ref());
    if kind.is_some() && beside.is_hidden(key).await? {
        return Ok(None);
    }
    Ok(kind.map(|kind| Wrong {
        kind,
        record,
        key: key.clone(),
        entry: Some(there),
        row,
        looked_nanos,
        outcome: Outcome::Left,
    }))
}

/// Reads a record, and returns a difference if its entry is missing. Ignores an entry that differs,
/// because the scan of the view finds it.
async fn look_at_record(beside: &ViewComparer, key: &RecordKey) -> Result<Option<Wrong>> {
    let looked_nanos = beside.core.shared.environment.monotonic_nanos();
    let snapshot = beside.core.shared.store.snapshot()?;
    let Some(row) = beside.read_record(&*snapshot, key).await? else {
        return Ok(None);
    };
    let Some(entry) = beside.entry(&row) else {
        return Ok(None);
    };
    if beside.read_entry(&*snapshot, &entry.key.key).await?.is_some() {
        return Ok(None);
    }
    let row = beside.read_record(&*snapshot, key).await?;
    let stands_there = row.as_ref().and_then(|row| beside.entry(row));
    if stands_there.is_none_or(|now| now.key != entry.key) {
        return Ok(None);
    }
    let kind = differs(beside, None, row.as_ref());
    if kind.is_some() && beside.is_hidden(&entry.key.key).await? {
        return Ok(None);
    }
    Ok(kind.map(|kind| Wrong {
        kind,
        record: key.clone(),
        key: entry.key.key,
        entry: None,
        row,
        looked_nanos,
        outcome: Outcome::Left,
    }))
}

pub(super) fn differs(
    beside: &ViewComparer,
    there: Option<&StoredEntry>,
    row: Option<&RecordRow>,
) -> Option<Difference> {
    let now = beside.core.shared.environment.now_micros();
    let (seen, number) = (there.map(|there| &there.seen), beside.view.number());
    let mut row = row.cloned();
    if let (Some(row), Some(seen)) = (&mut row, seen)
        && !beside.has_versions()
    {
        // If records have no versions, an entry may have any version, so expect the version that
        // the stored entry has.
        row.version = seen.version.max(Version(1));
    }
    difference(seen, row.as_ref(), number, beside.schema(), now)
}

/// Returns the outcome of a repair, as far as it is known without an attempt.
fn foreseen(beside: &ViewComparer, wrong: &Wrong) -> Outcome {
    let now = beside.core.shared.environment.now_micros();
    let latest = if beside.has_versions() {
        now.saturating_add(CLOCKS_APART_MICROS)
    } else {
        now
    };
    let stamp = wrong.entry.as_ref().map_or(0, |there| there.written.stamp);
    if beside.is_remote() && wrong.kind != Difference::Orphan && stamp > latest {
        Outcome::Stays(OF_THE_FUTURE)
    } else {
        Outcome::Left
    }
}

/// Repairs a difference, then reads whether it is gone. Returns `None` if rows have moved to other
/// buckets since the difference was found, so that nothing was repaired.
async fn repair_at_once(beside: &ViewComparer, wrong: &Wrong) -> Result<Option<Outcome>> {
    if beside.has_versions() && beside.is_remote() {
        mend_by_version(beside, wrong).await
    } else {
        mend_by_stamp(beside, wrong).await
    }
}

/// Repairs an entry in a collection whose records have versions. The version of a change is also
/// the timestamp of its entries. An entry that is older than its record is removed or overwritten.
/// If an entry is newer than its record, the version of the record is first raised above the
/// entry's timestamp.
async fn mend_by_version(beside: &ViewComparer, wrong: &Wrong) -> Result<Option<Outcome>> {
    let shared = &beside.core.shared;
    let stamp = wrong.entry.as_ref().map_or(0, |there| there.written.stamp);
    let latest = shared
        .environment
        .now_micros()
        .saturating_add(CLOCKS_APART_MICROS);
    if let (Difference::Orphan, Some(there)) = (wrong.kind, &wrong.entry) {
        // A later version of the record must be greater than the timestamp of the deletion, so
        // raise the version first.
        let newest = wrong.row.as_ref().map_or(0, |row| row.version.0);
        let raised = if stamp == 0 || (newest < stamp && stamp <= latest) {
            beside.raise(&wrong.record, Version(stamp)).await?
        } else {
            None
        };
        let at = if stamp == 0 {
            raised.map(Version::before)
        } else {
            Some(Version(stamp))
        };
        let removed = at.and_then(|at| beside.remove(&there.seen.key.key, at.0));
        if write(beside, wrong, removed).await? == Sent::Moved {
            return Ok(None);
        }
        return is_right(beside, wrong, OF_THE_FUTURE).await.map(Some);
    }
    let put = wrong.row.as_ref().and_then(|row| beside.put(row));
    if write(beside, wrong, put).await? == Sent::Moved {
        return Ok(None);
    }
    let first = is_right(beside, wrong, OF_THE_FUTURE).await?;
    if first == Outcome::Repaired || stamp > latest {
        return Ok(Some(first));
    }
    // The put had no effect, because the stored or deleted entry is newer than the record. So raise
    // the record's version above the entry's timestamp.
    beside.raise(&wrong.record, Version(stamp)).await?;
    is_right(beside, wrong, OF_THE_FUTURE).await.map(Some)
}

/// Repairs an entry by its write timestamp, which only the store reports. Used for records without
/// versions and for local stores.
async fn mend_by_stamp(beside: &ViewComparer, wrong: &Wrong) -> Result<Option<Outcome>> {
    let shared = &beside.core.shared;
    let stamp = wrong.entry.as_ref().map(|there| there.written.stamp);
    let mut otherwise = OF_THE_FUTURE;
    let removed = match (&wrong.entry, stamp) {
        (Some(there), Some(stamp)) if wrong.kind == Difference::Orphan || !beside.is_remote() => {
            let stamp = match stamp {
                // On a remote store, choose a timestamp that is less than that of every later put
                // of the record, by any clock.
                0 if beside.is_remote() => {
                    otherwise = WITHOUT_TIMESTAMP;
                    shared.environment.now_micros() - CLOCKS_APART_MICROS
                }
                // A local store keeps no tombstones, so any timestamp works.
                0 => shared.stamps.next().0,
                stamp => stamp,
            };
            beside.remove(&there.seen.key.key, stamp)
        }
        _ => None,
    };
    if write(beside, wrong, removed).await? == Sent::Moved {
        return Ok(None);
    }
    let put = wrong.row.as_ref().filter(|_| wrong.kind != Difference::Orphan);
    let Some(row) = put else {
        return is_right(beside, wrong, otherwise).await.map(Some);
    };
    if write(beside, wrong, beside.put(row)).await? == Sent::Moved {
        return Ok(None);
    }
    let first = is_right(beside, wrong, OF_THE_FUTURE).await?;
    if first == Outcome::Repaired {
        return Ok(Some(first));
    }
    // The put had no effect, because the entry was stored or deleted at a greater timestamp than
    // the reported timestamp. So put the entry again at a greater timestamp.
    let now = shared.environment.now_micros();
    let above = stamp
        .filter(|stamp| *stamp > row.version.0)
        .map_or(now, |stamp| stamp + 1);
    if above > now {
        return Ok(Some(Outcome::Stays(OF_THE_FUTURE)));
    }
    if write(beside, wrong, beside.put_at(row, above)).await? == Sent::Moved {
        return Ok(None);
    }
    is_right(beside, wrong, OF_THE_FUTURE).await.map(Some)
}

/// Sends the write of a repair. The store rejects it as moved if rows have moved since the
/// difference was found.
async fn write(beside: &ViewComparer, wrong: &Wrong, mending: Option<PartitionWrite>) -> Result<Sent> {
    let shared = &beside.core.shared;
    send(
        shared,
        mending.into_iter().collect(),
        false,
        Some(wrong.looked_nanos),
    )
    .await
}

async fn is_right(beside: &ViewComparer, wrong: &Wrong, otherwise: &'static str) -> Result<Outcome> {
    let mut left = look_at_record(beside, &wrong.record).await?;
    if let (None, Some(there)) = (&left, &wrong.entry) {
        left = look_at_entry(beside, &there.seen.key.key).await?;
    }
    Ok(match left {
        None => Outcome::Repaired,
        Some(_) => Outcome::Stays(otherwise),
    })
}

/// Locks out writes of this process to a local store. While the lock is held, no write runs or
/// waits in the queue of the store. A local store keeps no tombstones. Without the lock, a late put
/// could therefore restore an entry that a repair has deleted. Returns `None` for a remote store.
pub(crate) async fn undisturbed(
    shared: &crate::shared::Shared,
) -> Result<Option<tokio::sync::RwLockWriteGuard<'_, ()>>> {
    if shared.store.limits().remote {
        return Ok(None);
    }
    let alone = shared.alone().await;
    Catalog::new(&shared.store, &shared.environment, None)
        .wait_its_turn()
        .await?;
    Ok(Some(alone))
}
