//! How many requests are answered at the same time, by what they are: pages and records, streams, and
//! what waits for work on the store. None takes a place of another kind, and no token all of one.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::shares::{Share, Shares};
use crate::config::{Limits, permits, token_share};

/// What work on the store is asked for by: its answers take as long as the work.
const WORK_PREFIX: &str = "/v1/store:";
/// The resource of exports, after that of its collection.
const EXPORT: &str = "records:export";

/// What a request is, by how long it takes its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// Answered at once: pages, records, whatever is no other.
    Page,
    /// Sent for as long as its client reads: exports.
    Stream,
    /// Answered when something has been done: work on the store, with its file where it is sent one.
    Wait,
}

impl Class {
    const ALL: [Self; 3] = [Self::Page, Self::Stream, Self::Wait];

    /// What a request for a path is.
    pub(crate) fn of(path: &str) -> Self {
        if path.starts_with(WORK_PREFIX) {
            return Self::Wait;
        }
        let mut steps = path.split('/').skip(1);
        let is_export = match steps.next() {
            Some("v1") => steps.nth(2) == Some(EXPORT),
            Some("collections") => steps.nth(1) == Some("export"),
            _ => false,
        };
        if is_export { Self::Stream } else { Self::Page }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Page => "page",
            Self::Stream => "stream",
            Self::Wait => "wait",
        }
    }
}

/// The places of all classes.
#[derive(Debug)]
pub(crate) struct Places([Kind; 3]);

/// The places of one class.
#[derive(Debug)]
struct Kind {
    limit: u64,
    permits: Arc<Semaphore>,
    shares: Arc<Shares>,
}

/// A place, until its answer has been sent.
#[derive(Debug)]
pub(crate) struct Place {
    _permit: OwnedSemaphorePermit,
    _share: Option<Share>,
}

/// Why there is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    /// All of the token's share are taken.
    OfToken,
    /// All are.
    OfAll,
}

impl Places {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self(Class::ALL.map(|class| {
            let (limit, of_token) = match class {
                Class::Page => (limits.concurrent_requests, limits.concurrent_requests_per_token()),
                Class::Stream => (limits.concurrent_streams, token_share(limits.concurrent_streams)),
                Class::Wait => (limits.waiting_requests, token_share(limits.waiting_requests)),
            };
            Kind {
                limit,
                permits: permits(limit),
                shares: Shares::new(of_token),
            }
        }))
    }

    /// A place for a request, of a token if it has one.
    pub(crate) fn take(&self, class: Class, token: Option<u64>) -> Result<Place, Full> {
        let kind = &self.0[class as usize];
        let share = match token {
            Some(token) => Some(kind.shares.take(token).ok_or(Full::OfToken)?),
            None => None,
        };
        let permit = Arc::clone(&kind.permits).try_acquire_owned();
        Ok(Place {
            _permit: permit.map_err(|_| Full::OfAll)?,
            _share: share,
        })
    }

    /// Of each class its name, how many places are taken, and how many there are.
    pub(crate) fn taken(&self) -> [(&'static str, u64, u64); 3] {
        Class::ALL.map(|class| {
            let kind = &self.0[class as usize];
            let free = kind.permits.available_permits() as u64;
            (class.name(), kind.limit.saturating_sub(free), kind.limit)
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_told_apart_by_their_paths() {
        for (path, class) in [
            ("/", Class::Page),
            ("/v1/collections/orders/records", Class::Page),
            ("/v1/collections/export/records:query", Class::Page),
            ("/v1/collections/orders/records/records:export", Class::Page),
            ("/collections/export", Class::Page),
            ("/v1/collections/orders/records:export", Class::Stream),
            ("/collections/orders/export", Class::Stream),
            ("/v1/store:load", Class::Wait),
            ("/v1/store:check", Class::Wait),
        ] {
            assert_eq!(Class::of(path), class, "{path}");
        }
    }

    #[test]
    fn no_class_takes_the_places_of_another() {
        let places = Places::new(&Limits {
            concurrent_requests: 1,
            concurrent_streams: 2,
            waiting_requests: 8,
            ..Limits::default()
        });
        let _page = places.take(Class::Page, None).unwrap();
        assert_eq!(places.take(Class::Page, None).unwrap_err(), Full::OfAll);
        let _stream = places.take(Class::Stream, Some(7)).unwrap();
        assert_eq!(places.take(Class::Stream, Some(7)).unwrap_err(), Full::OfToken);
        let other = places.take(Class::Stream, Some(8)).unwrap();
        assert_eq!(places.take(Class::Stream, None).unwrap_err(), Full::OfAll);
        drop(other);
        assert!(places.take(Class::Stream, None).is_ok());
        let _waits = [7, 7].map(|token| places.take(Class::Wait, Some(token)).unwrap());
        assert_eq!(places.take(Class::Wait, Some(7)).unwrap_err(), Full::OfToken);
        assert_eq!(places.taken(), [("page", 1, 1), ("stream", 1, 2), ("wait", 2, 8)]);
    }
}
