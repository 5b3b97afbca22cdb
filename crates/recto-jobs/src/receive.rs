//! Receiving of messages.

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

/// Minimum visibility timeout: a message has to reach its receiver within this time.
const MIN_VISIBILITY: Duration = Duration::from_millis(100);
/// Maximum wait of a receive.
pub const MAX_WAIT: Duration = Duration::from_secs(20);
/// Interval at which a waiting receive checks whether its queue is still paused.
const PAUSED_INTERVAL: Duration = Duration::from_millis(500);

/// Result of polls of the shards of a queue.
#[derive(Default)]
struct Found {
    look: Look,
    /// Time until a shard without messages may have one.
    pause: Option<Duration>,
}

impl Found {
    fn pauses(&mut self, pause: Duration) {
        self.pause = Some(self.pause.map_or(pause, |other| other.min(pause)));
    }
}

impl Shards {
    /// Receives at most `most` messages, or fewer if they are large. Within a shard, new messages are received oldest
    /// first, and in turn with messages that failed before. The caller has each message for `visibility`, or else for
    /// the visibility timeout of the queue. The time counts from before the claim was sent. If there is no message, the
    /// call waits for at most `wait`. If the caller goes away before it has the messages, they are given back. A paused
    /// queue delivers nothing, as if it were empty.
    ///
    /// # Errors
    /// An argument is out of range. The store is unreachable. Stored data of the queue is damaged, or a newer release
    /// wrote it. Until the end of `wait`, the queue had the maximum number of messages in flight.
    ///
    /// A message whose body is lost causes no error. It goes to the dead-letter queue, or it is
    /// [counted](crate::Totals::bodies_lost) and deleted.
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
            // Register before the poll, so that no notification during the poll is missed.
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

    /// Reserves room for at most `wanted` messages below the limit of messages in flight. Claims of other receivers of
    /// this process count, too.
    pub(crate) fn take_room(&self, wanted: usize) -> Room<'_> {
        let find_room = |claiming| self.room_in_flight(wanted, claiming);
        self.common().take_room(find_room)
    }

    /// Returns the number of messages, at most `wanted`, that may be received below the limit of messages in flight,
    /// while receivers of this process are claiming `claiming` messages. Only segments that this process knows count,
    /// so the limit may be exceeded.
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

    /// Polls once, in a task of its own. Messages that no caller takes are given back.
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
            // If the caller no longer listens, `held` is dropped, which gives its messages back.
            let _ = tell.send(held);
        });
        let held = told.await.unwrap_or_else(|_| Err(QueueError::ended()))?;
        held.take().ok_or_else(QueueError::ended)
    }

    /// Polls one shard after another until there are enough messages. An error of one shard does not prevent the
    /// receive from the others.
    async fn look_at_each(&self, most: usize, visibility: Micros, waits: bool) -> Result<Found> {
        let (mut found, mut failed) = (Found::default(), None);
        for index in self.to_receive() {
            let shard = &self.all()[index];
            let quiet = shard.is_quiet_for();
            let (has_some, wanted) = (!found.look.messages.is_empty(), most - found.look.messages.len());
            if wanted == 0 || found.look.is_full() || found.look.has_failed_half(most) {
                if quiet.is_none() {
                    // This receive ends, but the shard may have more messages, so wake another
                    // waiting receiver.
                    self.common().news.notify_one();
                    break;
                }
                continue;
            }
            // Another receiver polled this shard and found nothing, and no notification came since,
            // so a receiver that can wait skips the shard.
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

    /// Removes the messages that did not reach the receiver in time. They are given back unless another receiver has
    /// them already. Otherwise a message could go to the dead-letter queue although no receiver ever had it.
    fn keep_held(&self, messages: &mut Vec<Message>) {
        for shard in self.all() {
            let own = messages.iter().map(|message| message.receipt);
            let late = shard.late(own.filter(|receipt| receipt.address == shard.address));
            messages.retain(|message| !late.contains(&message.receipt));
            shard.give_back(late);
        }
    }
}

/// Result of polls, until the receiver takes it. When it is dropped, its messages are given back.
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
        format!("most: {most} messages; the range is 1 to {MAX_BATCH}")
    } else if wait > MAX_WAIT {
        format!("wait: {wait:?}; the maximum is 20 s")
    } else {
        return Ok(());
    };
    Err(QueueError::new(QueueErrorKind::InvalidArgument, what).with_hint("nothing was received"))
}

/// Checks that a visibility timeout is in the valid range.
pub(crate) fn check_visibility(visibility: Duration) -> Result<()> {
    let most = Duration::from_secs(MAX_VISIBILITY_SECONDS.into());
    if (MIN_VISIBILITY..=most).contains(&visibility) {
        return Ok(());
    }
    let what = format!("visibility: {visibility:?}; the range is 100 ms to 12 hours");
    Err(QueueError::new(QueueErrorKind::InvalidArgument, what)
        .with_hint("nothing was done")
        .with_field("visibility_seconds"))
}
