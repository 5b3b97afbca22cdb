//! Log of rejected tokens. It writes a limited number of lines, so that the log stays readable
//! while a client guesses tokens.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use recto::Environment;

use crate::auth::Denied;

/// Maximum number of log lines in one time window. The next window logs the number of further
/// rejections.
const MAX_LINES: u64 = 10;
/// Length of the time window in which log lines are limited, in nanoseconds.
const WINDOW_NANOS: u64 = 10_000_000_000;

/// Log of rejected tokens, with a limited number of lines.
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

    /// Logs that a token was rejected. Never logs the token itself, which may be valid on another
    /// server.
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

    /// Counts a rejected token. Returns whether to log it, and how many rejections the previous
    /// time window did not log.
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
