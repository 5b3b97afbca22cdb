//! Receiving of messages from all shards of a queue. `poll` searches one shard and claims messages, and
//! `lost_bodies` removes messages whose bodies are missing.

mod lost_bodies;
mod poll;

use std::time::Duration;

use recto_protocol::queues::Micros;
use tokio::sync::oneshot;

use crate::context::micros;
use crate::error::{QueueError, QueueErrorKind, Result};
use crate::message::{MAX_BATCH, Message};
use crate::receipts::check_visibility;
use crate::receive::poll::{PollRequest, PollResult};
use crate::shards::Shards;

/// Maximum time that a receive waits for a message.
pub const MAX_WAIT: Duration = Duration::from_secs(20);
/// Interval at which a waiting receive checks whether its queue is still paused.
const PAUSED_INTERVAL: Duration = Duration::from_millis(500);

/// Result of the polls of one receive, over all shards of a queue.
#[derive(Default)]
struct ReceiveResult {
    polled: PollResult,
    /// Time until the next poll, if no message was found. After it, one of the polled shards may have a
    /// message.
    pause: Option<Duration>,
}

impl ReceiveResult {
    fn limit_pause(&mut self, pause: Duration) {
        self.pause = Some(self.pause.map_or(pause, |other| other.min(pause)));
    }
}

impl Shards {
    /// Receives at most `most` messages, or fewer if they are large. Within a shard, new messages are
    /// received oldest first, and in turn with messages that failed before.
    ///
    /// Each message has the visibility timeout `visibility`, or that of the queue if it is `None`. The
    /// timeout begins before the claim is sent to the store. If no message can be received, the call waits
    /// for one, for at most `wait`. Messages are given back if the caller drops the call before it has them.
    /// A paused queue delivers nothing, as if it were empty.
    ///
    /// # Errors
    /// - An argument is out of range.
    /// - The store is unreachable.
    /// - Stored data of the queue is damaged, or a newer release wrote it.
    /// - The queue had the maximum number of messages in flight until the end of `wait`.
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
        let (context, queue) = (self.context(), self.queue());
        let until = context.deadline(wait);
        let _waiting = queue.counters.count_receiver();
        let _listener = (!wait.is_zero()).then(|| self.listen());
        loop {
            let mut news = std::pin::pin!(queue.news.notified());
            // Register before the poll, so that no notification during the poll is missed.
            news.as_mut().enable();
            if self.options().is_paused {
                let left = context.time_left(until);
                if left.is_zero() {
                    return Ok(Vec::new());
                }
                tokio::time::sleep(PAUSED_INTERVAL.min(left)).await;
                continue;
            }
            let kept = visibility.unwrap_or(self.options().visibility);
            let found = self.poll_in_task(most, micros(kept), !wait.is_zero()).await?;
            queue.counters.received.add(found.polled.messages.len());
            if found.polled.messages.is_empty() && found.polled.is_lossy {
                continue;
            }
            let left = context.time_left(until);
            if found.polled.messages.is_empty() && left.is_zero() && self.count_receivable(1, 0) == 0 {
                return Err(QueueError::too_many_in_flight(self.options().max_in_flight));
            }
            if !found.polled.messages.is_empty() || left.is_zero() {
                return Ok(found.polled.messages);
            }
            tokio::select! {
                () = news => {}
                () = tokio::time::sleep(found.pause.unwrap_or_default().min(left)) => {}
            }
        }
    }

    /// Polls the shards once, in a task of its own. If the caller is gone when the poll ends, the messages
    /// are given back.
    async fn poll_in_task(&self, most: usize, visibility: Micros, waits: bool) -> Result<ReceiveResult> {
        let (sender, receiver) = oneshot::channel();
        let shards = self.clone();
        tokio::spawn(async move {
            let found = shards.poll_each_shard(most, visibility, waits).await;
            let held = found.map(|mut found| {
                shards.drop_ended_leases(&mut found.polled.messages);
                UndeliveredMessages {
                    shards,
                    found: Some(found),
                }
            });
            // If the caller no longer listens, `held` is dropped, which gives its messages back.
            let _ = sender.send(held);
        });
        let held = receiver.await.unwrap_or_else(|_| Err(QueueError::ended()))?;
        held.take().ok_or_else(QueueError::ended)
    }

    /// Polls one shard after another until there are enough messages. If one shard fails, the
    /// receive still gets messages from the other shards.
    async fn poll_each_shard(&self, most: usize, visibility: Micros, waits: bool) -> Result<ReceiveResult> {
        let (mut found, mut failed) = (ReceiveResult::default(), None);
        for index in self.shards_to_receive() {
            let shard = &self.all()[index];
            let quiet = shard.remaining_pause();
            let (has_some, wanted) = (
                !found.polled.messages.is_empty(),
                most - found.polled.messages.len(),
            );
            if wanted == 0 || found.polled.is_full() || found.polled.has_failed_half(most) {
                if quiet.is_none() {
                    // The receive ends, but the shard may have more messages, so wake another
                    // waiting receiver.
                    self.queue().news.notify_one();
                    break;
                }
                continue;
            }
            // Another receiver polled the shard and found nothing, and no notification came
            // afterward, so a receiver that can wait skips the shard.
            if let Some(pause) = quiet.filter(|_| waits) {
                found.limit_pause(pause);
                continue;
            }
            let since = shard.begin_poll();
            let request = PollRequest {
                queue: self,
                most: wanted,
                total: most,
                visibility,
                is_urgent: waits || !has_some,
            };
            match shard.poll(request, &found.polled).await {
                Ok(polled) => {
                    if polled.messages.is_empty() {
                        found.limit_pause(shard.pause_after(&polled, since));
                    } else {
                        self.received_at(index);
                    }
                    found.polled.add(polled);
                }
                Err(error) => {
                    shard.wake_receiver();
                    failed = failed.or(Some(error));
                }
            }
        }
        match failed {
            Some(error) if found.polled.messages.is_empty() => Err(error),
            _ => Ok(found),
        }
    }

    /// Removes messages whose visibility timeout has ended before they reach the receiver, and gives them
    /// back unless another receiver has them. If they were not given back, a message could go to the
    /// dead-letter queue although no receiver ever had it.
    fn drop_ended_leases(&self, messages: &mut Vec<Message>) {
        for shard in self.all() {
            let own = messages.iter().map(|message| message.receipt);
            let ended_leases = shard.ended_leases(own.filter(|receipt| receipt.address == shard.address));
            messages.retain(|message| !ended_leases.contains(&message.receipt));
            shard.give_back(ended_leases);
        }
    }
}

/// Messages of a poll that the receiver has not taken yet. Dropping this value gives them back.
struct UndeliveredMessages {
    shards: Shards,
    found: Option<ReceiveResult>,
}

impl UndeliveredMessages {
    fn take(mut self) -> Option<ReceiveResult> {
        self.found.take()
    }
}

impl Drop for UndeliveredMessages {
    fn drop(&mut self) {
        let messages = self
            .found
            .take()
            .map(|found| found.polled.messages)
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
