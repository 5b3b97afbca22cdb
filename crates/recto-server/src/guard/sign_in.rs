//! Tokens that are refused, in the log: so many lines that a person reads them, however many tokens are
//! tried.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use recto::Environment;

use crate::auth::Denied;

/// The most lines in one window; what is refused beyond is counted and told with the next window.
const MAX_LINES: u64 = 10;
/// How long a window is.
const WINDOW_NANOS: u64 = 10_000_000_000;

/// The log of refused tokens.
#[derive(Debug)]
pub(crate) struct SignIns {
    environment: Environment,
    window: Mutex<Window>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Window {
    began_nanos: u64,
    refused: u64,
}

impl SignIns {
    pub(crate) fn new(environment: Environment) -> Self {
        Self {
            environment,
            window: Mutex::default(),
        }
    }

    /// Logs that a token was refused. Never the token: it may be one of another server.
    pub(crate) fn refused(&self, client: IpAddr, request_id: &str, denied: Denied) {
        let (is_told, left_out) = self.count(self.environment.monotonic_nanos());
        if left_out > 0 {
            crate::log::warn!(count = left_out, "more tokens were refused before");
        }
        if is_told {
            let reason = match denied {
                Denied::Unknown => "unknown",
                Denied::Expired => "expired",
            };
            crate::log::warn!(%client, request_id, reason, "a token was refused");
        }
    }

    /// Counts one that was refused: whether it gets a line, and how many of an earlier window got none.
    fn count(&self, now: u64) -> (bool, u64) {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        let mut left_out = 0;
        if now.saturating_sub(window.began_nanos) >= WINDOW_NANOS {
            left_out = window.refused.saturating_sub(MAX_LINES);
            *window = Window {
                began_nanos: now,
                refused: 0,
            };
        }
        window.refused += 1;
        (window.refused <= MAX_LINES, left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_few_and_the_rest_is_counted() {
        let sign_ins = SignIns::new(Environment::seeded(1, 0));
        let told = (0..1_000).filter(|now| sign_ins.count(*now).0).count();
        assert_eq!(told as u64, MAX_LINES);
        assert_eq!(sign_ins.count(WINDOW_NANOS), (true, 1_000 - MAX_LINES));
        assert_eq!(sign_ins.count(WINDOW_NANOS + 1), (true, 0));
    }
}
