//! What became of a segment's messages: which are resolved, and who has claimed which of the others.

use std::collections::BTreeMap;

use crate::queues::lease::{Clock, Leases};
use crate::queues::limits::Protocol;
use crate::queues::log::{Entry, Log, Received};
use crate::queues::names::{Address, Chunk, ClaimId, Micros, Segment, Seq, Version};
use crate::queues::order::Order;
use crate::queues::resolved::{self, Resolved};
use crate::queues::round::Register;
use crate::queues::rules::Rule;

/// The state of a register's newest segment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    pub(crate) version: Version,
    pub(crate) segment: Segment,
    pub(crate) resolved: Resolved,
    pub(crate) pending: BTreeMap<Seq, Pending>,
}

/// A message that was received, or moves, and is not resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pending {
    /// How often it was received.
    pub attempts: u16,
    /// When it was for the first time; or when it began to move.
    pub first_received: Micros,
    /// By which claim it was received last.
    pub claim: ClaimId,
    /// Until when that holds, by its giver's clock; or when it may be received again.
    pub until: Micros,
    /// How it stands.
    pub standing: Standing,
}

/// How a message stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Standing {
    /// Its claim holds.
    Claimed,
    /// It was given back.
    Waiting,
    /// It is moved there, or was.
    Leaving(Target),
}

/// Where a message is moved to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    /// To which shard.
    pub address: Address,
    /// Which segment.
    pub segment: Segment,
    /// Under which chunk it lies there, if it does.
    pub chunk: Chunk,
}

/// What a state is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StateWish {
    /// Claim messages that may be received.
    Claim {
        /// By this name, which no other claim has.
        claim: ClaimId,
        /// So many at most.
        most: u16,
        /// Until then, by this process' clock.
        until: Micros,
        /// Number of failed messages that the receiver has already, less the number of new ones. A new message comes next unless this
        /// is negative.
        failed_surplus: i16,
    },
    /// The message is done with.
    Ack {
        /// Which one.
        seq: Seq,
        /// As it was received.
        claim: ClaimId,
    },
    /// The message is given back, and may be received again from then on.
    Nack {
        /// Which one.
        seq: Seq,
        /// As it was received.
        claim: ClaimId,
        /// From when on.
        until: Micros,
    },
    /// Its claim holds until then.
    Extend {
        /// Which one.
        seq: Seq,
        /// As it was received.
        claim: ClaimId,
        /// Until when.
        until: Micros,
    },
    /// Nobody was given the message: its claim counts for nothing.
    GiveBack {
        /// Which one.
        seq: Seq,
        /// As it was claimed.
        claim: ClaimId,
    },
    /// The message is moved there, unless it is claimed by another.
    Leave {
        /// Which one.
        seq: Seq,
        /// As it was received, if it was.
        claim: Option<ClaimId>,
        /// Where to.
        target: Target,
    },
    /// The message is moved to a later segment of its shard, unless somebody has it: it may be given back already, or never was
    /// received.
    MoveOn {
        /// Which one.
        seq: Seq,
        /// Where to.
        target: Target,
    },
    /// The message is moved elsewhere than was said, since it cannot come there any more.
    Redirect {
        /// Which one.
        seq: Seq,
        /// Where to it was moved.
        from: Target,
        /// Where to it is moved now.
        target: Target,
    },
    /// The message has arrived there.
    Left {
        /// Which one.
        seq: Seq,
        /// Where to it was moved.
        target: Target,
    },
    /// The message is done with, whoever has it: a receipt that is out finds it so. One that leaves is elsewhere, or will be:
    /// it stays.
    Remove(Seq),
    /// Resolve the messages that were due by then: they are older than the queue keeps them. Those that somebody has, that
    /// leave, or that are to leave for the dead letters, stay.
    Expire {
        /// As [`expired_by`](crate::queues::expired_by) says.
        by: Micros,
    },
    /// The same of all messages. What was moved here and is not resolved where it was is not settled by that:
    /// [`Releasing`](crate::queues::Releasing) does, before the segment leaves the list.
    Purge {
        /// How many the sealed log has.
        count: Seq,
    },
    /// All messages are done with, those that leave too: the queue was deleted.
    Clear {
        /// How many the sealed log has.
        count: Seq,
    },
}

/// What is said of that.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum StateAnswer {
    /// What is claimed.
    Claimed(Vec<Delivery>),
    /// It is so.
    Done,
    /// The message was received again since, or moves; or it is resolved, and so cannot be given back or kept for longer.
    Stale,
    /// The message is moved there; of all messages, one is. And how often it was received before, if it was.
    Leaving(Target, Option<Received>),
    /// There is no such message in the log as it is known.
    NoMessage,
    /// As many messages are pending as a segment may have.
    Full,
    /// Another segment has the register: this one is released, all its messages are done with.
    Gone,
}

/// A message that is claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Delivery {
    /// Which one.
    pub seq: Seq,
    /// By which claim.
    pub claim: ClaimId,
    /// How often it was received, this time too.
    pub attempts: u16,
    /// When it was for the first time.
    pub first_received: Micros,
}

/// What claims are worked out by.
#[derive(Debug, Clone, Copy)]
pub struct StateContext<'a> {
    /// The segment that the head says has this register.
    pub segment: Segment,
    /// Its log, as it was read at any time.
    pub log: &'a Log,
    /// How often a message may be received; then it is [exhausted](State::exhausted).
    pub most_attempts: Option<u16>,
    /// Messages that were due by then are older than the queue keeps them, as [`expired_by`](crate::queues::expired_by) says; none: the
    /// queue keeps them for ever.
    pub expired_by: Option<Micros>,
    /// In an ordered queue: which groups must wait. Otherwise none.
    pub order: Option<&'a Order>,
    /// What this process knows of its own claims.
    pub leases: &'a Leases,
    /// Its clocks.
    pub clock: Clock,
    /// Limits and rules.
    pub protocol: Protocol,
}

impl State {
    /// The one of a register that nobody ever wrote to.
    pub fn absent() -> Self {
        Self::empty(Segment::default(), 0)
    }

    pub(crate) fn empty(segment: Segment, version: Version) -> Self {
        Self {
            version,
            segment,
            resolved: Resolved::default(),
            pending: BTreeMap::new(),
        }
    }

    /// Which segment's state it is.
    pub fn segment(&self) -> Segment {
        self.segment
    }

    /// Which messages are done with.
    pub fn resolved(&self) -> &Resolved {
        &self.resolved
    }

    /// Which are received, or move, and not done with.
    pub fn pending(&self) -> &BTreeMap<Seq, Pending> {
        &self.pending
    }

    /// Messages that were received as often as they may be, and whose last claim is over.
    pub fn exhausted(&self, context: &StateContext<'_>) -> Vec<Seq> {
        let Some(most) = context.most_attempts else {
            return Vec::new();
        };
        let exhausted = self.pending.iter().filter(|(seq, pending)| {
            let is_leaving = matches!(pending.standing, Standing::Leaving(_));
            pending.attempts >= most && !is_leaving && pending.is_over(**seq, context)
        });
        exhausted.map(|(seq, _)| *seq).collect()
    }

    /// Returns how many messages somebody has.
    pub fn count_in_flight(&self, context: &StateContext<'_>) -> usize {
        let held = self.pending.iter().filter(|(seq, pending)| {
            pending.standing == Standing::Claimed && !pending.is_over(**seq, context)
        });
        if self.segment == context.segment {
            held.count()
        } else {
            0
        }
    }

    /// Returns the messages that [`Expire`](StateWish::Expire) resolves. Messages in flight stay, so that no handler loses
    /// its message while it works on it. Messages that failed for the last time go to the dead letters, which keep them for their
    /// own retention.
    pub fn expired(&self, by: Micros, context: &StateContext<'_>) -> Vec<Seq> {
        if context.log.segment != context.segment || self.segment > context.segment {
            return Vec::new();
        }
        if self.segment < context.segment {
            return Self::empty(context.segment, self.version).expired(by, context);
        }
        let expired = self.unresolved(context.segment, context.log);
        let expired = expired.filter(|(seq, entry)| entry.due() <= by && self.may_expire(*seq, context));
        expired.map(|(seq, _)| seq).collect()
    }

    /// What a wish makes of the state of the segment that it is meant for.
    fn is_asked(&mut self, wish: &StateWish, context: &StateContext<'_>) -> StateAnswer {
        if wish.seq().is_some_and(|seq| self.resolved.has(seq)) {
            return match wish {
                // It may have been removed while its receiver worked on it: the receiver has to learn that.
                StateWish::Nack { .. } | StateWish::Extend { .. } => StateAnswer::Stale,
                _ => StateAnswer::Done,
            };
        }
        match *wish {
            StateWish::Claim {
                claim,
                most,
                until,
                failed_surplus,
            } => {
                let claimable = |state: &Self| state.claimable(most, failed_surplus, context);
                self.claim(claim, claimable, until, context)
            }
            StateWish::Ack { seq, claim } => self.ack(seq, claim, context),
            StateWish::Nack { seq, claim, until } => self.hold(seq, claim, until, Standing::Waiting, context),
            StateWish::Extend { seq, claim, until } => {
                self.hold(seq, claim, until, Standing::Claimed, context)
            }
            StateWish::GiveBack { seq, claim } => self.give_back(seq, claim, context),
            StateWish::Leave { seq, claim, target } => self.leave(seq, claim, target, context),
            StateWish::MoveOn { seq, target } => self.move_on(seq, target, context),
            StateWish::Redirect { seq, from, target } => self.redirect(seq, from, target, context),
            StateWish::Left { seq, target } => self.left(seq, target),
            StateWish::Remove(seq) => self.remove(seq, context),
            StateWish::Expire { by } => self.expire(by, context),
            StateWish::Purge { count } if context.protocol.rules.keeps(Rule::PurgeKeepsWhatLeaves) => {
                let leaving = (0..count).filter_map(|seq| self.purge(seq)).last();
                leaving.unwrap_or(StateAnswer::Done)
            }
            StateWish::Purge { count } | StateWish::Clear { count } => {
                for seq in 0..count {
                    self.resolve(seq);
                }
                StateAnswer::Done
            }
        }
    }

    fn remove(&mut self, seq: Seq, context: &StateContext<'_>) -> StateAnswer {
        let log = context.log;
        if log.segment != context.segment || log.message(seq).is_none() {
            return StateAnswer::NoMessage;
        }
        self.purge(seq).unwrap_or(StateAnswer::Done)
    }

    fn expire(&mut self, by: Micros, context: &StateContext<'_>) -> StateAnswer {
        if context.log.segment != context.segment {
            return StateAnswer::NoMessage;
        }
        for seq in self.expired(by, context) {
            self.resolve(seq);
        }
        StateAnswer::Done
    }

    /// Resolves a message, if it does not leave; otherwise tells where to.
    fn purge(&mut self, seq: Seq) -> Option<StateAnswer> {
        let leaving = self.pending.get(&seq).and_then(Pending::leaving);
        if leaving.is_none() {
            self.resolve(seq);
        }
        leaving
    }

    fn claim(
        &mut self,
        claim: ClaimId,
        claimable: impl FnOnce(&Self) -> Vec<(Seq, Option<Received>)>,
        until: Micros,
        context: &StateContext<'_>,
    ) -> StateAnswer {
        let is_own = |pending: &Pending| pending.claim == claim && pending.standing == Standing::Claimed;
        let own = self.pending.iter().filter(|(_, pending)| is_own(pending));
        let own: Vec<_> = own.map(|(seq, pending)| pending.delivery(*seq)).collect();
        if !own.is_empty() {
            return StateAnswer::Claimed(own);
        }
        let claimed = claimable(self).into_iter().map(|(seq, moved_on)| {
            let before = self.pending.get(&seq).map_or(moved_on, Pending::received);
            let pending = Pending {
                attempts: before.map_or(0, |before| before.attempts).saturating_add(1),
                first_received: before.map_or(context.clock.wall, |before| before.first),
                claim,
                until,
                standing: Standing::Claimed,
            };
            self.pending.insert(seq, pending);
            pending.delivery(seq)
        });
        StateAnswer::Claimed(claimed.collect())
    }

    /// Whether a claim would have a message, by what is known here.
    pub fn may_claim(&self, context: &StateContext<'_>) -> bool {
        if self.segment < context.segment {
            return Self::empty(context.segment, self.version).may_claim(context);
        }
        self.segment == context.segment && !self.claimable(1, 0, context).is_empty()
    }

    /// Returns whether no receiver has a message, and whether it stays in this segment.
    fn may_expire(&self, seq: Seq, context: &StateContext<'_>) -> bool {
        self.pending.get(&seq).is_none_or(|pending| {
            let is_held = pending.standing == Standing::Claimed && !pending.is_over(seq, context);
            pending.stays(context) && !is_held
        })
    }

    /// Messages of a segment's log that are not done with, oldest first.
    pub fn unresolved<'a>(
        &'a self,
        segment: Segment,
        log: &'a Log,
    ) -> impl Iterator<Item = (Seq, &'a Entry)> {
        let resolved = if self.segment == segment {
            &self.resolved
        } else {
            &resolved::NONE
        };
        let open = resolved.missing(log.next());
        open.filter_map(|seq| Some((seq, log.message(seq)?.1)))
    }

    /// The message, if this claim is the newest of it, and it does not move.
    fn claimed(&mut self, seq: Seq, claim: ClaimId, context: &StateContext<'_>) -> Option<&mut Pending> {
        let rules = context.protocol.rules;
        self.pending.get_mut(&seq).filter(|pending| {
            let is_newest = pending.claim == claim || !rules.keeps(Rule::ReceiptFencedByClaim);
            let is_leaving = matches!(pending.standing, Standing::Leaving(_));
            is_newest && (!is_leaving || !rules.keeps(Rule::LeavingIsFenced))
        })
    }

    fn resolve(&mut self, seq: Seq) {
        self.pending.remove(&seq);
        self.resolved.add(seq);
    }

    fn ack(&mut self, seq: Seq, claim: ClaimId, context: &StateContext<'_>) -> StateAnswer {
        if self.claimed(seq, claim, context).is_none() {
            return StateAnswer::Stale;
        }
        self.resolve(seq);
        StateAnswer::Done
    }

    /// The claim ends, or holds for longer.
    fn hold(
        &mut self,
        seq: Seq,
        claim: ClaimId,
        until: Micros,
        standing: Standing,
        context: &StateContext<'_>,
    ) -> StateAnswer {
        let Some(pending) = self.claimed(seq, claim, context) else {
            return StateAnswer::Stale;
        };
        if standing == Standing::Claimed && pending.standing == Standing::Waiting {
            return StateAnswer::Stale;
        }
        pending.until = until;
        pending.standing = standing;
        StateAnswer::Done
    }

    fn give_back(&mut self, seq: Seq, claim: ClaimId, context: &StateContext<'_>) -> StateAnswer {
        let Some(pending) = self.claimed(seq, claim, context) else {
            return StateAnswer::Stale;
        };
        if pending.standing == Standing::Waiting {
            return StateAnswer::Done;
        }
        pending.attempts = pending.attempts.saturating_sub(1);
        pending.until = pending.first_received;
        pending.standing = Standing::Waiting;
        if pending.attempts == 0 {
            self.pending.remove(&seq);
        }
        StateAnswer::Done
    }

    fn leave(
        &mut self,
        seq: Seq,
        claim: Option<ClaimId>,
        target: Target,
        context: &StateContext<'_>,
    ) -> StateAnswer {
        let before = self.pending.get(&seq);
        if let Some(leaving) = before.and_then(Pending::leaving) {
            return leaving;
        }
        let is_free =
            before.is_none_or(|pending| Some(pending.claim) == claim || pending.is_over(seq, context));
        if !is_free {
            return StateAnswer::Stale;
        }
        self.marks(seq, target, context)
    }

    /// Not of one that somebody has, however late: that one may be about to acknowledge it, and would be told that it is done with, since it
    /// is resolved here.
    fn move_on(&mut self, seq: Seq, target: Target, context: &StateContext<'_>) -> StateAnswer {
        match self.pending.get(&seq).map(|pending| pending.standing) {
            Some(Standing::Claimed) => StateAnswer::Stale,
            // What it goes on with stands in the log.
            _ if context.log.segment != context.segment || context.log.message(seq).is_none() => {
                StateAnswer::NoMessage
            }
            _ => self.marks(seq, target, context),
        }
    }

    /// Marks a message that nobody has as leaving, if it does not leave.
    fn marks(&mut self, seq: Seq, target: Target, context: &StateContext<'_>) -> StateAnswer {
        let before = self.pending.get(&seq).copied();
        if let Some(leaving) = before.as_ref().and_then(Pending::leaving) {
            return leaving;
        }
        if before.is_none() && self.pending.len() == context.protocol.pending {
            return StateAnswer::Full;
        }
        let received = self.before(seq, context);
        let received = received.unwrap_or(Received {
            attempts: 0,
            first: context.clock.wall,
            until: context.clock.wall,
        });
        let pending = before.unwrap_or_else(|| received.into());
        let standing = Standing::Leaving(target);
        let pending = Pending { standing, ..pending };
        self.pending.insert(seq, pending);
        StateAnswer::Leaving(target, pending.received())
    }

    /// How often a message was received, here or before it was moved here.
    fn before(&self, seq: Seq, context: &StateContext<'_>) -> Option<Received> {
        let log = Some(context.log).filter(|log| log.segment == context.segment);
        match self.pending.get(&seq) {
            Some(pending) => pending.received(),
            None => log?.message(seq)?.1.received,
        }
    }

    fn redirect(
        &mut self,
        seq: Seq,
        from: Target,
        target: Target,
        context: &StateContext<'_>,
    ) -> StateAnswer {
        let is_decided = context.protocol.rules.keeps(Rule::RedirectedFromMark);
        let Some(pending) = self.pending.get_mut(&seq) else {
            return StateAnswer::Stale;
        };
        if let Standing::Leaving(current) = &mut pending.standing
            && (*current == from || !is_decided)
        {
            *current = target;
        }
        pending.leaving().unwrap_or(StateAnswer::Stale)
    }

    fn left(&mut self, seq: Seq, target: Target) -> StateAnswer {
        let pending = self.pending.get(&seq);
        if pending.is_none_or(|pending| pending.standing != Standing::Leaving(target)) {
            return StateAnswer::Stale;
        }
        self.resolve(seq);
        StateAnswer::Done
    }
}

impl StateContext<'_> {
    /// Returns whether a message is older than the queue keeps it, so that nobody may receive it.
    pub(crate) fn is_expired(&self, entry: &Entry) -> bool {
        self.expired_by.is_some_and(|by| entry.due() <= by)
    }
}

impl Pending {
    /// How often it was received, if it was.
    fn received(&self) -> Option<Received> {
        (self.attempts > 0).then_some(Received {
            attempts: self.attempts,
            first: self.first_received,
            until: self.until,
        })
    }

    /// Returns whether the message neither leaves nor is to leave for the dead letters.
    pub(crate) fn stays(&self, context: &StateContext<'_>) -> bool {
        let is_leaving = matches!(self.standing, Standing::Leaving(_));
        let is_exhausted = context.most_attempts.is_some_and(|most| self.attempts >= most);
        !is_leaving && !is_exhausted
    }

    /// What is said of it if it leaves.
    fn leaving(&self) -> Option<StateAnswer> {
        match self.standing {
            Standing::Leaving(target) => Some(StateAnswer::Leaving(target, self.received())),
            _ => None,
        }
    }

    fn delivery(&self, seq: Seq) -> Delivery {
        Delivery {
            seq,
            claim: self.claim,
            attempts: self.attempts,
            first_received: self.first_received,
        }
    }

    /// Whether the message may be received again, as far as its last claim goes.
    pub(crate) fn is_over(&self, seq: Seq, context: &StateContext<'_>) -> bool {
        match self.standing {
            Standing::Claimed => {
                context
                    .leases
                    .is_over((context.segment, seq, self.claim), self.until, context.clock)
            }
            Standing::Waiting | Standing::Leaving(_) => self.until <= context.clock.wall,
        }
    }
}

/// As it stands where it was moved to, before somebody receives it there.
impl From<Received> for Pending {
    fn from(received: Received) -> Self {
        Self {
            attempts: received.attempts,
            first_received: received.first,
            claim: ClaimId(0),
            until: received.until,
            standing: Standing::Waiting,
        }
    }
}

impl Register for State {
    type Wish = StateWish;
    type Answer = StateAnswer;
    type Context<'a> = StateContext<'a>;

    fn version(&self) -> Version {
        self.version
    }

    fn raise(&mut self) {
        self.version += 1;
    }

    fn work_out(&mut self, wish: &StateWish, _: bool, context: &StateContext<'_>) -> StateAnswer {
        if self.segment > context.segment {
            return StateAnswer::Gone;
        }
        if self.segment == context.segment {
            return self.is_asked(wish, context);
        }
        let empty = Self::empty(context.segment, self.version);
        let mut set_up = empty.clone();
        let answer = set_up.is_asked(wish, context);
        if set_up != empty {
            *self = set_up;
        }
        answer
    }
}

impl StateWish {
    /// The one message it is about.
    fn seq(&self) -> Option<Seq> {
        match *self {
            Self::Claim { .. } | Self::Expire { .. } | Self::Purge { .. } | Self::Clear { .. } => None,
            Self::Remove(seq)
            | Self::Ack { seq, .. }
            | Self::Nack { seq, .. }
            | Self::Extend { seq, .. }
            | Self::GiveBack { seq, .. }
            | Self::Leave { seq, .. }
            | Self::MoveOn { seq, .. }
            | Self::Redirect { seq, .. }
            | Self::Left { seq, .. } => Some(seq),
        }
    }
}
