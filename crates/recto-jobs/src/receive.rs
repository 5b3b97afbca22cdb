//! Receiving.

use std::time::Duration;

use recto_protocol::queues::Micros;
use recto_protocol::queues::limits::MAX_VISIBILITY_SECONDS;
use tokio::sync::oneshot;

use crate::common::Room;
use crate::error::{QueueError, QueueErrorKind, Result};
use crate::look::{Look, Wish};
use crate::message::{MAX_BATCH, Message};
use crate::settle::micros;
use crate::shards::Shards;

/// The shortest that a message is its receiver's: it has to be handed out within that.
const MIN_VISIBILITY: Duration = Duration::from_millis(100);
/// The longest that a receive waits.
pub const MAX_WAIT: Duration = Duration::from_secs(20);
/// Interval at which a receive that waits finds out whether its queue is still paused.
const PAUSED_INTERVAL: Duration = Duration::from_millis(500);

/// What looks at the shards of a queue found.
#[derive(Default)]
struct Found {
    look: Look,
    /// Until there may be something, where nothing was.
    pause: Option<Duration>,
}

impl Found {
    fn pauses(&mut self, pause: Duration) {
        self.pause = Some(self.pause.map_or(pause, |other| other.min(pause)));
    }
}

impl Shards {
    /// Receives at most so many messages, the oldest of a shard first, and fewer where they have many bytes; each is this caller's for
    /// `visibility`, or for as long as its queue says, counted from before this was asked. Waits for so long, if there is none. A
    /// caller that goes away before it has them gives them back. A queue that is paused delivers nothing, as if it were empty.
    ///
    /// # Errors
    /// A number is not right; the store cannot be reached; what is stored of the queue is damaged, or of a newer release. A message
    /// whose body is lost is no error: it is a dead letter, or [counted](crate::Totals::bodies_lost), and gone. As many messages are in
    /// flight as the options of the queue allow, until the end of `wait`.
    pub async fn receive(
        &self,
        most: usize,
        visibility: Option<Duration>,
        wait: Duration,
    ) -> Result<Vec<Message>> {
        check(most, visibility, wait)?;
        let (queues, common) = (self.queues(), self.common());
        let until = queues.deadline(wait);
        let _waits = common.counters.waits();
        let _listens = (!wait.is_zero()).then(|| queues.listens());
        loop {
            let mut news = std::pin::pin!(common.news.notified());
            // What comes while it is looked is not missed.
            news.as_mut().enable();
            if self.options().is_paused {
                let left = queues.left(until);
                if left.is_zero() {
                    return Ok(Vec::new());
                }
                tokio::time::sleep(PAUSED_INTERVAL.min(left)).await;
                continue;
            }
            let kept = visibility.unwrap_or(self.options().visibility);
            let found = self.look(most, micros(kept), !wait.is_zero()).await?;
            common.counters.received.add(found.look.messages.len());
            if found.look.messages.is_empty() && found.look.is_lossy {
                continue;
            }
            let left = queues.left(until);
            if found.look.messages.is_empty() && left.is_zero() && self.room_in_flight(1, 0) == 0 {
                return Err(QueueError::too_many_in_flight(self.options().max_in_flight));
            }
            if !found.look.messages.is_empty() || left.is_zero() {
                return Ok(found.look.messages);
            }
            tokio::select! {
                () = news => {}
                () = tokio::time::sleep(found.pause.unwrap_or_default().min(left)) => {}
            }
        }
    }

    /// Takes room for the messages, at most `wanted`, that may be received before the limit of messages in flight. Claims of other
    /// receivers of this process count, too.
    pub(crate) fn take_room(&self, wanted: usize) -> Room<'_> {
        let find_room = |claiming| self.room_in_flight(wanted, claiming);
        self.common().take_room(find_room)
    }

    /// Returns the number of messages, at most `wanted`, that may be received before the limit of messages in flight, if that many are
    /// claimed just now. Only segments that this process knows count, so the limit may be passed.
    fn room_in_flight(&self, wanted: usize, claiming: usize) -> usize {
        let most = (self.options().max_in_flight as usize).saturating_sub(claiming);
        let known: Vec<_> = self
            .all()
            .iter()
            .flat_map(|shard| shard.known_segments())
            .collect();
        let pending: usize = known.iter().map(|segment| segment.count_pending()).sum();
        if pending + wanted <= most {
            return wanted;
        }
        let in_flight = known.iter().map(|segment| segment.count_in_flight()).sum();
        wanted.min(most.saturating_sub(in_flight))
    }

    /// Looks once, in a task of its own: what nobody takes is given back.
    async fn look(&self, most: usize, visibility: Micros, waits: bool) -> Result<Found> {
        let (tell, told) = oneshot::channel();
        let shards = self.clone();
        tokio::spawn(async move {
            let found = shards.look_at_each(most, visibility, waits).await;
            let held = found.map(|mut found| {
                shards.keep_held(&mut found.look.messages);
                Held {
                    shards,
                    found: Some(found),
                }
            });
            // Who does not listen any more drops it.
            let _ = tell.send(held);
        });
        let held = told.await.unwrap_or_else(|_| Err(QueueError::ended()))?;
        held.take().ok_or_else(QueueError::ended)
    }

    /// Looks at one shard after the other until there is enough. One that cannot be looked at keeps nothing of the others back.
    async fn look_at_each(&self, most: usize, visibility: Micros, waits: bool) -> Result<Found> {
        let (mut found, mut failed) = (Found::default(), None);
        for index in self.to_receive() {
            let shard = &self.all()[index];
            let quiet = shard.is_quiet_for();
            let (has_some, wanted) = (!found.look.messages.is_empty(), most - found.look.messages.len());
            if wanted == 0 || found.look.is_full() || found.look.has_failed_half(most) {
                if quiet.is_none() {
                    // Whoever waits finds the rest.
                    self.common().news.notify_one();
                    break;
                }
                continue;
            }
            // Somebody looked, and there was nothing, and nothing came. Who does not wait looks anyway.
            if let Some(pause) = quiet.filter(|_| waits) {
                found.pauses(pause);
                continue;
            }
            let since = shard.will_look();
            let wish = Wish {
                queue: self,
                most: wanted,
                total: most,
                visibility,
                is_urgent: waits || !has_some,
            };
            match shard.look(wish, &found.look).await {
                Ok(look) => {
                    if look.messages.is_empty() {
                        found.pauses(shard.pause_after(&look, since));
                    } else {
                        self.received_at(index);
                    }
                    found.look.add(look);
                }
                Err(error) => {
                    shard.wakes();
                    failed = failed.or(Some(error));
                }
            }
        }
        match failed {
            Some(error) if found.look.messages.is_empty() => Err(error),
            _ => Ok(found),
        }
    }

    /// Leaves out what was not handed out in time. Where it is not another's yet it is given back, so that nothing becomes a dead
    /// letter that nobody ever had.
    fn keep_held(&self, messages: &mut Vec<Message>) {
        for shard in self.all() {
            let own = messages.iter().map(|message| message.receipt);
            let late = shard.late(own.filter(|receipt| receipt.address == shard.address));
            messages.retain(|message| !late.contains(&message.receipt));
            shard.give_back(late);
        }
    }
}

/// What was found, until its receiver has it.
struct Held {
    shards: Shards,
    found: Option<Found>,
}

impl Held {
    fn take(mut self) -> Option<Found> {
        self.found.take()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let messages = self
            .found
            .take()
            .map(|found| found.look.messages)
            .unwrap_or_default();
        for shard in self.shards.all() {
            let own = messages.iter().map(|message| message.receipt);
            let own = own.filter(|receipt| receipt.address == shard.address);
            shard.give_back(own.collect());
        }
    }
}

fn check(most: usize, visibility: Option<Duration>, wait: Duration) -> Result<()> {
    visibility.map_or(Ok(()), check_visibility)?;
    let what = if most == 0 || most > MAX_BATCH {
        format!("most: {most} messages: 1 to {MAX_BATCH} are received at once")
    } else if wait > MAX_WAIT {
        format!("wait: {wait:?}: 20 s are the longest")
    } else {
        return Ok(());
    };
    Err(QueueError::new(QueueErrorKind::InvalidArgument, what).with_hint("nothing was received"))
}

/// Whether a message may be its receiver's for so long.
pub(crate) fn check_visibility(visibility: Duration) -> Result<()> {
    let most = Duration::from_secs(MAX_VISIBILITY_SECONDS.into());
    if (MIN_VISIBILITY..=most).contains(&visibility) {
        return Ok(());
    }
    let what = format!("visibility: {visibility:?}: it is 100 ms at least, and 12 hours at most");
    Err(QueueError::new(QueueErrorKind::InvalidArgument, what)
        .with_hint("nothing was done")
        .with_field("visibility_seconds"))
}
