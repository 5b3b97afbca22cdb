//! Queues and their messages in a session on an open store.

use std::time::Duration;

use async_trait::async_trait;
use recto_api::queues::body_members;
use recto_model::{Type, Value, json};
use recto_queues::QueueError;

use crate::error::{Error, ErrorKind, Result};
use crate::queues::{
    Message, Peeked, PeekedStanding, Queue, QueueOptions, Receive, Sent, Settled, message_id_text,
    position_from_text, position_text, receipt_from_text, receipt_text,
};
use crate::session::{
    MovedMessages, OutgoingMessage, PeekedMessage, QueueSettings, QueueStatus, QueueTable,
    QueueTableSettings, QueueTables, Queues, ReceiveRequest, ReceivedMessage, ReceivedMessages, SentMessage,
    Settling, check_range, check_receive, most_messages, new_message, queue_totals,
};

use super::tools::LocalTools;

#[async_trait]
impl Queues for LocalTools {
    async fn queues(&self) -> Result<Vec<QueueStatus>> {
        let all = self.recto.queues_as_they_are().await?.list().await?;
        self.statuses(&all).await
    }

    async fn queue(&self, name: &str) -> Result<QueueStatus> {
        self.status(&self.named(name).await?).await
    }

    async fn create_queue(&self, name: &str, settings: &QueueSettings) -> Result<(QueueStatus, bool)> {
        let options = QueueOptions::created_with(settings).map_err(QueueError::from)?;
        let (queue, is_new) = self.recto.queues().await?.create_telling(name, options).await?;
        Ok((self.status(&queue).await?, is_new))
    }

    async fn change_queue(
        &self,
        name: &str,
        settings: &QueueSettings,
        version: Option<u64>,
    ) -> Result<QueueStatus> {
        let mut queue = self.named(name).await?;
        if let Some(version) = version.filter(|version| *version != queue.version()) {
            let message = format!(
                "the version of queue {name} is now {}, not {version}",
                queue.version()
            );
            return Err(Error::new(ErrorKind::Changed, message)
                .with_hint("read the queue again, and repeat the change")
                .with_version(i64::try_from(queue.version()).unwrap_or(i64::MAX)));
        }
        queue.change_from(version, settings.clone()).await?;
        self.status(&queue).await
    }

    async fn delete_queue(&self, name: &str) -> Result<()> {
        self.recto.queues_as_they_are().await?.delete(name).await
    }

    async fn send(&self, queue: &str, messages: Vec<OutgoingMessage>) -> Result<Vec<Result<SentMessage>>> {
        let queue = self.named(queue).await?;
        let mut results: Vec<Option<Result<SentMessage>>> = Vec::with_capacity(messages.len());
        let (mut right, mut numbers) = (Vec::new(), Vec::new());
        for (number, message) in messages.into_iter().enumerate() {
            match new_message(message, number) {
                Ok(message) => {
                    right.push(message);
                    numbers.push(number);
                    results.push(None);
                }
                Err(error) => results.push(Some(Err(error))),
            }
        }
        // Give each error the index of its message among all messages, not among the valid
        // messages.
        for (number, sent) in numbers.into_iter().zip(queue.send_all(right).await) {
            let sent = sent.map(sent_words).map_err(|error| error.with_change(number));
            results[number] = Some(sent);
        }
        Ok(results.into_iter().flatten().collect())
    }

    async fn receive(&self, queue: &str, request: &ReceiveRequest) -> Result<ReceivedMessages> {
        check_receive(request)?;
        let receive = Receive {
            most: usize::try_from(request.max_messages.unwrap_or(1)).unwrap_or(usize::MAX),
            visibility: request.visibility_seconds.map(seconds),
            wait: seconds(request.wait_seconds.unwrap_or(0)),
        };
        let queue = self.named(queue).await?;
        let received = queue.receive(receive).await?;
        Ok(ReceivedMessages {
            paused: received.is_empty() && queue.is_paused(),
            messages: received.into_iter().map(received_words).collect(),
        })
    }

    async fn settle(&self, queue: &str, receipts: &[String], settling: &Settling) -> Result<Vec<bool>> {
        settling.check()?;
        let queue = self.named(queue).await?;
        let read: Vec<_> = receipts.iter().map(|text| receipt_from_text(text).ok()).collect();
        let receipts: Vec<_> = read.iter().flatten().copied().collect();
        let settled = match settling {
            Settling::Ack => queue.ack(&receipts).await?,
            Settling::Nack { delay_seconds, error } => {
                queue.nack(&receipts, seconds(*delay_seconds), error).await?
            }
            Settling::GiveBack => queue.give_back(&receipts).await?,
            Settling::Extend { visibility_seconds } => {
                queue.extend(&receipts, seconds(*visibility_seconds)).await?
            }
        };
        // Only well-formed receipts were sent to the queue. So a malformed receipt takes no result,
        // and only this receipt fails.
        let mut settled = settled.into_iter();
        let is_done = |receipt: Option<_>| receipt.and_then(|_| settled.next()) == Some(Settled::Done);
        Ok(read.into_iter().map(is_done).collect())
    }

    async fn peek(&self, queue: &str, most: u32) -> Result<Vec<PeekedMessage>> {
        check_range("max_messages", most, 1..=most_messages())?;
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let peeked = self.named(queue).await?.peek(most).await?;
        Ok(peeked.into_iter().map(peeked_words).collect())
    }

    async fn remove_message(&self, queue: &str, position: &str) -> Result<bool> {
        let position = position_from_text(position)?;
        self.named(queue).await?.remove(position).await
    }

    async fn purge(&self, queue: &str) -> Result<()> {
        self.named(queue).await?.purge().await
    }

    async fn redrive(
        &self,
        queue: &str,
        to: Option<&str>,
        most: Option<u64>,
        time: Duration,
    ) -> Result<MovedMessages> {
        let from = self.named(queue).await?;
        let to = match to {
            Some(to) => self.named(to).await?,
            None => self.source_of(&from).await?,
        };
        let most = most.map(|most| usize::try_from(most).unwrap_or(usize::MAX));
        let redriven = from.redrive_for(&to, most, time).await?;
        Ok(MovedMessages {
            moved: u64::try_from(redriven.moved).unwrap_or(u64::MAX),
            done: redriven.is_done,
        })
    }

    async fn begin_unit(&self, queue: &str, unit: &str) -> Result<QueueStatus> {
        let unit = self.named(queue).await?.begin_unit(unit).await?;
        self.status(&unit).await
    }

    async fn end_unit(&self, queue: &str, unit: &str) -> Result<()> {
        self.named(queue).await?.end_unit(unit).await
    }

    async fn units(&self, queue: &str) -> Result<Vec<QueueStatus>> {
        let units = self.named(queue).await?.units().await?;
        self.statuses(&units).await
    }

    async fn tables(&self) -> Result<QueueTables> {
        let tables = self.recto.queues_as_they_are().await?.tables().await?;
        Ok(self.table_words(tables))
    }

    async fn change_tables(&self, settings: &QueueTableSettings) -> Result<QueueTables> {
        let queues = self.recto.queues().await?;
        queues.configure(*settings).await?;
        Ok(self.table_words(queues.tables().await?))
    }

    async fn table_settings(&self) -> Result<Option<QueueTableSettings>> {
        let options = self.recto.stored_queue_options().await?;
        Ok(options.map(QueueTableSettings::from))
    }

    async fn confirm_clock(&self) -> Result<String> {
        self.recto.confirm_clock().await.map(time_words)
    }
}

impl LocalTools {
    async fn named(&self, name: &str) -> Result<Queue> {
        self.recto.queues_as_they_are().await?.get(name).await
    }

    /// Returns the queue whose dead letters go to `dead_letters`. Fails if there is not exactly one
    /// such queue.
    async fn source_of(&self, dead_letters: &Queue) -> Result<Queue> {
        let mut sources = self.recto.queues().await?.list().await?;
        sources.retain(|queue| {
            let target = queue.options().dead_letters.as_ref();
            target.is_some_and(|target| target.queue.as_str() == dead_letters.name())
        });
        match <[Queue; 1]>::try_from(sources) {
            Ok([source]) => Ok(source),
            Err(sources) => {
                let (name, count) = (dead_letters.name(), sources.len());
                let message = format!("{count} queues have {name} as their dead-letter queue");
                Err(Error::new(ErrorKind::InvalidArgument, message)
                    .with_hint("name the queue that receives the messages")
                    .with_field("to"))
            }
        }
    }

    /// Returns the status of the first `most` queues, ordered by name, and the number of all
    /// queues.
    pub(super) async fn first_queues(
        &self,
        queues: &crate::queues::Queues,
        most: usize,
    ) -> Result<(Vec<QueueStatus>, usize)> {
        let all = queues.list().await?;
        let first = self.statuses(&all[..all.len().min(most)]).await?;
        Ok((first, all.len()))
    }

    pub(super) fn table_words(&self, tables: crate::queues::QueueTables) -> QueueTables {
        let now = self.recto.now_micros();
        let table = |table: crate::queues::QueueTable| QueueTable {
            number: table.number,
            name: table.name,
            phase: table.phase.name().to_owned(),
            age_seconds: table.since.map(|since| age_seconds(now, since)),
            unit: table.unit,
            segments: u64::try_from(table.segments).unwrap_or(u64::MAX),
            messages: table.messages,
            bytes: table.bytes,
            exact: table.is_exact,
        };
        QueueTables {
            needed: tables.is_needed,
            options: tables.options.settings(),
            tables: tables.tables.into_iter().map(table).collect(),
            obstacle: tables.obstacle,
        }
    }

    /// Returns the status of several queues. The status of a damaged queue reports the damage, so
    /// that the status of the other queues is still returned.
    async fn statuses(&self, queues: &[Queue]) -> Result<Vec<QueueStatus>> {
        let mut all = Vec::with_capacity(queues.len());
        for queue in queues {
            match self.status(queue).await {
                Ok(status) => all.push(status),
                // The queue was deleted after it was listed, so leave it out.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) if error.kind() == ErrorKind::Corrupt => all.push(QueueStatus {
                    name: queue.name().to_owned(),
                    version: queue.version(),
                    options: queue.options().settings(),
                    damage: Some(error.to_string()),
                    ..QueueStatus::default()
                }),
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }

    async fn status(&self, queue: &Queue) -> Result<QueueStatus> {
        let stats = queue.stats().await?;
        let now = self.recto.now_micros();
        Ok(QueueStatus {
            name: queue.name().to_owned(),
            version: queue.version(),
            options: queue.options().settings(),
            messages: stats.messages,
            in_flight: stats.in_flight,
            delayed: stats.delayed,
            age_seconds: stats.oldest_due_at.map(|due| age_seconds(now, due)),
            exact: stats.is_exact,
            receivers_waiting: stats.receivers_waiting,
            damage: None,
            totals: queue_totals(stats.totals),
        })
    }
}

#[allow(clippy::cast_precision_loss)] // the number is only displayed
fn age_seconds(now_micros: i64, sent_micros: i64) -> f64 {
    now_micros.saturating_sub(sent_micros).max(0) as f64 / 1_000_000.0
}

/// Returns a time as RFC 3339 text with milliseconds.
fn time_words(micros: i64) -> String {
    let time = json::to_json(&Type::Timestamp, &Value::Timestamp(micros.div_euclid(1_000)));
    time.as_str().map(str::to_owned).unwrap_or_default()
}

fn sent_words(sent: Sent) -> SentMessage {
    let (id, duplicate) = match sent {
        Sent::New(id) => (id, false),
        Sent::Duplicate(id) => (id, true),
    };
    SentMessage {
        id: message_id_text(id),
        duplicate,
    }
}

fn received_words(message: Message) -> ReceivedMessage {
    let (body, body_base64) = body_members(message.body);
    ReceivedMessage {
        id: message_id_text(message.id),
        receipt: receipt_text(&message.receipt),
        body,
        body_base64,
        attributes: message.attributes,
        group: message.group,
        deduplication_id: message.deduplication_id,
        attempts: message.attempts,
        sent_at: time_words(message.sent_at),
        first_received_at: time_words(message.first_received_at),
    }
}

fn peeked_words(peeked: Peeked) -> PeekedMessage {
    let (state, until) = match peeked.standing {
        PeekedStanding::Ready => ("ready", None),
        PeekedStanding::Delayed(until) => ("delayed", Some(until)),
        PeekedStanding::InFlight(until) => ("in_flight", Some(until)),
        PeekedStanding::Leaving => ("leaving", None),
    };
    let mut words = PeekedMessage {
        id: message_id_text(peeked.id),
        position: position_text(peeked.position),
        state: state.to_owned(),
        until: until.map(time_words),
        attempts: peeked.attempts,
        sent_at: time_words(peeked.sent_at),
        ..PeekedMessage::default()
    };
    match peeked.content {
        Ok(content) => {
            (words.body, words.body_base64) = body_members(content.body);
            words.attributes = content.attributes;
            words.group = content.group;
            words.deduplication_id = content.deduplication_id;
        }
        Err(damage) => words.damage = Some(damage),
    }
    words
}

fn seconds(seconds: u32) -> Duration {
    Duration::from_secs(seconds.into())
}
