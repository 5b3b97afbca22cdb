//! Cached data of one live segment.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use recto_protocol::queues::{
    Chunk, Entry, Head, Log, Micros, OpenGroups, Order, Pending, Receipt, Recent, Register as _, Segment,
    Seq, Standing, State, StateContext, Target, Version,
};

use crate::cas_loop::CasLoop;
use crate::error::Result;
use crate::register_tables::{ClaimsBackend, LogBackend, read_log};

/// Cached data of a live segment (run of messages in a shard that is not released yet) in this
/// process.
pub(crate) struct LiveSegment {
    pub(crate) number: Segment,
    pub(crate) log: Arc<CasLoop<LogBackend>>,
    pub(crate) claims: Arc<CasLoop<ClaimsBackend>>,
    /// True while a task moves messages out of the segment.
    pub(crate) has_transfers: AtomicBool,
    open_groups: Mutex<Option<CachedGroups>>,
    in_flight: Mutex<Option<CachedInFlight>>,
    /// Number of messages that were checked for expiry, and the earliest due time of these
    /// messages. The retention of a message counts from its due time.
    first_due: Mutex<(Seq, Micros)>,
}

/// Message that is not resolved yet, as the cached log and state of its segment describe it.
pub(crate) struct UnresolvedMessage {
    pub(crate) seq: Seq,
    pub(crate) chunk: Chunk,
    pub(crate) entry: Entry,
    pub(crate) pending: Option<Pending>,
}

/// Groups with unresolved messages, and the versions of the log and the state from which the groups
/// were computed.
type CachedGroups = ((Version, Version), Arc<OpenGroups>);

/// Cached number of messages in flight. `counted_nanos` is the time of the count, and `version` the version
/// of the state.
#[derive(Clone, Copy)]
struct CachedInFlight {
    version: Version,
    counted_nanos: u64,
    count: usize,
}

/// Time for which a cached number of messages in flight is valid, in nanoseconds. The time is short
/// because a visibility timeout ends without a change of the state.
const COUNT_NANOS: u64 = 1_000_000_000;

impl LiveSegment {
    /// Creates the empty cache of a segment, without reading from the store.
    pub(crate) fn new(
        number: Segment,
        log: LogBackend,
        claims: impl FnOnce(Arc<CasLoop<LogBackend>>) -> ClaimsBackend,
    ) -> Self {
        let log = CasLoop::new(log);
        Self {
            number,
            claims: CasLoop::new(claims(Arc::clone(&log))),
            log,
            has_transfers: AtomicBool::new(false),
            open_groups: Mutex::default(),
            in_flight: Mutex::default(),
            first_due: Mutex::new((0, Micros::MAX)),
        }
    }

    /// Reads the log and the state if they are not cached. With `anew`, reads both again because other
    /// processes may have changed them, except for parts that cannot have changed.
    pub(crate) async fn load(&self, anew: bool) -> Result<()> {
        // A sealed log does not change, so a cached sealed log is not read again.
        let is_sealed = self.with_log(|log| log.sealed().is_some()) == Some(true);
        let is_read = !is_sealed && (anew || self.log.with_cached(|log| log.is_none()));
        let log = async {
            if is_read {
                self.log.read().await?;
            }
            Ok(())
        };
        let is_state_known = self.claims.with_cached(|state| state.is_some());
        if anew && is_state_known && self.is_empty() {
            // All cached messages are resolved, and stay resolved, so read the state only if the log shows
            // new messages.
            log.await?;
            return if self.is_empty() {
                Ok(())
            } else {
                self.load_claims(anew).await
            };
        }
        let (log, state) = futures::future::join(log, self.load_claims(anew)).await;
        log.and(state)
    }

    /// Reads the state of the segment (which messages are resolved or claimed) if it is not cached,
    /// or if `anew` is set.
    pub(crate) async fn load_claims(&self, anew: bool) -> Result<()> {
        if anew || self.claims.with_cached(|state| state.is_none()) {
            self.claims.read().await?;
        }
        Ok(())
    }

    /// Returns whether no request to the segment is in progress. Without requests, the log has two
    /// references, one of them in the state.
    pub(crate) fn is_idle(&self) -> bool {
        Arc::strong_count(&self.log) == 2 && Arc::strong_count(&self.claims) == 1
    }

    /// Sets the groups of an ordered queue whose messages in the segment must wait for earlier
    /// segments.
    pub(crate) fn set_order(&self, order: Order) {
        let known = &self.claims.backend.order;
        *known.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(order));
    }

    /// Returns the groups that have unresolved messages in the segment, by cached data. Computes
    /// the groups once for each version of the log and the state. Returns `None` if the log or the
    /// state is not cached.
    pub(crate) fn open_groups(&self) -> Option<Arc<OpenGroups>> {
        self.claims.with_cached(|state| {
            self.log.with_cached(|log| {
                let (log, state) = (log?, state?);
                let versions = (log.version(), state.version());
                let mut known = self.open_groups.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some((of, open)) = &*known
                    && *of == versions
                {
                    return Some(Arc::clone(open));
                }
                let open = Arc::new(OpenGroups::of(self.number, log, state)?);
                *known = Some((versions, Arc::clone(&open)));
                Some(open)
            })
        })
    }

    /// Returns whether a claim (reservation for a receiver) would get a message, by cached data.
    pub(crate) fn may_claim(&self) -> bool {
        self.with_state(State::may_claim)
    }

    /// Returns the number of messages that are claimed, given back or being moved, by cached data.
    pub(crate) fn count_pending(&self) -> usize {
        self.with_own_state(|state| state.pending().len()).unwrap_or(0)
    }

    /// Returns the number of messages that receivers have, by cached data.
    pub(crate) fn count_in_flight(&self) -> usize {
        let backend = &self.claims.backend;
        let now_nanos = backend.context.environment.monotonic_nanos();
        self.claims.with_cached(|state| {
            let Some(state) = state else { return 0 };
            let mut known = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
            let is_fresh = |known: &CachedInFlight| {
                known.version == state.version()
                    && now_nanos.saturating_sub(known.counted_nanos) < COUNT_NANOS
            };
            if let Some(known) = known.filter(is_fresh) {
                return known.count;
            }
            let count = backend.with_context(|context| state.count_in_flight(context));
            *known = Some(CachedInFlight {
                version: state.version(),
                counted_nanos: now_nanos,
                count,
            });
            count
        })
    }

    /// Returns whether the log and the state of the segment are cached.
    pub(crate) fn is_known(&self) -> bool {
        self.with_log(|_| ()).is_some() && self.claims.with_cached(|state| state.is_some())
    }

    /// Returns whether a claim (reservation for a receiver) would get a message that was never
    /// received, by cached data.
    pub(crate) fn has_new(&self) -> bool {
        self.with_state(State::has_new)
    }

    /// Returns the time from which a message can be received, by cached data. `None`: no message can be
    /// received until one is sent, given back or resolved.
    pub(crate) fn due(&self) -> Option<Micros> {
        self.with_state(State::due)
    }

    /// Records the time until which polls skip the segment. Does so only if all its unresolved messages wait
    /// and no change of the state is in progress. Callers must make sure that no other process changes the
    /// segment.
    pub(crate) fn record_not_due(&self) {
        let backend = &self.claims.backend;
        self.claims.with_idle_cached(|state| {
            let until = backend.with_context(|context| state.waits_until(context));
            if let Some(until) = until {
                backend.idle_segments.record_not_due(self.number, until);
            }
        });
    }

    /// Records that the maintenance has no message to move in the segment, so that it skips the segment until
    /// the state changes. Does so only under these conditions:
    ///
    /// - No message was received `attempts` times.
    /// - No message is being moved.
    /// - No change of the state is in progress.
    ///
    /// Callers must make sure that no other process changes the segment.
    pub(crate) fn record_without_moves(&self, attempts: u16) {
        let may_leave = |pending: &Pending| {
            pending.attempts >= attempts || matches!(pending.standing, Standing::Leaving(_))
        };
        self.claims.with_idle_cached(|state| {
            let is_mine = state.segment() == self.number;
            if !is_mine || !state.pending().values().any(may_leave) {
                self.claims
                    .backend
                    .idle_segments
                    .record_without_moves(self.number, attempts);
            }
        });
    }

    /// Calls `look` with an iterator of the unresolved messages, by cached data.
    fn with_unresolved<T>(&self, look: impl FnOnce(&mut dyn Iterator<Item = (Seq, &Entry)>) -> T) -> T {
        let (no_log, no_state) = (Log::absent(), State::absent());
        self.claims.with_cached(|state| {
            self.log.with_cached(|log| {
                let (log, state) = (log.unwrap_or(&no_log), state.unwrap_or(&no_state));
                let is_mine = log.segment() == self.number;
                look(&mut state.unresolved(self.number, log).filter(|_| is_mine))
            })
        })
    }

    /// Returns the number of messages that have expired by the retention bound `by`, by cached data.
    pub(crate) fn count_expired(&self, by: Micros) -> usize {
        self.with_state(|state, context| state.expired(by, context).len())
    }

    /// Returns whether a message may have expired by the retention bound `by`. Inspects only
    /// messages that were sent after the last call, unless an earlier message may have expired.
    pub(crate) fn may_have_expired(&self, by: Micros) -> bool {
        let mut known = self.first_due.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = self.with_log(|log| (log.next(), log.first_due_from(known.0)));
        let Some((next, first_new)) = sent else {
            return false;
        };
        *known = (next, first_new.map_or(known.1, |first| first.min(known.1)));
        if known.1 <= by {
            known.1 = self.first_due().unwrap_or(Micros::MAX);
        }
        known.1 <= by
    }

    /// Returns the earliest due time of an unresolved message, by cached data. The retention of a
    /// message counts from its due time.
    pub(crate) fn first_due(&self) -> Option<Micros> {
        self.with_unresolved(|open| open.map(|(_, entry)| entry.due()).min())
    }

    /// Returns whether a later segment uses the versioned cell (row changed by compare-and-set) of
    /// the log or of the state.
    pub(crate) fn is_overtaken(&self) -> bool {
        let log = self.log.with_cached(|log| log.map(Log::segment));
        let state = self.claims.with_cached(|state| state.map(State::segment));
        log.max(state).is_some_and(|newest| newest > self.number)
    }

    /// Returns whether the segment is sealed and all its messages are resolved, by cached data.
    pub(crate) fn is_done(&self) -> bool {
        self.with_log(|log| log.sealed().is_some()) == Some(true) && self.is_empty()
    }

    /// Returns whether all messages of the segment are resolved, by cached data.
    fn is_empty(&self) -> bool {
        let count = self.with_log(Log::next);
        count.is_some_and(|count| self.count_resolved() == u32::from(count))
    }

    /// Returns the number of resolved messages of the segment, by cached data.
    pub(crate) fn count_resolved(&self) -> u32 {
        self.with_own_state(|state| state.resolved().count()).unwrap_or(0)
    }

    /// Returns the messages to move out of the segment, each with its number of attempts: messages
    /// whose move has begun, and messages whose last allowed attempt has ended.
    pub(crate) fn leaving(&self) -> Vec<(Seq, u16)> {
        let leaving = self.with_own_state(|state| {
            let exhausted = self
                .claims
                .backend
                .with_context(|context| state.exhausted(context));
            let is_leaving = |pending: &Pending| matches!(pending.standing, Standing::Leaving(_));
            let leaving = state.pending().iter();
            leaving
                .filter(|(seq, pending)| is_leaving(pending) || exhausted.contains(*seq))
                .map(|(seq, pending)| (*seq, pending.attempts))
                .collect()
        });
        leaving.unwrap_or_default()
    }

    /// Returns the target of a message that is being moved. `None`: the message is not being moved.
    pub(crate) fn target(&self, seq: Seq) -> Option<Target> {
        let target = self.with_own_state(|state| match state.pending().get(&seq)?.standing {
            Standing::Leaving(target) => Some(target),
            _ => None,
        });
        target.flatten()
    }

    /// Returns how often the message of a receipt was received. `None`: the message has a newer receipt, or
    /// none.
    pub(crate) fn attempts(&self, receipt: &Receipt) -> Option<u16> {
        let attempts = self.with_own_state(|state| {
            let pending = state.pending().get(&receipt.seq)?;
            (pending.claim == receipt.claim).then_some(pending.attempts)
        });
        attempts.flatten()
    }

    /// Calls `look` with the cached state, or else the state of an empty cell, and with the data that
    /// the evaluation of the state needs.
    fn with_state<T>(&self, look: impl FnOnce(&State, &StateContext<'_>) -> T) -> T {
        let absent = State::absent();
        self.claims.with_cached(|state| {
            let state = state.unwrap_or(&absent);
            self.claims.backend.with_context(|context| look(state, context))
        })
    }

    /// Calls `look` with the cached state. Returns `None` if no state of the segment is cached.
    pub(crate) fn with_own_state<T>(&self, look: impl FnOnce(&State) -> T) -> Option<T> {
        self.claims
            .with_cached(|state| state.filter(|state| state.segment() == self.number).map(look))
    }

    /// Calls `look` with the cached log. Returns `None` if no log of the segment is cached.
    pub(crate) fn with_log<T>(&self, look: impl FnOnce(&Log) -> T) -> Option<T> {
        self.log
            .with_cached(|log| log.filter(|log| log.segment() == self.number).map(look))
    }

    /// Reads the deduplication ids of earlier segments of the shard, unless the ids are cached.
    /// Earlier segments are sealed, so their ids are read only once.
    pub(crate) async fn load_recent_ids(&self, head: &Head) -> Result<()> {
        let backend = &self.log.backend;
        if backend.recent.get().is_some() {
            return Ok(());
        }
        let now = backend.context.environment.now_micros();
        let mut recent = Recent::new();
        for (number, register) in head.before(self.number, now) {
            let log = read_log(&backend.context, backend.address, register, &Log::absent()).await?;
            if log.segment() == number {
                recent.extend(log.fingerprints());
            }
        }
        // Ignore a failed `set`: another task has set the same ids before.
        let _ = backend.recent.set(recent);
        Ok(())
    }

    /// Returns the unresolved messages of the segment by cached data. `None`: the log of the segment is not
    /// cached.
    pub(crate) fn unresolved(&self) -> Option<Vec<UnresolvedMessage>> {
        self.claims.with_cached(|state| {
            let state = state.filter(|state| state.segment() == self.number);
            self.with_log(|log| {
                let open = log
                    .messages()
                    .filter(|(seq, ..)| state.is_none_or(|state| !state.resolved().has(*seq)));
                open.map(|(seq, chunk, entry)| UnresolvedMessage {
                    seq,
                    chunk,
                    entry: *entry,
                    pending: state
                        .and_then(|state| state.pending().get(&seq).copied())
                        .or(entry.received.map(Pending::from)),
                })
                .collect()
            })
        })
    }
}
