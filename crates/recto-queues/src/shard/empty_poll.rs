//! Cached result of a poll that found no message in a shard.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use recto_protocol::queues::Micros;

use crate::notifier::Notifier;

/// Cached result of a poll that found no message in a shard: the time until which receivers need
/// not poll the shard. A notification of new messages makes the result invalid, and so does a
/// failed read of the notifications.
#[derive(Default)]
pub(crate) struct EmptyPollCache {
    /// Counter that rises whenever a message may have become available in the shard. A changed
    /// counter makes the cached result of a poll invalid.
    news: AtomicU64,
    cached: Mutex<Option<EmptyPoll>>,
}

#[derive(Clone, Copy)]
struct EmptyPoll {
    news: u64,
    period: u64,
    until: Micros,
    is_due: bool,
}

/// Mark of the time at which a poll began. It shows later whether a message may have become
/// available in the shard since then.
#[derive(Clone, Copy)]
pub(crate) struct PollStart {
    news: u64,
    period: Option<u64>,
}

impl EmptyPollCache {
    /// Makes the cached result "no message until …" invalid, because a message may have become
    /// available in the shard.
    pub(crate) fn invalidate(&self) {
        self.news.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns the mark for a poll of the shard that begins now.
    pub(crate) fn start(&self, notifier: &Notifier) -> PollStart {
        PollStart {
            news: self.news.load(Ordering::Acquire),
            period: notifier.period(),
        }
    }

    /// Records that a poll that began at `start` found no message. Receivers then need not poll the shard
    /// before `until`, unless a notification arrives. `is_due` says whether a message is due at `until`.
    /// Returns false, and records nothing, if this process may miss notifications.
    pub(crate) fn record(&self, start: PollStart, until: Micros, is_due: bool) -> bool {
        let Some(period) = start.period else {
            return false;
        };
        let news = start.news;
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        *cached = Some(EmptyPoll {
            news,
            period,
            until,
            is_due,
        });
        true
    }

    /// Records that a receiver polls the shard now, so that other receivers need not poll before `until`.
    /// Does so only if the shard is known to have no message, and no time is known at which a message is due.
    pub(crate) fn extend(&self, start: PollStart, until: Micros) {
        if self.until(start).is_some_and(|(_, is_due)| !is_due) {
            self.record(start, until, false);
        }
    }

    /// Returns the time until which the shard has nothing to receive, and whether a message is due then.
    /// `None`: not known, or no longer valid.
    pub(crate) fn until(&self, start: PollStart) -> Option<(Micros, bool)> {
        let cached = *self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        let holds = |cached: &EmptyPoll| cached.news == start.news && Some(cached.period) == start.period;
        cached.filter(holds).map(|cached| (cached.until, cached.is_due))
    }
}
