//! State of a segment (batch of messages): its resolved messages (never received again), and claims
//! of the others.

use std::collections::BTreeMap;

use crate::queues::ack_bitmap::{self, Resolved};
use crate::queues::cas_loop::Register;
use crate::queues::lease::{Clock, Leases};
use crate::queues::limits::Protocol;
use crate::queues::log::{Entry, Log, Received};
use crate::queues::names::{Address, Chunk, ClaimId, Micros, Segment, Seq, Version};
use crate::queues::order::Order;
use crate::queues::rules::Rule;

/// State of a segment (message batch): the progress of its messages. Later segments reuse its cell.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    pub(crate) version: Version,
    pub(crate) segment: Segment,
    pub(crate) resolved: Resolved,
    pub(crate) pending: BTreeMap<Seq, Pending>,
}

/// Pending message: it is not resolved, and was received at least once, or is being moved to
/// another segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pending {
    /// Number of times the message was received.
    pub attempts: u16,
    /// Time of the first receive, or of the start of the move, in microseconds since 1970.
    pub first_received: Micros,
    /// Id of the last claim, by which a receiver got the message.
    pub claim: ClaimId,
    /// If claimed: end of the claim, by the clock of the claiming process. Otherwise: time from
    /// which the message can be received again.
    pub until: Micros,
    /// Phase of the message: claimed, given back, or being moved.
    pub standing: Standing,
}

/// Phase of a pending message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Standing {
    /// A receiver claimed the message. The claim may have ended.
    Claimed,
    /// A receiver gave the message back, so it waits for its next receive.
    Waiting,
    /// The message is being moved, or was moved, to this target.
    Leaving(Target),
}

/// Target of a message that is being moved to another segment (message batch).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    /// Shard to which the message is moved.
    pub address: Address,
    /// Segment to which the message is moved.
    pub segment: Segment,
    /// Random id under which the message's body is stored in the target segment (message batch).
    pub chunk: Chunk,
}

/// Command to the state of a segment (progress of its messages).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StateCommand {
    /// Claim messages for a receiver: only this receiver may process them until the claim ends.
    Claim {
        /// New random id of the claim.
        claim: ClaimId,
        /// Maximum number of messages to claim.
        most: u16,
        /// End of the claim, by the clock of this process, in microseconds since 1970.
        until: Micros,
        /// Number of failed messages minus number of new messages that the receiver already has. If
        /// it is 0 or more, the first claimed message is a new one, otherwise a failed one.
        failed_surplus: i16,
    },
    /// Acknowledge the message, so that it is never received again.
    Ack {
        /// Position of the message.
        seq: Seq,
        /// Id of the claim by which the message was received.
        claim: ClaimId,
    },
    /// Give the message back, so that it can be received again from `until` on.
    Nack {
        /// Position of the message.
        seq: Seq,
        /// Id of the claim by which the message was received.
        claim: ClaimId,
        /// Time from which the message can be received again, in microseconds since 1970.
        until: Micros,
    },
    /// Extend the claim of the message, because its receiver needs more time.
    Extend {
        /// Position of the message.
        seq: Seq,
        /// Id of the claim by which the message was received.
        claim: ClaimId,
        /// New end of the claim, in microseconds since 1970.
        until: Micros,
    },
    /// Undo the claim of a message that did not reach the receiver, so that the claim does not
    /// count as an attempt.
    GiveBack {
        /// Position of the message.
        seq: Seq,
        /// Id of the claim to undo.
        claim: ClaimId,
    },
    /// Mark the message as being moved to `target`, unless another claim holds it.
    Leave {
        /// Position of the message.
        seq: Seq,
        /// Id of the claim by which the message was received; `None`: it was not received.
        claim: Option<ClaimId>,
        /// Target of the move.
        target: Target,
    },
    /// Mark the message as being moved to a later segment of its shard, unless a receiver has it.
    /// It was given back, or was never received.
    MoveOn {
        /// Position of the message.
        seq: Seq,
        /// Target of the move.
        target: Target,
    },
    /// Change the target of a message that is being moved, because the old target can no longer
    /// take it.
    Redirect {
        /// Position of the message.
        seq: Seq,
        /// Old target.
        from: Target,
        /// New target.
        target: Target,
    },
    /// Resolve a message that has arrived at its target, so that it is never received from this
    /// segment.
    Left {
        /// Position of the message.
        seq: Seq,
        /// Target at which the message has arrived.
        target: Target,
    },
    /// Resolve the message even if a receiver has it, whose acknowledgment will then have no
    /// effect. A message that is being moved stays, because it is in another segment, or will be.
    Remove(Seq),
    /// Resolve the messages that exceed the retention time. These messages stay: claimed messages,
    /// messages that are being moved, and messages that must go to the dead-letter queue.
    Expire {
        /// Retention bound of [`expired_by`](crate::queues::expired_by): messages that were due by
        /// then are resolved.
        by: Micros,
    },
    /// Resolve all messages, except those that are being moved. It does not resolve the sources of
    /// messages that were moved to this segment: [`Releasing`](crate::queues::Releasing) does so
    /// before it releases the segment.
    Purge {
        /// Number of messages in the segment's sealed log.
        count: Seq,
    },
    /// Resolve all messages, even those that are being moved, because the queue was deleted.
    Clear {
        /// Number of messages in the segment's sealed log.
        count: Seq,
    },
}

/// Response of the state of a segment (message batch) to a command.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum StateResponse {
    /// These messages are claimed for the receiver.
    Claimed(Vec<Delivery>),
    /// The requested change is stored, now or since an earlier command.
    Done,
    /// The command no longer applies: the message was received again, or is being moved. Also the
    /// response to giving back, or extending the claim of, a resolved message.
    Stale,
    /// The message is being moved to this target, because of this command or an earlier one. The
    /// second value has the number and times of the message's receives (`None`: it was never
    /// received). If the command was [`Remove`](StateCommand::Remove), the message was not removed. If
    /// it was [`Purge`](StateCommand::Purge), at least one message is being moved, and the values are
    /// those of one such message.
    Leaving(Target, Option<Received>),
    /// The message is not in the log of this segment, as far as this process knows.
    NoMessage,
    /// The segment has the maximum number of pending messages (received or being moved).
    Full,
    /// Another segment uses the cell, so this segment was released, and all of its messages are
    /// resolved.
    Gone,
}

/// Claimed message for a receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Delivery {
    /// Position of the message.
    pub seq: Seq,
    /// Id of the claim by which the receiver got the message.
    pub claim: ClaimId,
    /// Number of receives of the message, including this one.
    pub attempts: u16,
    /// Time of the first receive, in microseconds since 1970.
    pub first_received: Micros,
}

/// Inputs for the evaluation of commands to the state of a segment (message batch).
#[derive(Debug, Clone, Copy)]
pub struct StateContext<'a> {
    /// Segment that uses this cell, according to the shard's manifest (list of live segments).
    pub segment: Segment,
    /// Log of the segment (list of its messages), which may be a stale copy.
    pub log: &'a Log,
    /// Maximum number of receives of a message, after which it is [exhausted](State::exhausted);
    /// `None`: no maximum.
    pub most_attempts: Option<u16>,
    /// Retention bound of [`expired_by`](crate::queues::expired_by): messages that were due by then
    /// are expired; `None`: messages never expire.
    pub expired_by: Option<Micros>,
    /// Groups that must wait, in an ordered queue; `None`: the queue is not ordered.
    pub order: Option<&'a Order>,
    /// Claims that this process gave, with their end times.
    pub leases: &'a Leases,
    /// Clocks of this process, at the time of the evaluation.
    pub clock: Clock,
    /// Limits and rules of the protocol.
    pub protocol: Protocol,
}

impl State {
    /// Returns the state of a cell that was never written.
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

    /// Returns the segment (message batch) to which the state belongs.
    pub fn segment(&self) -> Segment {
        self.segment
    }

    /// Returns the positions of the resolved messages (never received again).
    pub fn resolved(&self) -> &Resolved {
        &self.resolved
    }

    /// Returns the unresolved messages that were received or are being moved, by position.
    pub fn pending(&self) -> &BTreeMap<Seq, Pending> {
        &self.pending
    }

    /// Returns the positions of messages that were received the maximum number of times, and whose
    /// last claim has ended. They must go to the dead-letter queue.
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

    /// Returns the number of messages that receivers have now.
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

    /// Returns the positions of the messages that [`Expire`](StateCommand::Expire) resolves. Claimed
    /// messages stay, so that no receiver loses a message while it works on it. Messages that
    /// failed for the last time stay, too, because they go to the dead-letter queue, which has its
    /// own retention time.
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

    /// Executes a command on the state of its segment (message batch), and returns the response.
    fn is_asked(&mut self, command: &StateCommand, context: &StateContext<'_>) -> StateResponse {
        if command.seq().is_some_and(|seq| self.resolved.has(seq)) {
            return match command {
                // The message may have been removed while its receiver worked on it. `Stale` tells
                // the receiver so.
                StateCommand::Nack { .. } | StateCommand::Extend { .. } => StateResponse::Stale,
                _ => StateResponse::Done,
            };
        }
        match *command {
            StateCommand::Claim {
                claim,
                most,
                until,
                failed_surplus,
            } => {
                let claimable = |state: &Self| state.claimable(most, failed_surplus, context);
                self.claim(claim, claimable, until, context)
            }
            StateCommand::Ack { seq, claim } => self.ack(seq, claim, context),
            StateCommand::Nack { seq, claim, until } => {
                self.hold(seq, claim, until, Standing::Waiting, context)
            }
            StateCommand::Extend { seq, claim, until } => {
                self.hold(seq, claim, until, Standing::Claimed, context)
            }
            StateCommand::GiveBack { seq, claim } => self.give_back(seq, claim, context),
            StateCommand::Leave { seq, claim, target } => self.leave(seq, claim, target, context),
            StateCommand::MoveOn { seq, target } => self.move_on(seq, target, context),
            StateCommand::Redirect { seq, from, target } => self.redirect(seq, from, target, context),
            StateCommand::Left { seq, target } => self.left(seq, target),
            StateCommand::Remove(seq) => self.remove(seq, context),
            StateCommand::Expire { by } => self.expire(by, context),
            StateCommand::Purge { count } if context.protocol.rules.keeps(Rule::PurgeKeepsWhatLeaves) => {
                let leaving = (0..count).filter_map(|seq| self.purge(seq)).last();
                leaving.unwrap_or(StateResponse::Done)
            }
            StateCommand::Purge { count } | StateCommand::Clear { count } => {
                for seq in 0..count {
                    self.resolve(seq);
                }
                StateResponse::Done
            }
        }
    }

    fn remove(&mut self, seq: Seq, context: &StateContext<'_>) -> StateResponse {
        let log = context.log;
        if log.segment != context.segment || log.message(seq).is_none() {
            return StateResponse::NoMessage;
        }
        self.purge(seq).unwrap_or(StateResponse::Done)
    }

    fn expire(&mut self, by: Micros, context: &StateContext<'_>) -> StateResponse {
        if context.log.segment != context.segment {
            return StateResponse::NoMessage;
        }
        for seq in self.expired(by, context) {
            self.resolve(seq);
        }
        StateResponse::Done
    }

    /// Resolves a message, unless it is being moved. Returns the response for a message that is
    /// being moved; otherwise `None`.
    fn purge(&mut self, seq: Seq) -> Option<StateResponse> {
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
    ) -> StateResponse {
        let is_own = |pending: &Pending| pending.claim == claim && pending.standing == Standing::Claimed;
        let own = self.pending.iter().filter(|(_, pending)| is_own(pending));
        let own: Vec<_> = own.map(|(seq, pending)| pending.delivery(*seq)).collect();
        if !own.is_empty() {
            return StateResponse::Claimed(own);
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
        StateResponse::Claimed(claimed.collect())
    }

    /// Returns whether a claim would get at least one message, as far as this process knows.
    pub fn may_claim(&self, context: &StateContext<'_>) -> bool {
        if self.segment < context.segment {
            return Self::empty(context.segment, self.version).may_claim(context);
        }
        self.segment == context.segment && !self.claimable(1, 0, context).is_empty()
    }

    /// Returns whether an expired message may be resolved: no receiver has it, and it will not be
    /// moved.
    fn may_expire(&self, seq: Seq, context: &StateContext<'_>) -> bool {
        self.pending.get(&seq).is_none_or(|pending| {
            let is_held = pending.standing == Standing::Claimed && !pending.is_over(seq, context);
            pending.stays(context) && !is_held
        })
    }

    /// Returns the unresolved messages of a segment (message batch), by position.
    pub fn unresolved<'a>(
        &'a self,
        segment: Segment,
        log: &'a Log,
    ) -> impl Iterator<Item = (Seq, &'a Entry)> {
        let resolved = if self.segment == segment {
            &self.resolved
        } else {
            &ack_bitmap::NONE
        };
        let open = resolved.missing(log.next());
        open.filter_map(|seq| Some((seq, log.message(seq)?.1)))
    }

    /// Returns the message, if `claim` is its newest claim by a receiver, and it is not being
    /// moved.
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

    fn ack(&mut self, seq: Seq, claim: ClaimId, context: &StateContext<'_>) -> StateResponse {
        if self.claimed(seq, claim, context).is_none() {
            return StateResponse::Stale;
        }
        self.resolve(seq);
        StateResponse::Done
    }

    /// Extends the claim of a message (`Claimed`), or gives the message back (`Waiting`).
    fn hold(
        &mut self,
        seq: Seq,
        claim: ClaimId,
        until: Micros,
        standing: Standing,
        context: &StateContext<'_>,
    ) -> StateResponse {
        let Some(pending) = self.claimed(seq, claim, context) else {
            return StateResponse::Stale;
        };
        if standing == Standing::Claimed && pending.standing == Standing::Waiting {
            return StateResponse::Stale;
        }
        pending.until = until;
        pending.standing = standing;
        StateResponse::Done
    }

    fn give_back(&mut self, seq: Seq, claim: ClaimId, context: &StateContext<'_>) -> StateResponse {
        let Some(pending) = self.claimed(seq, claim, context) else {
            return StateResponse::Stale;
        };
        if pending.standing == Standing::Waiting {
            return StateResponse::Done;
        }
        pending.attempts = pending.attempts.saturating_sub(1);
        pending.until = pending.first_received;
        pending.standing = Standing::Waiting;
        if pending.attempts == 0 {
            self.pending.remove(&seq);
        }
        StateResponse::Done
    }

    fn leave(
        &mut self,
        seq: Seq,
        claim: Option<ClaimId>,
        target: Target,
        context: &StateContext<'_>,
    ) -> StateResponse {
        let before = self.pending.get(&seq);
        if let Some(leaving) = before.and_then(Pending::leaving) {
            return leaving;
        }
        let is_free =
            before.is_none_or(|pending| Some(pending.claim) == claim || pending.is_over(seq, context));
        if !is_free {
            return StateResponse::Stale;
        }
        self.marks(seq, target, context)
    }

    /// Marks a message as being moved to a later segment. Rejects a claimed message, even if its
    /// claim has ended: the receiver may be about to acknowledge the message. The acknowledgment
    /// would succeed here, but the message would be received again in the later segment.
    fn move_on(&mut self, seq: Seq, target: Target, context: &StateContext<'_>) -> StateResponse {
        match self.pending.get(&seq).map(|pending| pending.standing) {
            Some(Standing::Claimed) => StateResponse::Stale,
            // The move copies the message's entry from the log, so it needs the log of this
            // segment.
            _ if context.log.segment != context.segment || context.log.message(seq).is_none() => {
                StateResponse::NoMessage
            }
            _ => self.marks(seq, target, context),
        }
    }

    /// Marks a message as being moved, unless it is being moved already. The caller has checked
    /// that no receiver has it.
    fn marks(&mut self, seq: Seq, target: Target, context: &StateContext<'_>) -> StateResponse {
        let before = self.pending.get(&seq).copied();
        if let Some(leaving) = before.as_ref().and_then(Pending::leaving) {
            return leaving;
        }
        if before.is_none() && self.pending.len() == context.protocol.pending {
            return StateResponse::Full;
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
        StateResponse::Leaving(target, pending.received())
    }

    /// Returns the number and times of a message's receives, in this segment or earlier; `None` if
    /// it was never received.
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
    ) -> StateResponse {
        let is_decided = context.protocol.rules.keeps(Rule::RedirectedFromMark);
        let Some(pending) = self.pending.get_mut(&seq) else {
            return StateResponse::Stale;
        };
        if let Standing::Leaving(current) = &mut pending.standing
            && (*current == from || !is_decided)
        {
            *current = target;
        }
        pending.leaving().unwrap_or(StateResponse::Stale)
    }

    fn left(&mut self, seq: Seq, target: Target) -> StateResponse {
        let pending = self.pending.get(&seq);
        if pending.is_none_or(|pending| pending.standing != Standing::Leaving(target)) {
            return StateResponse::Stale;
        }
        self.resolve(seq);
        StateResponse::Done
    }
}

impl StateContext<'_> {
    /// Returns whether a message has exceeded the retention time, so that no receiver may get it.
    pub(crate) fn is_expired(&self, entry: &Entry) -> bool {
        self.expired_by.is_some_and(|by| entry.due() <= by)
    }
}

impl Pending {
    /// Returns the number and times of the receives; `None` if the message was never received.
    fn received(&self) -> Option<Received> {
        (self.attempts > 0).then_some(Received {
            attempts: self.attempts,
            first: self.first_received,
            until: self.until,
        })
    }

    /// Returns whether the message stays in this segment: it is not being moved, and does not have
    /// to go to the dead-letter queue.
    pub(crate) fn stays(&self, context: &StateContext<'_>) -> bool {
        let is_leaving = matches!(self.standing, Standing::Leaving(_));
        let is_exhausted = context.most_attempts.is_some_and(|most| self.attempts >= most);
        !is_leaving && !is_exhausted
    }

    /// Returns the response about a message that is being moved; `None` if it is not.
    fn leaving(&self) -> Option<StateResponse> {
        match self.standing {
            Standing::Leaving(target) => Some(StateResponse::Leaving(target, self.received())),
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

    /// Returns whether the last claim of the message, or its delay after it was given back, has
    /// ended.
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

/// Creates the pending entry of a message that was received in an earlier segment, and not yet in
/// this one.
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
    type Command = StateCommand;
    type Response = StateResponse;
    type Context<'a> = StateContext<'a>;

    fn version(&self) -> Version {
        self.version
    }

    fn raise(&mut self) {
        self.version += 1;
    }

    fn work_out(&mut self, command: &StateCommand, _: bool, context: &StateContext<'_>) -> StateResponse {
        if self.segment > context.segment {
            return StateResponse::Gone;
        }
        if self.segment == context.segment {
            return self.is_asked(command, context);
        }
        let empty = Self::empty(context.segment, self.version);
        let mut set_up = empty.clone();
        let response = set_up.is_asked(command, context);
        if set_up != empty {
            *self = set_up;
        }
        response
    }
}

impl StateCommand {
    /// Returns the position of the message that the command concerns; `None` if it concerns several
    /// messages.
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
