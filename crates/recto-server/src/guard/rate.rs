//! Rate limit of each client: a token bucket that fills steadily.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use recto::Environment;

/// Maximum number of clients whose rate is tracked. At the maximum, clients without recent requests
/// are removed.
const MAX_ASKERS: usize = 65_536;
const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Client that has its own rate limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Asker {
    /// Client with a token, by the id of the token.
    Token(u64),
    /// Client without a token, by its address. For IPv6 it is the first 64 bits of the address,
    /// which a network usually assigns to one customer.
    Address(u64),
}

impl Asker {
    pub(crate) fn address(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::Address(u64::from(u32::from(address))),
            IpAddr::V6(address) => Self::Address((u128::from(address) >> 64) as u64),
        }
    }
}

/// Rate limit of each client.
#[derive(Debug)]
pub(crate) struct RateLimit {
    nanos_per_request: u64,
    /// Maximum time by which a client may be ahead of its rate: the burst, converted to time.
    burst_nanos: u64,
    environment: Environment,
    /// Theoretical arrival time of the next request for each client (generic cell rate algorithm),
    /// in nanoseconds of the monotonic clock.
    paid_until: Mutex<HashMap<Asker, u64>>,
}

impl RateLimit {
    pub(crate) fn new(per_second: u64, burst: u64, environment: Environment) -> Self {
        let nanos_per_request = (NANOS_PER_SECOND / per_second.max(1)).max(1);
        Self {
            nanos_per_request,
            burst_nanos: nanos_per_request.saturating_mul(burst.max(1)),
            environment,
            paid_until: Mutex::default(),
        }
    }

    /// Counts a request of a client. If the client exceeds its rate, returns the number of seconds
    /// to wait.
    pub(crate) fn take(&self, asker: Asker) -> Option<u64> {
        let now = self.environment.monotonic_nanos();
        let mut paid_until = self.paid_until.lock().unwrap_or_else(PoisonError::into_inner);
        if paid_until.len() >= MAX_ASKERS && !paid_until.contains_key(&asker) {
            paid_until.retain(|_, until| *until > now);
            if paid_until.len() >= MAX_ASKERS {
                // Reset the rates of all clients to free memory. A server has fewer real clients
                // than MAX_ASKERS.
                paid_until.clear();
            }
        }
        let until = paid_until.entry(asker).or_insert(now);
        let next = (*until).max(now).saturating_add(self.nanos_per_request);
        let ahead = next.saturating_sub(now);
        if ahead > self.burst_nanos {
            return Some((ahead - self.burst_nanos).div_ceil(NANOS_PER_SECOND).max(1));
        }
        *until = next;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_then_the_rate() {
        // Each reading of the test's clock advances it by a microsecond, so 1,000 readings are a
        // millisecond.
        let limit = RateLimit::new(1_000, 5, Environment::seeded(1, 0));
        let asker = Asker::Token(7);
        assert_eq!((0..5).filter_map(|_| limit.take(asker)).count(), 0);
        assert_eq!(limit.take(asker), Some(1));
        assert_eq!(limit.take(Asker::Token(8)), None);
        let let_in = (0..10_000).filter(|_| limit.take(asker).is_none()).count();
        assert!((9..=11).contains(&let_in), "{let_in} in ten milliseconds");
    }

    #[test]
    fn many_askers_are_bounded() {
        let limit = RateLimit::new(1, 1, Environment::seeded(1, 0));
        for token in 0..MAX_ASKERS as u64 + 10 {
            assert_eq!(limit.take(Asker::Token(token)), None);
        }
        let known = limit
            .paid_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len();
        assert!(known <= MAX_ASKERS);
    }

    #[test]
    fn addresses_of_one_network_are_one() {
        let of = |text: &str| text.parse().map(Asker::address);
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:1.2.3.4"), of("1.2.3.4"));
    }
}
