//! Recent history of queues as samples of their counters. The difference of two samples gives a
//! rate. The server keeps one history for all users.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use recto::Environment;
use recto::session::{QueueStatus, QueueTotals};

/// Maximum number of queues whose history is kept. Other queues have no charts.
const MAX_QUEUES_WATCHED: usize = 1_000;
/// Maximum number of samples that are kept for a queue.
const MAX_LOOKS: usize = 64;
/// Time span that a chart shows, in milliseconds.
pub(super) const WINDOW_MILLIS: u64 = 120_000;
/// Minimum time between two samples, in milliseconds. A sample that comes earlier is dropped, so
/// that several users see the history that one user would see.
const MIN_STEP_MILLIS: u64 = 1_500;
const NANOS_PER_MILLI: u64 = 1_000_000;

/// Histories of all queues, each as a list of samples.
#[derive(Debug)]
pub(super) struct Histories {
    environment: Environment,
    queues: Mutex<BTreeMap<String, VecDeque<Look>>>,
}

/// Sample of a queue's counters at one time.
#[derive(Debug, Clone, Copy)]
struct Look {
    at_millis: u64,
    messages: u64,
    totals: QueueTotals,
}

/// Operation on messages whose rate a chart shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    Sent,
    Received,
    Acknowledged,
}

pub(super) const FLOWS: [Flow; 3] = [Flow::Sent, Flow::Received, Flow::Acknowledged];

/// Value of a chart in one interval of its time span. `from` and `to` are positions in the span,
/// from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Step {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) value: f64,
}

/// Samples of one queue, oldest first.
#[derive(Debug, Default)]
pub(super) struct History {
    looks: Vec<Look>,
}

impl Default for Histories {
    fn default() -> Self {
        Self::new(Environment::system())
    }
}

impl Histories {
    fn new(environment: Environment) -> Self {
        Self {
            environment,
            queues: Mutex::default(),
        }
    }

    pub(super) fn now_micros(&self) -> i64 {
        self.environment.now_micros()
    }

    /// Adds a sample of each queue in `all`, and removes the histories of all other queues.
    pub(super) fn note_all(&self, all: &[QueueStatus]) {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        queues.retain(|name, _| all.iter().any(|status| status.name == *name));
        drop(queues);
        for status in all {
            self.note(status);
        }
    }

    /// Adds a sample of one queue, unless the last sample is too recent.
    pub(super) fn note(&self, status: &QueueStatus) {
        let look = Look {
            at_millis: self.environment.monotonic_nanos() / NANOS_PER_MILLI,
            messages: status.messages,
            totals: status.totals,
        };
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        if queues.len() >= MAX_QUEUES_WATCHED && !queues.contains_key(&status.name) {
            return;
        }
        let looks = queues.entry(status.name.clone()).or_default();
        if let Some(last) = looks.back() {
            if look.at_millis < last.at_millis + MIN_STEP_MILLIS {
                return;
            }
            // A counter that fell means that a new queue has the name. Remove the history of the
            // old queue.
            if FLOWS.iter().any(|flow| flow.total(&look) < flow.total(last)) {
                looks.clear();
            }
        }
        if looks.len() == MAX_LOOKS {
            looks.pop_front();
        }
        looks.push_back(look);
    }

    /// Returns the history of a queue; empty if there are no samples.
    pub(super) fn of(&self, name: &str) -> History {
        let queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let looks = queues.get(name).map(|looks| looks.iter().copied().collect());
        History {
            looks: looks.unwrap_or_default(),
        }
    }
}

impl Flow {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Sent => "Sent",
            Self::Received => "Received",
            Self::Acknowledged => "Acknowledged",
        }
    }

    fn total(self, look: &Look) -> u64 {
        match self {
            Self::Sent => look.totals.sent,
            Self::Received => look.totals.received,
            Self::Acknowledged => look.totals.acked,
        }
    }
}

impl History {
    /// Returns the rate of a flow per second between the last two samples; `None` with fewer than
    /// two samples.
    pub(super) fn rate(&self, flow: Flow) -> Option<f64> {
        let [.., before, last] = self.looks.as_slice() else {
            return None;
        };
        Some(rate(flow, before, last))
    }

    /// Returns the seconds between the last two samples; `None` with fewer than two samples.
    pub(super) fn rate_seconds(&self) -> Option<f64> {
        let [.., before, last] = self.looks.as_slice() else {
            return None;
        };
        Some(seconds(before, last))
    }

    /// Returns the rates of a flow per second, between each two consecutive samples.
    pub(super) fn rates(&self, flow: Flow) -> Vec<Step> {
        self.steps(|before, look| rate(flow, before, look))
    }

    /// Returns the number of messages in the queue at each sample.
    pub(super) fn depths(&self) -> Vec<Step> {
        self.steps(|_, look| look.messages as f64)
    }

    /// Returns the highest rate of all flows, which is the scale of all charts of a queue.
    pub(super) fn highest_rate(&self) -> f64 {
        let all = FLOWS.into_iter().flat_map(|flow| self.rates(flow));
        all.map(|step| step.value).fold(0.0, f64::max)
    }

    fn steps(&self, value: impl Fn(&Look, &Look) -> f64) -> Vec<Step> {
        let Some(last) = self.looks.last() else {
            return Vec::new();
        };
        let place = |look: &Look| {
            let ago = last.at_millis.saturating_sub(look.at_millis).min(WINDOW_MILLIS);
            1.0 - ago as f64 / WINDOW_MILLIS as f64
        };
        let pairs = self.looks.iter().zip(self.looks.iter().skip(1));
        let steps = pairs.map(|(before, look)| Step {
            from: place(before),
            to: place(look),
            value: value(before, look),
        });
        steps.filter(|step| step.to > 0.0).collect()
    }
}

fn seconds(before: &Look, look: &Look) -> f64 {
    // The minimum of 1 ms only prevents a division by zero, because samples are at least
    // MIN_STEP_MILLIS apart.
    look.at_millis.saturating_sub(before.at_millis).max(1) as f64 / 1_000.0
}

fn rate(flow: Flow, before: &Look, look: &Look) -> f64 {
    let done = flow.total(look).saturating_sub(flow.total(before));
    done as f64 / seconds(before, look)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(at_millis: u64, sent: u64) -> Look {
        Look {
            at_millis,
            messages: sent,
            totals: QueueTotals {
                sent,
                ..QueueTotals::default()
            },
        }
    }

    fn status(name: &str, sent: u64) -> QueueStatus {
        QueueStatus {
            name: name.to_owned(),
            totals: look(0, sent).totals,
            ..QueueStatus::default()
        }
    }

    #[test]
    fn rates_are_what_was_done_between_two_looks() {
        let history = History {
            looks: vec![
                look(0, 100),
                look(60_000, 100),
                look(62_000, 150),
                look(150_000, 238),
            ],
        };
        assert_eq!(history.rate(Flow::Sent), Some(1.0));
        assert_eq!(history.rate_seconds(), Some(88.0));
        assert!((history.highest_rate() - 25.0).abs() < f64::EPSILON);
        let steps = history.rates(Flow::Sent);
        // The chart starts at 30,000 ms, which is inside the first interval.
        let values: Vec<f64> = steps.iter().map(|step| step.value).collect();
        assert_eq!(values, [0.0, 25.0, 1.0]);
        assert_eq!(
            steps[0],
            Step {
                from: 0.0,
                to: 0.25,
                value: 0.0
            }
        );
        assert!((steps[2].to - 1.0).abs() < f64::EPSILON);
        let one = History {
            looks: vec![look(0, 7)],
        };
        assert_eq!(one.rate(Flow::Sent), None);
        assert_eq!(one.depths(), []);
    }

    /// Reads the seeded clock until it has advanced by `MIN_STEP_MILLIS`, so that the history accepts
    /// another sample. Each reading advances the clock a little.
    fn later(environment: &Environment) {
        let began = environment.monotonic_nanos();
        while environment.monotonic_nanos() - began < MIN_STEP_MILLIS * NANOS_PER_MILLI {}
    }

    #[test]
    fn keeps_bounded_samples_per_queue() {
        let environment = Environment::seeded(1, 0);
        let histories = Histories::new(environment.clone());
        let looks = |name: &str| histories.of(name).looks.len();
        histories.note(&status("a", 1));
        histories.note(&status("a", 2));
        assert_eq!(looks("a"), 1, "faster than looks count");
        for sent in 0..2 * MAX_LOOKS as u64 {
            later(&environment);
            histories.note(&status("a", 10 + sent));
        }
        assert_eq!(looks("a"), MAX_LOOKS);
        later(&environment);
        histories.note(&status("a", 3));
        assert_eq!(looks("a"), 1, "made anew");
        for number in 0..2 * MAX_QUEUES_WATCHED {
            histories.note(&status(&format!("q{number}"), 0));
        }
        let names = histories
            .queues
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len();
        assert_eq!(names, MAX_QUEUES_WATCHED);
        histories.note_all(&[status("a", 3), status("b", 3)]);
        assert_eq!([looks("a"), looks("b"), looks("q1")], [1, 1, 0]);
    }
}
