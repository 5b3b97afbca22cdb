//! Metrics of queues for `/metrics`.

use std::fmt;
use std::time::Duration;

use recto::queues::TablePhase;
use recto::session::{QueueStatus, QueueTables};
use recto::{Environment, LocalSession};
use tokio::sync::Mutex;

use super::exposition::{escaped, head};

/// Maximum number of queues that have metrics. The first queues by name have them.
pub(crate) const MAX_SHOWN_QUEUES: usize = 100;
/// Time for which metrics of queues are cached, because reading each queue costs reads of the
/// store.
const HOLD_TIME: Duration = Duration::from_secs(5);
/// Maximum time to read the numbers of all queues for the metrics.
const LOOK_TIME: Duration = Duration::from_secs(2);

/// Cache of the metrics of queues.
#[derive(Debug)]
pub(crate) struct QueueFigures {
    session: LocalSession,
    environment: Environment,
    /// Time of the last read in nanoseconds of the monotonic clock, and the metrics as text.
    last: Mutex<Option<(u64, String)>>,
}

impl QueueFigures {
    pub(crate) fn new(session: LocalSession, environment: Environment) -> Self {
        Self {
            session,
            environment,
            last: Mutex::new(None),
        }
    }

    /// Returns the metrics of queues as Prometheus text; empty if there are no queues, or the store
    /// replies too late.
    pub(crate) async fn text(&self) -> String {
        let mut last = self.last.lock().await;
        let now = self.environment.monotonic_nanos();
        if let Some((looked, text)) = &*last
            && u128::from(now.saturating_sub(*looked)) < HOLD_TIME.as_nanos()
        {
            return text.clone();
        }
        let looked = tokio::time::timeout(LOOK_TIME, self.look()).await;
        let text = match looked {
            Ok(Ok(text)) => text,
            Ok(Err(error)) => {
                crate::log::warn!(kind = ?error.kind(), "the store does not say how its queues are");
                String::new()
            }
            Err(_) => {
                crate::log::warn!(kind = "Timeout", "the store does not say how its queues are");
                String::new()
            }
        };
        *last = Some((self.environment.monotonic_nanos(), text.clone()));
        text
    }

    async fn look(&self) -> recto::Result<String> {
        let mut text = String::new();
        if let Some((queues, count)) = self.session.queue_metrics(MAX_SHOWN_QUEUES).await? {
            text = QueuesText { queues, count }.to_string();
        }
        if let Some(tables) = self.session.table_metrics().await? {
            text.push_str(&TablesText(tables).to_string());
        }
        Ok(text)
    }
}

/// Metrics of the tables of message bodies, as Prometheus text.
struct TablesText(QueueTables);

impl fmt::Display for TablesText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = "recto_queue_tables";
        head(f, name, "gauge", "Tables of message bodies, by phase.")?;
        for phase in TablePhase::ALL.map(TablePhase::name) {
            let count = self.0.tables.iter().filter(|table| table.phase == phase).count();
            writeln!(f, "{name}{{phase=\"{phase}\"}} {count}")?;
        }
        let name = "recto_queue_tables_blocked";
        let help = "Whether something blocks the rotation of these tables: `recto queue tables` names it.";
        head(f, name, "gauge", help)?;
        writeln!(f, "{name} {}", u8::from(self.0.obstacle.is_some()))
    }
}

/// Metrics of queues as Prometheus text. `count` is the number of all queues, of which `queues` has
/// the first.
struct QueuesText {
    queues: Vec<QueueStatus>,
    count: usize,
}

/// Metric that each queue has: its name, kind, help text, and how to get its value.
type OfQueue = (&'static str, &'static str, &'static str, fn(&QueueStatus) -> f64);

#[allow(clippy::cast_precision_loss)] // the values are only for display
const OF_QUEUE: [OfQueue; 12] = [
    (
        "recto_queue_messages",
        "gauge",
        "Messages that are not acknowledged.",
        |queue| queue.messages as f64,
    ),
    (
        "recto_queue_in_flight",
        "gauge",
        "Messages that were received, and are not acknowledged yet.",
        |queue| queue.in_flight as f64,
    ),
    (
        "recto_queue_delayed",
        "gauge",
        "Messages that cannot be received yet.",
        |queue| queue.delayed as f64,
    ),
    (
        "recto_queue_oldest_age_seconds",
        "gauge",
        "Seconds since the oldest message could be received; 0 if no message can.",
        |queue| queue.age_seconds.unwrap_or(0.0),
    ),
    (
        "recto_queue_receivers_waiting",
        "gauge",
        "Receivers that wait for a message at this server.",
        |queue| queue.receivers_waiting as f64,
    ),
    (
        "recto_queue_sent_total",
        "counter",
        "Messages that were sent through this server.",
        |queue| queue.totals.sent as f64,
    ),
    (
        "recto_queue_received_total",
        "counter",
        "Receives of messages through this server.",
        |queue| queue.totals.received as f64,
    ),
    (
        "recto_queue_acked_total",
        "counter",
        "Messages that were acknowledged through this server.",
        |queue| queue.totals.acked as f64,
    ),
    (
        "recto_queue_returned_total",
        "counter",
        "Messages that were returned through this server.",
        |queue| queue.totals.given_back as f64,
    ),
    (
        "recto_queue_dead_lettered_total",
        "counter",
        "Messages that this server moved to a dead-letter queue.",
        |queue| queue.totals.dead_lettered as f64,
    ),
    (
        "recto_queue_expired_total",
        "counter",
        "Messages that this server removed because their retention ended.",
        |queue| queue.totals.expired as f64,
    ),
    (
        "recto_queue_bodies_lost_total",
        "counter",
        "Messages whose bodies this server found missing or damaged.",
        |queue| queue.totals.bodies_lost as f64,
    ),
];

impl fmt::Display for QueuesText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let help =
            format!("Number of queues. Metrics of a queue exist for the first {MAX_SHOWN_QUEUES} by name.");
        head(f, "recto_queues", "gauge", &help)?;
        writeln!(f, "recto_queues {}", self.count)?;
        let name = "recto_queue_damaged";
        let help = "Whether stored data of the queue is damaged. Its other metrics are unknown then.";
        head(f, name, "gauge", help)?;
        for queue in &self.queues {
            let is_damaged = u8::from(queue.damage.is_some());
            writeln!(f, "{name}{{queue=\"{}\"}} {is_damaged}", escaped(&queue.name))?;
        }
        for (name, kind, help, value) in OF_QUEUE {
            head(f, name, kind, help)?;
            for queue in self.queues.iter().filter(|queue| queue.damage.is_none()) {
                writeln!(f, "{name}{{queue=\"{}\"}} {}", escaped(&queue.name), value(queue))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use recto::session::{QueueTable, QueueTotals};

    use super::*;

    #[test]
    fn tables_are_counted_by_phase() {
        let table = |phase: &str| QueueTable {
            phase: phase.to_owned(),
            ..QueueTable::default()
        };
        let mut tables = QueueTables {
            tables: vec![table("free"), table("open"), table("free")],
            ..QueueTables::default()
        };
        let text = TablesText(tables.clone()).to_string();
        for line in [
            "recto_queue_tables{phase=\"free\"} 2",
            "recto_queue_tables{phase=\"open\"} 1",
            "recto_queue_tables{phase=\"retired\"} 0",
            "recto_queue_tables_blocked 0",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}\n{text}");
        }
        tables.obstacle = Some("a node is down".to_owned());
        let text = TablesText(tables).to_string();
        assert!(text.ends_with("recto_queue_tables_blocked 1\n"), "{text}");
    }

    #[test]
    fn a_queue_that_is_damaged_is_told_as_such_and_nothing_else() {
        let named = |name: &str, damage: Option<&str>| QueueStatus {
            name: name.to_owned(),
            messages: 7,
            age_seconds: Some(1.5),
            totals: QueueTotals {
                expired: 3,
                bodies_lost: 2,
                ..QueueTotals::default()
            },
            damage: damage.map(str::to_owned),
            ..QueueStatus::default()
        };
        let queues = vec![named("bad", Some("lost")), named("jobs", None)];
        let text = QueuesText { queues, count: 101 }.to_string();
        for line in [
            "recto_queues 101",
            "recto_queue_damaged{queue=\"bad\"} 1",
            "recto_queue_damaged{queue=\"jobs\"} 0",
            "recto_queue_messages{queue=\"jobs\"} 7",
            "recto_queue_oldest_age_seconds{queue=\"jobs\"} 1.5",
            "recto_queue_expired_total{queue=\"jobs\"} 3",
            "recto_queue_bodies_lost_total{queue=\"jobs\"} 2",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}\n{text}");
        }
        assert!(!text.contains("recto_queue_messages{queue=\"bad\"}"));
    }
}
