//! Cached data of one live segment.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use recto_protocol::queues::{
    Entry, Head, Log, Micros, OpenGroups, Order, Pending, Receipt, Recent, Register as _, RegisterNumber,
    Segment, Seq, Standing, State, Target, Version,
};

use crate::error::Result;
use crate::registers::{LogGround, StateGround, read_log};
use crate::rounds::Rounds;
use crate::shard::Shard;

/// Live segment, as this process knows it.
pub(crate) struct LiveSegment {
    pub(crate) number: Segment,
    pub(crate) log: Arc<Rounds<LogGround>>,
    pub(crate) state: Arc<Rounds<StateGround>>,
    /// True if a task moves messages away from the segment.
    pub(crate) is_burying: AtomicBool,
    open_groups: Mutex<Option<KnownGroups>>,
    in_flight: Mutex<Option<InFlight>>,
    /// Number of messages that were inspected, and the earliest time from which the retention of one of them counts.
    first_due: Mutex<(Seq, Micros)>,
}

/// Groups with unresolved messages, for these versions of the log and the state.
type KnownGroups = ((Version, Version), Arc<OpenGroups>);

/// Number of messages in flight in this version of the state, at the time of the count.
#[derive(Clone, Copy)]
struct InFlight {
    version: Version,
    counted_nanos: u64,
    count: usize,
}

/// Time for which a count of messages in flight is valid. Claims end without a change of the state.
const COUNTED_NANOS: u64 = 1_000_000_000;

impl LiveSegment {
    /// Creates the data of a segment of the shard. Nothing is read yet.
    pub(crate) fn new(shard: &Shard, number: Segment, register: RegisterNumber) -> Self {
        let (queues, address) = (&shard.queues, shard.address);
        let log = Rounds::new(LogGround {
            queues: queues.clone(),
            address,
            segment: number,
            register,
            recent: OnceLock::new(),
            bodies: Mutex::default(),
            losses: Arc::clone(&shard.losses),
        });
        let state = Rounds::new(StateGround {
            queues: queues.clone(),
            address,
            segment: number,
            register,
            log: Arc::clone(&log),
            leases: Arc::clone(&shard.leases),
            options: Arc::clone(&shard.common.options),
            order: Mutex::default(),
            waits: Arc::clone(&shard.waits),
            losses: Arc::clone(&shard.losses),
        });
        Self {
            number,
            log,
            state,
            is_burying: AtomicBool::new(false),
            open_groups: Mutex::default(),
            in_flight: Mutex::default(),
            first_due: Mutex::new((0, Micros::MAX)),
        }
    }

    /// Reads the log and the state unless they are known. If `anew` is set, other processes may have written since, so
    /// both are read again, except parts that cannot have changed.
    pub(crate) async fn load(&self, anew: bool) -> Result<()> {
        // A sealed log does not change, so a known sealed log is not read again.
        let is_sealed = self.with_log(|log| log.sealed().is_some()) == Some(true);
        let is_read = !is_sealed && (anew || self.log.with_copy(|log| log.is_none()));
        let log = async {
            if is_read {
                self.log.read().await?;
            }
            Ok(())
        };
        let is_state_known = self.state.with_copy(|state| state.is_some());
        if anew && is_state_known && self.is_empty() {
            // All known messages are resolved, and stay resolved, so read the state only if the log
            // shows new messages.
            log.await?;
            return if self.is_empty() {
                Ok(())
            } else {
                self.load_state(anew).await
            };
        }
        let (log, state) = futures::future::join(log, self.load_state(anew)).await;
        log.and(state)
    }

    /// Reads the state unless it is known, or if `anew` is set.
    pub(crate) async fn load_state(&self, anew: bool) -> Result<()> {
        if anew || self.state.with_copy(|state| state.is_none()) {
            self.state.read().await?;
        }
        Ok(())
    }

    /// Returns whether no request is in progress. The state holds the second reference to the log.
    pub(crate) fn is_idle(&self) -> bool {
        Arc::strong_count(&self.log) == 2 && Arc::strong_count(&self.state) == 1
    }

    /// Sets the groups that must wait.
    pub(crate) fn set_order(&self, order: Order) {
        let known = &self.state.ground.order;
        *known.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(order));
    }

    /// Returns the groups of the unresolved messages, as far as this process knows. Finds them once for each version of
    /// the log and the state.
    pub(crate) fn open_groups(&self) -> Option<Arc<OpenGroups>> {
        self.state.with_copy(|state| {
            self.log.with_copy(|log| {
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

    /// Returns whether a claim would get a message, as far as this process knows.
    pub(crate) fn may_claim(&self) -> bool {
        let absent = State::absent();
        self.state.with_copy(|state| {
            let state = state.unwrap_or(&absent);
            self.state.ground.with_context(|context| state.may_claim(context))
        })
    }

    /// Returns the number of messages that are claimed, given back or leaving, as far as this process knows.
    pub(crate) fn count_pending(&self) -> usize {
        self.state.with_copy(|state| {
            let state = state.filter(|state| state.segment() == self.number);
            state.map_or(0, |state| state.pending().len())
        })
    }

    /// Returns the number of messages that receivers have, as far as this process knows.
    pub(crate) fn count_in_flight(&self) -> usize {
        let ground = &self.state.ground;
        let now_nanos = ground.queues.environment.monotonic_nanos();
        self.state.with_copy(|state| {
            let Some(state) = state else { return 0 };
            let mut known = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
            let is_fresh = |known: &InFlight| {
                known.version == state.version()
                    && now_nanos.saturating_sub(known.counted_nanos) < COUNTED_NANOS
            };
            if let Some(known) = known.filter(is_fresh) {
                return known.count;
            }
            let count = ground.with_context(|context| state.count_in_flight(context));
            *known = Some(InFlight {
                version: state.version(),
                counted_nanos: now_nanos,
                count,
            });
            count
        })
    }

    /// Returns whether the log and the state were read.
    pub(crate) fn is_known(&self) -> bool {
        self.with_log(|_| ()).is_some() && self.state.with_copy(|state| state.is_some())
    }

    /// Returns whether a claim would get a message that was never received, as far as this process knows.
    pub(crate) fn has_new(&self) -> bool {
        let absent = State::absent();
        self.state.with_copy(|state| {
            let state = state.unwrap_or(&absent);
            self.state.ground.with_context(|context| state.has_new(context))
        })
    }

    /// Returns when a message can be received, as far as this process knows. `None`: no message until one is sent,
    /// given back or resolved.
    pub(crate) fn due(&self) -> Option<Micros> {
        let absent = State::absent();
        self.state.with_copy(|state| {
            let state = state.unwrap_or(&absent);
            self.state.ground.with_context(|context| state.due(context))
        })
    }

    /// Records the time until which polls skip the segment, if all its unresolved messages wait and no change of the
    /// state is in progress. Callers use this only where no other process makes changes.
    pub(crate) fn learn_wait(&self) {
        let ground = &self.state.ground;
        self.state.with_settled_copy(|state| {
            let until = ground.with_context(|context| state.waits_until(context));
            if let Some(until) = until {
                ground.waits.learn(self.number, until);
            }
        });
    }

    /// Records that no message of the segment was received `attempts` times and none is leaving, if that is so and no
    /// change of the state is in progress. Until the state changes, the maintenance skips the segment. Callers use this
    /// only where no other process makes changes.
    pub(crate) fn learn_keeps_all(&self, attempts: u16) {
        let may_leave = |pending: &Pending| {
            pending.attempts >= attempts || matches!(pending.standing, Standing::Leaving(_))
        };
        self.state.with_settled_copy(|state| {
            let is_mine = state.segment() == self.number;
            if !is_mine || !state.pending().values().any(may_leave) {
                self.state.ground.waits.learn_keeps_all(self.number, attempts);
            }
        });
    }

    /// Calls `look` with the unresolved messages, as far as this process knows.
    fn with_open<T>(&self, look: impl FnOnce(&mut dyn Iterator<Item = (Seq, &Entry)>) -> T) -> T {
        let (no_log, no_state) = (Log::absent(), State::absent());
        self.state.with_copy(|state| {
            self.log.with_copy(|log| {
                let (log, state) = (log.unwrap_or(&no_log), state.unwrap_or(&no_state));
                let is_mine = log.segment() == self.number;
                look(&mut state.unresolved(self.number, log).filter(|_| is_mine))
            })
        })
    }

    /// Returns the number of messages that the retention bound `by` resolves, as far as this process knows.
    pub(crate) fn count_expired(&self, by: Micros) -> usize {
        let absent = State::absent();
        self.state.with_copy(|state| {
            let state = state.unwrap_or(&absent);
            let ground = &self.state.ground;
            ground.with_context(|context| state.expired(by, context).len())
        })
    }

    /// Returns whether a message may have expired by the retention bound `by`. Inspects all messages only if one of
    /// them may have expired, and otherwise only messages that were sent since the last call.
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

    /// Returns the earliest time from which the retention of an unresolved message counts.
    pub(crate) fn first_due(&self) -> Option<Micros> {
        self.with_open(|open| open.map(|(_, entry)| entry.due()).min())
    }

    /// Returns whether the log or the state belongs to a later segment.
    pub(crate) fn is_overtaken(&self) -> bool {
        let log = self.log.with_copy(|log| log.map(Log::segment));
        let state = self.state.with_copy(|state| state.map(State::segment));
        log.max(state).is_some_and(|newest| newest > self.number)
    }

    /// Returns whether the segment is sealed and all its messages are resolved, as far as this process knows.
    pub(crate) fn is_done(&self) -> bool {
        self.with_log(|log| log.sealed().is_some()) == Some(true) && self.is_empty()
    }

    /// Returns whether all messages of the segment are resolved, as far as this process knows.
    fn is_empty(&self) -> bool {
        let count = self.with_log(Log::next);
        let resolved = self.state.with_copy(|state| {
            let state = state.filter(|state| state.segment() == self.number)?;
            Some(state.resolved().count())
        });
        count.is_some_and(|count| resolved.unwrap_or(0) == u32::from(count))
    }

    /// Returns the messages that were received the maximum number of times and whose last claim has
    /// ended, and the messages whose move has begun. Each message has its number of attempts.
    pub(crate) fn leaving(&self) -> Vec<(Seq, u16)> {
        self.state.with_copy(|state| {
            let Some(state) = state.filter(|state| state.segment() == self.number) else {
                return Vec::new();
            };
            let exhausted = self.state.ground.with_context(|context| state.exhausted(context));
            let is_leaving = |pending: &Pending| matches!(pending.standing, Standing::Leaving(_));
            let leaving = state.pending().iter();
            leaving
                .filter(|(seq, pending)| is_leaving(pending) || exhausted.contains(*seq))
                .map(|(seq, pending)| (*seq, pending.attempts))
                .collect()
        })
    }

    /// Returns the target of a leaving message.
    pub(crate) fn target(&self, seq: Seq) -> Option<Target> {
        self.state.with_copy(|state| {
            let state = state.filter(|state| state.segment() == self.number)?;
            match state.pending().get(&seq)?.standing {
                Standing::Leaving(target) => Some(target),
                _ => None,
            }
        })
    }

    /// Returns how often the message of a receipt was received, if no newer receipt of the message exists.
    pub(crate) fn attempts(&self, receipt: &Receipt) -> Option<u16> {
        self.state.with_copy(|state| {
            let state = state.filter(|state| state.segment() == self.number)?;
            let pending = state.pending().get(&receipt.seq)?;
            (pending.claim == receipt.claim).then_some(pending.attempts)
        })
    }

    /// Calls `look` with the log, if the known log belongs to this segment.
    pub(crate) fn with_log<T>(&self, look: impl FnOnce(&Log) -> T) -> Option<T> {
        self.log
            .with_copy(|log| log.filter(|log| log.segment() == self.number).map(look))
    }

    /// Reads the deduplication ids of the earlier segments, which are sealed, unless the ids are known.
    pub(crate) async fn know_recent(&self, head: &Head) -> Result<()> {
        let ground = &self.log.ground;
        if ground.recent.get().is_some() {
            return Ok(());
        }
        let now = ground.queues.environment.now_micros();
        let mut recent = Recent::new();
        for (number, register) in head.before(self.number, now) {
            let log = read_log(&ground.queues, ground.address, register, &Log::absent()).await?;
            if log.segment() == number {
                recent.extend(log.fingerprints());
            }
        }
        // Ignore a failed `set`: then another task has set the same ids first.
        let _ = ground.recent.set(recent);
        Ok(())
    }
}
