//! What is known of one live segment.

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

/// A live segment, as this process knows it.
pub(crate) struct LiveSegment {
    pub(crate) number: Segment,
    pub(crate) log: Arc<Rounds<LogGround>>,
    pub(crate) state: Arc<Rounds<StateGround>>,
    /// Whether messages of it are being moved away.
    pub(crate) is_burying: AtomicBool,
    open_groups: Mutex<Option<KnownGroups>>,
    in_flight: Mutex<Option<InFlight>>,
    /// Number of messages that were looked through, and the earliest time from which the retention of one of them counts.
    first_due: Mutex<(Seq, Micros)>,
}

/// Groups that are open by these versions of log and state.
type KnownGroups = ((Version, Version), Arc<OpenGroups>);

/// Number of messages in flight by this version of the state, as counted at that time.
#[derive(Clone, Copy)]
struct InFlight {
    version: Version,
    counted_nanos: u64,
    count: usize,
}

/// For how long such a number is taken for right: claims end without a change of the state.
const COUNTED_NANOS: u64 = 1_000_000_000;

impl LiveSegment {
    /// One of this shard, of which nothing is read yet.
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

    /// Reads log and state unless they are known; anew where others may have written to them since, if that is asked for.
    pub(crate) async fn load(&self, anew: bool) -> Result<()> {
        // What is sealed stays as it is.
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
            // What is done with is so for ever: there is something else only if something was sent.
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

    /// The same of the state alone.
    pub(crate) async fn load_state(&self, anew: bool) -> Result<()> {
        if anew || self.state.with_copy(|state| state.is_none()) {
            self.state.read().await?;
        }
        Ok(())
    }

    /// Whether nothing is under way here. The state knows the log.
    pub(crate) fn is_idle(&self) -> bool {
        Arc::strong_count(&self.log) == 2 && Arc::strong_count(&self.state) == 1
    }

    /// Which groups must wait, from now on.
    pub(crate) fn set_order(&self, order: Order) {
        let known = &self.state.ground.order;
        *known.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(order));
    }

    /// The groups of messages that are not done with, as far as that is known; worked out once for what is known.
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

    /// Whether a claim would have a message, as far as that is known.
    pub(crate) fn may_claim(&self) -> bool {
        let absent = State::absent();
        self.state.with_copy(|state| {
            let state = state.unwrap_or(&absent);
            self.state.ground.with_context(|context| state.may_claim(context))
        })
    }

    /// Returns how many messages are claimed, given back or leaving, as far as that is known.
    pub(crate) fn count_pending(&self) -> usize {
        self.state.with_copy(|state| {
            let state = state.filter(|state| state.segment() == self.number);
            state.map_or(0, |state| state.pending().len())
        })
    }

    /// Returns how many messages somebody has, as far as that is known.
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

    /// Whether log and state were read.
    pub(crate) fn is_known(&self) -> bool {
        self.with_log(|_| ()).is_some() && self.state.with_copy(|state| state.is_some())
    }

    /// Whether a claim would have a message that was never received, as far as that is known.
    pub(crate) fn has_new(&self) -> bool {
        let absent = State::absent();
        self.state.with_copy(|state| {
            let state = state.unwrap_or(&absent);
            self.state.ground.with_context(|context| state.has_new(context))
        })
    }

    /// When a message may be received, as far as that is known; none: not before something is done to one of them.
    pub(crate) fn due(&self) -> Option<Micros> {
        let absent = State::absent();
        self.state.with_copy(|state| {
            let state = state.unwrap_or(&absent);
            self.state.ground.with_context(|context| state.due(context))
        })
    }

    /// Looks no more at it until something of it is due, if all that is left of it waits, and nobody else changes that.
    pub(crate) fn learn_wait(&self) {
        let ground = &self.state.ground;
        self.state.with_settled_copy(|state| {
            let until = ground.with_context(|context| state.waits_until(context));
            if let Some(until) = until {
                ground.waits.learn(self.number, until);
            }
        });
    }

    /// Looks no more in it for messages that were received so often until its state changes, if there are none and none is on its
    /// way elsewhere, and nobody else changes that.
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

    /// What is not done with, as far as that is known.
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

    /// Returns how many messages are resolved if those that were due by then expire, as far as that is known.
    pub(crate) fn count_expired(&self, by: Micros) -> usize {
        let absent = State::absent();
        self.state.with_copy(|state| {
            let state = state.unwrap_or(&absent);
            let ground = &self.state.ground;
            ground.with_context(|context| state.expired(by, context).len())
        })
    }

    /// Returns whether a message may have expired that was due by then. Messages are looked through again only when one of them
    /// may have, or when some were sent.
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

    /// When the first message is due that is not done with.
    pub(crate) fn first_due(&self) -> Option<Micros> {
        self.with_open(|open| open.map(|(_, entry)| entry.due()).min())
    }

    /// Whether a later segment has its log, or its state.
    pub(crate) fn is_overtaken(&self) -> bool {
        let log = self.log.with_copy(|log| log.map(Log::segment));
        let state = self.state.with_copy(|state| state.map(State::segment));
        log.max(state).is_some_and(|newest| newest > self.number)
    }

    /// Whether it is sealed and all of its messages are done with, as far as that is known.
    pub(crate) fn is_done(&self) -> bool {
        self.with_log(|log| log.sealed().is_some()) == Some(true) && self.is_empty()
    }

    /// Whether all of its messages are done with, as far as that is known.
    fn is_empty(&self) -> bool {
        let count = self.with_log(Log::next);
        let resolved = self.state.with_copy(|state| {
            let state = state.filter(|state| state.segment() == self.number)?;
            Some(state.resolved().count())
        });
        count.is_some_and(|count| resolved.unwrap_or(0) == u32::from(count))
    }

    /// Messages that were received as often as they may be, and those that somebody began to move: with the attempts of each.
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

    /// Where a message is on its way to.
    pub(crate) fn target(&self, seq: Seq) -> Option<Target> {
        self.state.with_copy(|state| {
            let state = state.filter(|state| state.segment() == self.number)?;
            match state.pending().get(&seq)?.standing {
                Standing::Leaving(target) => Some(target),
                _ => None,
            }
        })
    }

    /// How often the message of a receipt was received, if that is the newest of it.
    pub(crate) fn attempts(&self, receipt: &Receipt) -> Option<u16> {
        self.state.with_copy(|state| {
            let state = state.filter(|state| state.segment() == self.number)?;
            let pending = state.pending().get(&receipt.seq)?;
            (pending.claim == receipt.claim).then_some(pending.attempts)
        })
    }

    /// Its log, if what is known is this segment's.
    pub(crate) fn with_log<T>(&self, look: impl FnOnce(&Log) -> T) -> Option<T> {
        self.log
            .with_copy(|log| log.filter(|log| log.segment() == self.number).map(look))
    }

    /// Knows the deduplication ids of the segments before, which are sealed, from now on.
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
        // Another may have been quicker, with the same.
        let _ = ground.recent.set(recent);
        Ok(())
    }
}
