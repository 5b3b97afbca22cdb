//! Messages go to another queue: those that were received too often.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use recto_queue::{
    Address, Chunk, ClaimId, Live, MoveAction, MoveEvent, Moved, Moving, Origin, Segment, Seq, StateAnswer,
    Tenure,
};

use crate::bodies::Content;
use crate::entering::Load;
use crate::error::Result;
use crate::segment::LiveSegment;
use crate::shard::Inner;

/// The attribute of a dead letter that says why it is one.
pub const ERROR_ATTRIBUTE: &str = "recto.error";
/// The attribute of a dead letter that says how often it was received before.
pub const ATTEMPTS_ATTRIBUTE: &str = "recto.attempts";
/// The most bytes of what is said of why a message was given back.
pub(crate) const MAX_ERROR_BYTES: usize = 4_096;
/// What is said of a message whose body is missing, or damaged.
pub(crate) const BODY_LOST: &str = "body lost: it is missing in the store, or damaged";
/// What is said of a message that nobody gave back.
const NOT_GIVEN_BACK: &str = "it was received as often as it may be, and not acknowledged in time";

impl Inner {
    /// Has what was received too often moved, and what somebody else began to move, by a task of its own. What cannot be moved
    /// now is by who next looks at it.
    pub(crate) fn bury(self: &Arc<Self>, segment: &Arc<LiveSegment>, live: Live) {
        let leaving = segment.leaving();
        if leaving.is_empty() || segment.is_burying.swap(true, Ordering::AcqRel) {
            return;
        }
        let (shard, burying) = (Arc::clone(self), Burying(Arc::clone(segment)));
        tokio::spawn(async move {
            for (seq, attempts) in leaving {
                let buried = shard.bury_one(&burying.0, live, seq, attempts, None, NOT_GIVEN_BACK);
                let _ = buried.await;
            }
        });
    }

    /// Moves one message to the dead letters; none: there is no such queue, or it is on its way.
    pub(crate) async fn bury_one(
        self: &Arc<Self>,
        segment: &LiveSegment,
        live: Live,
        seq: Seq,
        attempts: u16,
        claim: Option<ClaimId>,
        error: &str,
    ) -> Result<Option<Moved>> {
        let dead_letters = self.options.get().dead_letters;
        // What is on its way goes on, though there are no dead letters any more.
        let marked = segment.target(seq).map(|target| {
            let target = self.queues.shard_at(target.address);
            (target.address, target.tenure)
        });
        let Some(to) = dead_letters.map(|dead_letters| dead_letters.to).or(marked) else {
            return Ok(None);
        };
        let attributes = [
            (ERROR_ATTRIBUTE, shortened(error).to_owned()),
            (ATTEMPTS_ATTRIBUTE, attempts.to_string()),
        ];
        let change = |content: &mut Content| {
            let attributes = attributes.map(|(name, value)| (name.to_owned(), value));
            content.attributes.extend(attributes);
        };
        let moved = self.move_one(segment, live, seq, claim, to, change).await?;
        self.counters
            .dead_lettered
            .add(usize::from(moved == Some(Moved::Done)));
        Ok(moved)
    }

    /// Moves one message to another queue, its body changed so; none: it is on its way, or was not known here. One whose body is
    /// lost goes without it, and says so.
    pub(crate) async fn move_one(
        self: &Arc<Self>,
        segment: &LiveSegment,
        live: Live,
        seq: Seq,
        claim: Option<ClaimId>,
        to: (Address, Tenure),
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
        let moving = Moving::new(origin, claim, to, chunk, entry, protocol);
        let moved = self.run(moving, segment, to.1, &load).await?;
        self.counters
            .bodies_lost
            .add(usize::from(is_lost && moved == Moved::Done));
        Ok(Some(moved))
    }

    async fn run(
        self: &Arc<Self>,
        mut moving: Moving,
        segment: &LiveSegment,
        tenure: Tenure,
        load: &Load,
    ) -> Result<Moved> {
        let time = self.queues.request_timeout;
        // Known as long as the message is on its way there.
        let mut target = self.queues.shard(moving.address(), tenure).0;
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
                    target.news.notify_one();
                    MoveEvent::Shard(event)
                }
                MoveAction::Over(moved) => {
                    self.release_if_done(segment).await;
                    // Others of its group may wait for that.
                    self.news.notify_one();
                    return Ok(moved);
                }
            };
        }
    }
}

/// No more of it than is kept, and whole characters.
fn shortened(error: &str) -> &str {
    let mut end = error.len().min(MAX_ERROR_BYTES);
    while !error.is_char_boundary(end) {
        end -= 1;
    }
    &error[..end]
}

/// Messages of a segment are being moved away.
struct Burying(Arc<LiveSegment>);

impl Drop for Burying {
    fn drop(&mut self) {
        self.0.is_burying.store(false, Ordering::Release);
    }
}

/// A message that this process moves.
struct OnItsWay {
    shard: Arc<Inner>,
    message: (Segment, Seq),
}

impl OnItsWay {
    /// None: it does already.
    fn new(shard: &Arc<Inner>, message: (Segment, Seq)) -> Option<Self> {
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
