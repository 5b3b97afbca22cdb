//! A message goes to another queue: to the dead letters, or wherever it is moved.

use std::sync::{Arc, PoisonError};

use recto_protocol::queues::{
    Chunk, ClaimId, Entry, Live, MoveAction, MoveEvent, Moved, Moving, Origin, Reach, Segment, Seq,
    StateAnswer,
};

use crate::bodies::Content;
use crate::entering::Load;
use crate::error::Result;
use crate::segment::LiveSegment;
use crate::shard::Shard;
use crate::shards::Shards;

/// The attribute of a dead letter that says why it is one.
pub const ERROR_ATTRIBUTE: &str = "recto.error";
/// The attribute of a dead letter that says how often it was received before.
pub const ATTEMPTS_ATTRIBUTE: &str = "recto.attempts";
/// The most bytes of what is said of why a message was given back.
pub(crate) const MAX_ERROR_BYTES: usize = 4_096;
/// What is said of a message whose body is missing, or damaged.
pub(crate) const BODY_LOST: &str = "body lost: it is missing in the store, or damaged";

/// Where a message goes.
#[derive(Clone, Copy)]
pub(crate) enum Goes<'t> {
    /// To another queue, by whoever received it, if anybody did.
    To(&'t Shards, Option<ClaimId>),
    /// To a later segment of its own shard, which takes such messages.
    On(Reach),
}

impl Shard {
    /// Moves one message to the dead letters; none: there is no such queue, or it is on its way. Where there are none, it goes on
    /// with what was begun.
    pub(crate) async fn bury_one(
        self: &Arc<Self>,
        segment: &LiveSegment,
        live: Live,
        seq: Seq,
        attempts: u16,
        claim: Option<ClaimId>,
        error: &str,
    ) -> Result<Option<Moved>> {
        let goes_on = segment
            .target(seq)
            .is_some_and(|target| target.address == self.address);
        let dead_letters = self.common.options.get().dead_letters;
        let Some(dead_letters) = dead_letters.filter(|_| !goes_on) else {
            return self.end_move(segment, live, seq).await;
        };
        let attributes = [
            (ERROR_ATTRIBUTE, shortened(error).to_owned()),
            (ATTEMPTS_ATTRIBUTE, attempts.to_string()),
        ];
        let change = |content: &mut Content| {
            let attributes = attributes.map(|(name, value)| (name.to_owned(), value));
            content.attributes.extend(attributes);
        };
        let to = self.queues.shards_of(dead_letters.to);
        let goes = Goes::To(&to, claim);
        let moved = self.move_one(segment, live, seq, goes, change).await?;
        self.common
            .counters
            .dead_lettered
            .add(usize::from(moved == Some(Moved::Done)));
        Ok(moved)
    }

    /// Goes on where somebody began to move a message back, or on; none: nobody did, or it is on its way by this process.
    async fn end_move(
        self: &Arc<Self>,
        segment: &LiveSegment,
        live: Live,
        seq: Seq,
    ) -> Result<Option<Moved>> {
        let Some(target) = segment.target(seq) else {
            return Ok(None);
        };
        if target.address == self.address {
            return self.move_on(segment, live, seq, Reach::Near).await;
        }
        let to = Shards::only(self.queues.shard_at(target.address));
        let goes = Goes::To(&to, None);
        self.move_one(segment, live, seq, goes, as_it_was_sent).await
    }

    /// Moves one message to a later segment, as it is; see [`move_one`](Self::move_one).
    pub(crate) async fn move_on(
        self: &Arc<Self>,
        segment: &LiveSegment,
        live: Live,
        seq: Seq,
        reach: Reach,
    ) -> Result<Option<Moved>> {
        self.move_one(segment, live, seq, Goes::On(reach), |_| {}).await
    }

    /// Moves one message, its body changed so; none: it is on its way, or was not known here. One whose body is
    /// lost goes without it, and says so.
    pub(crate) async fn move_one(
        self: &Arc<Self>,
        segment: &LiveSegment,
        live: Live,
        seq: Seq,
        goes: Goes<'_>,
        change: impl FnOnce(&mut Content),
    ) -> Result<Option<Moved>> {
        let on_its_way = OnItsWay::new(self, (segment.number, seq));
        let message = segment.with_log(|log| log.message(seq).map(|(chunk, entry)| (chunk, *entry)));
        let (Some(_on_its_way), Some((chunk, entry))) = (on_its_way, message.flatten()) else {
            return Ok(None);
        };
        let found = self.content(segment.number, live, chunk, entry).await?;
        let is_lost = found.is_none();
        if is_lost && self.find(segment.number).await?.is_none() {
            // Bodies go with their segment.
            return Ok(Some(Moved::Done));
        }
        if is_lost && matches!(goes, Goes::On(_)) && segment.target(seq).is_none() {
            // Who receives it finds that out, and says so.
            return Ok(Some(Moved::NotNow));
        }
        let mut content = found.unwrap_or_default();
        change(&mut content);
        if is_lost {
            let said = (ERROR_ATTRIBUTE.to_owned(), BODY_LOST.to_owned());
            content.attributes.extend([said]);
        }
        let load = Load {
            bodies: [content.encode()].into(),
            is_deduplicated: false,
        };
        let origin = Origin {
            address: self.address,
            segment: segment.number,
            seq,
        };
        let (chunk, protocol) = (Chunk(self.queues.random()), self.queues.protocol);
        let (target, claim, arrived) = match goes {
            // The other queue keeps it for its full retention, however old it is.
            Goes::To(to, claim) => {
                let now = self.queues.environment.now_micros();
                (to.to_move(entry.group), claim, Some(now))
            }
            Goes::On(_) => (self, None, entry.arrived),
        };
        let entry = Entry { arrived, ..entry };
        let address = (target.address, target.tenure);
        let mut moving = Moving::new(origin, claim, address, chunk, entry, protocol);
        if let Goes::On(reach) = goes {
            moving = moving.on(reach);
        }
        if let Some(table) = target.own_table().await? {
            moving = moving.in_table(table);
        }
        let moved = self.run(moving, segment, target, &load).await?;
        if moved == Moved::Full {
            // Another shard of that queue may have room.
            target.losses.appends.add(1);
        }
        self.common
            .counters
            .bodies_lost
            .add(usize::from(is_lost && moved == Moved::Done));
        Ok(Some(moved))
    }

    async fn run(
        self: &Arc<Self>,
        mut moving: Moving,
        segment: &LiveSegment,
        target: &Arc<Self>,
        load: &Load,
    ) -> Result<Moved> {
        let time = self.queues.request_timeout;
        // Known as long as the message is on its way there.
        let mut target = Arc::clone(target);
        let mut event = MoveEvent::Begin;
        loop {
            event = match moving.step(event) {
                MoveAction::Source(_, wish) => {
                    let answer = match self.find(segment.number).await? {
                        Some(_) => segment.state.ask_one(wish, time).await?,
                        None => StateAnswer::Gone,
                    };
                    MoveEvent::Source(answer)
                }
                MoveAction::Shard(address, action) => {
                    if target.address != address {
                        target = self.queues.shard_at(address);
                    }
                    let event = target.enter(action, load, time).await?;
                    target.tells();
                    MoveEvent::Shard(event)
                }
                MoveAction::Over(moved) => {
                    self.release_if_done(segment).await;
                    // Others of its group may wait for that.
                    self.tells();
                    return Ok(moved);
                }
            };
        }
    }
}

/// Without what is said of dead letters.
pub(crate) fn as_it_was_sent(content: &mut Content) {
    content.attributes.remove(ERROR_ATTRIBUTE);
    content.attributes.remove(ATTEMPTS_ATTRIBUTE);
}

/// No more of it than is kept, and whole characters.
fn shortened(error: &str) -> &str {
    let mut end = error.len().min(MAX_ERROR_BYTES);
    while !error.is_char_boundary(end) {
        end -= 1;
    }
    &error[..end]
}

/// A message that this process moves.
struct OnItsWay {
    shard: Arc<Shard>,
    message: (Segment, Seq),
}

impl OnItsWay {
    /// None: it does already.
    fn new(shard: &Arc<Shard>, message: (Segment, Seq)) -> Option<Self> {
        let mut moving = shard.moving.lock().unwrap_or_else(PoisonError::into_inner);
        moving.insert(message).then(|| Self {
            shard: Arc::clone(shard),
            message,
        })
    }
}

impl Drop for OnItsWay {
    fn drop(&mut self) {
        let mut moving = self.shard.moving.lock().unwrap_or_else(PoisonError::into_inner);
        moving.remove(&self.message);
    }
}
