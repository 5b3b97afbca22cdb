//! This process as a writer: its registration, its lease, and the segments that contain its
//! intents.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use recto_protocol::views::member::RENEWAL_MICROS;
use recto_protocol::views::{
    Generation, Incarnation, IntentPlace, Joining, Member, Micros, Naming, Segments, Writer,
};
use recto_store::{CasOutcome, ConsistencyLevel, StoreError, StoreErrorKind, WriteOptions};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::common::Common;
use super::signal::Signal;
use super::{closed, no_lease};
use crate::error::{Error, ErrorKind, Result};

/// Interval between two renewals of this process's registration as a writer.
const RENEWAL_PAUSE: Duration = Duration::from_micros(RENEWAL_MICROS.unsigned_abs());
/// Minimum interval between two renewals of the registration, even if intents (records of
/// unfinished changes) need new segments.
const MIN_RENEWAL_PAUSE: Duration = Duration::from_millis(100);
/// Wait before a renewal of the registration with unknown outcome is sent again.
const AGAIN_PAUSE: Duration = Duration::from_millis(250);
/// Maximum number of attempts to register this process as a writer.
const MAX_REGISTRATIONS: u32 = 8;

/// Time in microseconds for which a plain write (a write without conditions) with unknown outcome
/// counts as running. A schema change waits for running writes.
const DOUBT_MICROS: Micros = 15_000_000;

/// This process with one registration as a writer. If the registration is lost, the process
/// registers again with a new identity.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) incarnation: Incarnation,
    state: Mutex<State>,
    /// Wakes the renewal of the registration before its time.
    wants_renewal: Notify,
    /// Signals that a renewal of the registration succeeded, or that it failed because too few
    /// replicas were alive.
    renewed: Signal,
    /// Wakes the deletion of segments (partitions of intents). A segment can be deleted if its
    /// intents were settled before a successful renewal.
    may_delete: Notify,
    is_lost: AtomicBool,
    lost: Signal,
    has_left: AtomicBool,
    left: Signal,
}

#[derive(Debug, Default)]
struct State {
    member: Member,
    segments: Segments,
    /// Segments (partitions of intents) that the unanswered renewal of the registration names;
    /// `None` if no renewal is unanswered.
    naming: Option<Naming>,
    /// For each segment of intents, by its id, the newest timestamp of an intent in it.
    newest: BTreeMap<u64, i64>,
    /// Timestamps of unsettled intents (records of unfinished changes), by their segment and row.
    unsettled: BTreeMap<IntentPlace, Micros>,
    /// For each generation of the schema, the time until which plain writes (without conditions)
    /// with unknown outcome may still be running. All plain writes of one generation with unknown
    /// outcome count as one.
    doubts: BTreeMap<Generation, Micros>,
    /// Error of the last renewal of the registration, if too few replicas were alive for the
    /// renewal.
    cut_off: Option<Arc<StoreError>>,
    /// True if no further change may begin, because the registration is about to be removed.
    is_leaving: bool,
}

/// Outcome of an attempt to renew the registration.
enum Renewal {
    Done,
    Lost,
    Unknown(StoreError),
}

impl Process {
    fn new(incarnation: Incarnation) -> Self {
        Self {
            incarnation,
            state: Mutex::default(),
            wants_renewal: Notify::new(),
            renewed: Signal::default(),
            may_delete: Notify::new(),
            is_lost: AtomicBool::new(false),
            lost: Signal::default(),
            has_left: AtomicBool::new(false),
            left: Signal::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers this process with a new identity and reads the catalog, in the order that
    /// [`Member`] prescribes.
    pub(super) async fn register(common: &Common) -> Result<Self> {
        common.store.check_decisions().map_err(|error| {
            let hint = error.hint().unwrap_or_default().to_owned();
            Error::new(ErrorKind::Unsupported, error.to_string())
                .with_hint(hint)
                .with_source(error)
        })?;
        common.tables.make(&common.store, &common.environment).await?;
        let process = Self::new(Incarnation(common.environment.random()));
        loop {
            let joining = process.lock().member.joining();
            match joining {
                Joining::Register => process.send_registration(common).await?,
                Joining::ReadCatalog => {
                    common.reload().await?;
                    process.lock().member.read(common.generation());
                }
                Joining::Joined => return Ok(process),
            }
        }
    }

    /// Sends the first registration, and repeats it until its outcome is known.
    async fn send_registration(&self, common: &Common) -> Result<()> {
        let mut attempts = 1;
        loop {
            match self.send_renewal(common).await {
                Renewal::Done => return Ok(()),
                Renewal::Unknown(error) if attempts == MAX_REGISTRATIONS => return Err(error.into()),
                Renewal::Unknown(_) => tokio::time::sleep(AGAIN_PAUSE).await,
                Renewal::Lost => return Err(not_registered()),
            }
            attempts += 1;
        }
    }

    /// Renews the registration until it is lost or the writer has ended. Deletes segments concurrently, so that slow
    /// deletions do not delay renewals.
    pub(super) async fn run(&self, common: &Common) {
        let deleting = async {
            loop {
                self.may_delete.notified().await;
                self.delete_segments(common).await;
            }
        };
        tokio::select! {
            biased;
            () = self.renew(common) => {}
            () = deleting => {}
        }
    }

    async fn renew(&self, common: &Common) {
        let mut pause = Duration::ZERO;
        loop {
            tokio::select! {
                biased;
                () = self.no_more_writes(common) => {
                    if self.leave(common).await {
                        return;
                    }
                    pause = RENEWAL_PAUSE;
                    continue;
                }
                () = self.wanted() => {}
                () = tokio::time::sleep(pause) => {}
            }
            // Ignore a timeout, because the schema is read again before the next renewal.
            let _ = timeout(RENEWAL_PAUSE, common.look_at_schema()).await;
            pause = match self.send_renewal(common).await {
                Renewal::Done => {
                    self.may_delete.notify_one();
                    RENEWAL_PAUSE
                }
                Renewal::Lost => {
                    Common::count(&common.counts.lost);
                    self.is_lost.store(true, Ordering::Release);
                    self.lost.give();
                    return;
                }
                Renewal::Unknown(error) => {
                    self.cut_off(error);
                    AGAIN_PAUSE
                }
            };
        }
    }

    async fn no_more_writes(&self, common: &Common) {
        common.ended().await;
        while !self.lock().member.is_idle() {
            tokio::time::sleep(AGAIN_PAUSE).await;
        }
    }

    /// Removes the registration, so that no process has to detect the end of this process. First
    /// renews the registration once more, and deletes the segments of intents, which are all
    /// settled. If a request fails, other processes declare this process dead and clean up. Returns
    /// false, and removes nothing, if a change began in the meantime.
    async fn leave(&self, common: &Common) -> bool {
        let is_renewed = matches!(self.send_renewal(common).await, Renewal::Done);
        if is_renewed {
            self.delete_segments(common).await;
        }
        let counter = {
            let mut state = self.lock();
            if !state.member.is_idle() {
                return false;
            }
            state.is_leaving = true;
            let is_clear = is_renewed && state.segments.is_clear();
            state.member.counter().filter(|_| is_clear)
        };
        self.renewed.give();
        if let Some(counter) = counter {
            let options = WriteOptions {
                consistency: Some(ConsistencyLevel::Serial),
                ..common.write_options()
            };
            let leaving = common.tables.leaving(self.incarnation, counter);
            drop(common.store.cas(leaving, options).await);
        }
        self.has_left.store(true, Ordering::Release);
        self.left.give();
        true
    }

    /// Waits until the process has removed its registration, or has failed to do so.
    pub(super) async fn left(&self) {
        let has_left = || self.has_left.load(Ordering::Acquire).then_some(());
        tokio::select! {
            () = self.left.until(has_left) => {}
            () = self.lost() => {}
        }
    }

    async fn wanted(&self) {
        self.wants_renewal.notified().await;
        tokio::time::sleep(MIN_RENEWAL_PAUSE).await;
    }

    async fn send_renewal(&self, common: &Common) -> Renewal {
        let (cas, naming) = {
            let mut state = self.lock();
            if state.member.counter().is_some() {
                state.member.read(common.generation());
            }
            let now = common.continuous_micros();
            state.end_doubts(now);
            let counter = state.member.counter();
            let registration = state.member.renewal(now);
            let naming = state.segments.renewing();
            let naming = state.naming.get_or_insert(naming).clone();
            let writer = Writer::new(registration, naming.names.clone());
            (common.tables.renewal(self.incarnation, &writer, counter), naming)
        };
        let options = WriteOptions {
            consistency: Some(ConsistencyLevel::Serial),
            timeout: RENEWAL_PAUSE,
            ..common.write_options()
        };
        let outcome = common.store.cas(cas, options).await;
        let answered = common.continuous_micros();
        let mut state = self.lock();
        let is_done = match outcome {
            Ok(CasOutcome::Applied) => {
                state.member.renewed(answered);
                true
            }
            Ok(CasOutcome::NotApplied { current }) => state.member.refused(counter_of(&current), answered),
            // A renewal that was not sent now may have been applied by an earlier attempt, so its
            // outcome is unknown.
            Ok(CasOutcome::Unknown(error) | CasOutcome::Refused(error)) | Err(error) => {
                return Renewal::Unknown(error);
            }
        };
        state.naming = None;
        state.cut_off = None;
        if !is_done {
            return Renewal::Lost;
        }
        state.segments.renewed(&naming);
        drop(state);
        self.renewed.give();
        Renewal::Done
    }

    /// Stores the error of a renewal if too few replicas were alive for it, so that callers that
    /// wait for a lease can stop waiting.
    fn cut_off(&self, error: StoreError) {
        let cut_off = (error.kind() == StoreErrorKind::Unavailable).then(|| Arc::new(error));
        self.lock().cut_off = cut_off;
        self.renewed.give();
    }

    /// Deletes each segment (partition of intents) whose intents are all settled.
    async fn delete_segments(&self, common: &Common) {
        let deletable = self.lock().segments.deletable();
        for segment in deletable {
            let newest = self.lock().newest.get(&segment).copied();
            let newest = newest.unwrap_or_else(|| common.environment.now_micros());
            let deletion = common.tables.deletion(self.incarnation, segment, newest);
            // Forget the segment only after a successful deletion. Otherwise, the deletion is
            // repeated after the next renewal.
            if common.write_within(deletion, RENEWAL_PAUSE).await.is_ok() {
                let mut state = self.lock();
                state.segments.deleted(segment);
                state.newest.remove(&segment);
            }
        }
    }

    /// Returns whether the process has a lease, so that it may send conditional writes and entries
    /// now.
    pub(super) fn has_lease(&self, common: &Common) -> bool {
        let state = self.lock();
        !state.is_leaving && state.member.has_lease(common.continuous_micros())
    }

    /// Waits until the process has a lease. Never returns if the process can no longer get one.
    pub(super) async fn leased(&self, common: &Common) {
        self.renewed.until(|| self.has_lease(common).then_some(())).await;
    }

    /// Waits until the process has a lease or is declared dead. Returns whether it has a lease.
    pub(super) async fn leased_unless_lost(&self, common: &Common) -> bool {
        tokio::select! {
            biased;
            () = self.lost() => false,
            () = self.leased(common) => true,
        }
    }

    /// Waits until the process has a lease, while it can still get one.
    ///
    /// # Errors
    /// Too few replicas are alive, or the store is closed.
    pub(super) async fn leased_soon(&self, common: &Common) -> Result<()> {
        let asked = || {
            if self.has_lease(common) {
                return Some(Ok(()));
            }
            let state = self.lock();
            if state.is_leaving {
                return Some(Err(closed()));
            }
            let cut_off = state.cut_off.clone()?;
            Some(Err(no_lease().with_source(cut_off)))
        };
        self.renewed.until(asked).await
    }

    /// Counts the beginning of a write or resolution, and returns the generation of the schema that
    /// it uses. Returns `None` if the process is about to remove its registration.
    pub(super) fn began(&self, common: &Common) -> Option<Generation> {
        let mut state = self.lock();
        if state.is_leaving {
            return None;
        }
        state.member.read(common.generation());
        state.member.began()
    }

    /// Counts the end of a write or resolution that used the schema with this generation.
    pub(super) fn ended(&self, generation: Generation) {
        self.lock().member.ended(generation);
    }

    /// Records that a plain write (without conditions) that used the schema `generation` has an
    /// unknown outcome. It counts as running for some time.
    pub(super) fn doubted(&self, generation: Generation, now: Micros) {
        let mut state = self.lock();
        if state
            .doubts
            .insert(generation, now.saturating_add(DOUBT_MICROS))
            .is_some()
        {
            state.member.ended(generation);
        }
    }

    /// Makes the next renewal of the registration start without waiting for its interval.
    pub(super) fn renew_now(&self) {
        self.wants_renewal.notify_one();
    }

    /// Reserves a row in a segment for an intent with the timestamp `stamp`. Waits while all
    /// segments are full.
    pub(super) async fn place(&self, stamp: i64) -> IntentPlace {
        let place = || {
            let place = self.note(stamp);
            if place.is_none() {
                self.wants_renewal.notify_one();
            }
            place
        };
        self.renewed.until(place).await
    }

    fn note(&self, stamp: i64) -> Option<IntentPlace> {
        let mut state = self.lock();
        let place = state.segments.note()?;
        state.unsettled.insert(place, stamp);
        let newest = state.newest.entry(place.segment).or_insert(stamp);
        *newest = stamp.max(*newest);
        if state.segments.is_half_full() {
            self.wants_renewal.notify_one();
        }
        Some(place)
    }

    /// Returns the number of intents (records of unfinished changes) of this process that are not
    /// settled.
    pub(super) fn intents(&self) -> u64 {
        self.lock().segments.unsettled()
    }

    /// Returns the age in seconds of the oldest intent that is not settled; 0 without intents.
    pub(super) fn oldest_intent_seconds(&self, common: &Common) -> u64 {
        let oldest = self.lock().unsettled.values().min().copied();
        let age_micros = oldest.map_or(0, |stamp| common.environment.now_micros().saturating_sub(stamp));
        u64::try_from(age_micros / 1_000_000).unwrap_or(0)
    }

    /// Marks an intent as settled: its change is complete, so its row can be deleted.
    pub(super) fn settle(&self, place: IntentPlace) {
        let mut state = self.lock();
        state.segments.settle(place);
        state.unsettled.remove(&place);
    }

    /// Returns whether another process declared this process dead.
    pub(super) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// Waits until another process declares this process dead.
    pub(super) async fn lost(&self) {
        self.lost.until(|| self.is_lost().then_some(())).await;
    }
}

impl State {
    /// Stops counting plain writes with unknown outcome as running when their time is over.
    fn end_doubts(&mut self, now: Micros) {
        let Self { doubts, member, .. } = self;
        doubts.retain(|generation, until| {
            let lasts = now < *until;
            if !lasts {
                member.ended(*generation);
            }
            lasts
        });
    }
}

/// Returns the stored counter of the registration, which a rejected renewal found.
fn counter_of(current: &[Option<Vec<u8>>]) -> Option<u64> {
    let cell = current.first()?.as_deref()?;
    Some(u64::from_be_bytes(cell.try_into().ok()?))
}

/// Returns the error that the first registration of a process was lost. No other process has its
/// identity, so another process declared it dead before it began.
fn not_registered() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "other processes declared this process dead, because its registration as a writer took too long",
    )
    .with_hint("try again; nothing was written")
}
