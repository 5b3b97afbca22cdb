//! Limits of concurrent requests. Each class of requests (pages and records, streams, maintenance,
//! receives) has a number of places. A request takes a place of its class until its reply is in
//! memory, or a streamed reply has been sent. One token can take a quarter of the places of
//! a class, unless a setting says otherwise.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::shares::{Share, Shares};
use crate::config::{Limits, permits, token_share};

/// Prefix of the paths of maintenance operations. Their replies take as long as the operation.
const WORK_PREFIX: &str = "/v1/store:";
/// Last path segment of an export, after its collection.
const EXPORT: &str = "records:export";

/// Last path segment of a receive, which waits for messages, after its queue.
const RECEIVE: &str = "messages:receive";

/// Class of a request by its usual duration. Each class has its own limit of concurrent requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// Request with an immediate reply: for example a page, or a write of a record.
    Page,
    /// Export: the reply lasts as long as its client reads.
    Stream,
    /// Maintenance operation: the reply lasts as long as the operation, including the upload of a
    /// file.
    Wait,
    /// Receive: the reply waits until the queue has a message, or the waiting time ends.
    Receive,
}

impl Class {
    const ALL: [Self; 4] = [Self::Page, Self::Stream, Self::Wait, Self::Receive];

    /// Returns the class of a request by its path.
    pub(crate) fn of(path: &str) -> Self {
        if path.starts_with(WORK_PREFIX) {
            return Self::Wait;
        }
        let mut steps = path.split('/').skip(1);
        match std::array::from_fn(|_| steps.next()) {
            [Some("v1"), Some("queues"), _, Some(RECEIVE), None, None]
            | [Some("v1"), Some("queues"), _, Some("units"), _, Some(RECEIVE)] => Self::Receive,
            [Some("v1"), _, _, Some(EXPORT), ..] | [Some("collections"), _, Some("export"), ..] => {
                Self::Stream
            }
            _ => Self::Page,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Page => "page",
            Self::Stream => "stream",
            Self::Wait => "wait",
            Self::Receive => "receive",
        }
    }
}

/// Limits of concurrent requests of all classes.
#[derive(Debug)]
pub(crate) struct Places([Kind; 4]);

/// Limit of concurrent requests of one class, with its free permits and the shares of tokens.
#[derive(Debug)]
struct Kind {
    limit: u64,
    permits: Arc<Semaphore>,
    shares: Arc<Shares>,
}

/// Place of a request in the limit of its class. Dropping it frees the place for another request.
#[derive(Debug)]
pub(crate) struct Place {
    _permit: OwnedSemaphorePermit,
    _share: Option<Share>,
}

/// Reason why the server rejects a request beyond a limit of concurrent requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    /// The token has reached its own share of the limit.
    OfToken,
    /// All clients together have reached the limit.
    OfAll,
}

impl Places {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self(Class::ALL.map(|class| {
            let (limit, of_token) = match class {
                Class::Page => (limits.concurrent_requests, limits.concurrent_requests_per_token()),
                Class::Stream => (limits.concurrent_streams, token_share(limits.concurrent_streams)),
                Class::Wait => (limits.waiting_requests, token_share(limits.waiting_requests)),
                Class::Receive => (limits.waiting_receives, token_share(limits.waiting_receives)),
            };
            Kind {
                limit,
                permits: permits(limit),
                shares: Shares::new(of_token),
            }
        }))
    }

    /// Takes a place in the limit of a class for a request. A request with a token also counts in
    /// the token's share.
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

    /// Returns, for each class of requests, its name, the number of taken places, and the limit.
    pub(crate) fn taken(&self) -> [(&'static str, u64, u64); 4] {
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
            ("/v1/queues/mails/messages:receive", Class::Receive),
            ("/v1/queues/mails/messages:ack", Class::Page),
            ("/v1/queues/mails/units/night/messages:receive", Class::Receive),
            ("/v1/queues/mails/units/messages:receive", Class::Page),
            ("/v1/queues/mails/messages/messages:receive", Class::Page),
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
            waiting_receives: 1,
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
        let _receive = places.take(Class::Receive, None).unwrap();
        assert_eq!(places.take(Class::Receive, None).unwrap_err(), Full::OfAll);
        let taken = [
            ("page", 1, 1),
            ("stream", 1, 2),
            ("wait", 2, 8),
            ("receive", 1, 1),
        ];
        assert_eq!(places.taken(), taken);
    }
}
