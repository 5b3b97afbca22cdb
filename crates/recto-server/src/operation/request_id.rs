//! Ids of requests, for logs: the id that the client sent, or a new one.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::{HeaderMap, HeaderName};
use recto::Environment;

/// Header with the id of a request. Clients may send it, and every reply has it.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Maximum length of a request id that a client sends, in bytes.
const MAX_REQUEST_ID_BYTES: usize = 64;

/// Source of request ids, which consist of a random part for the process and a counter.
#[derive(Debug)]
pub(crate) struct RequestIds {
    process: u32,
    next: AtomicU64,
}

impl RequestIds {
    pub(crate) fn new(environment: &Environment) -> Self {
        Self {
            process: u32::from_le_bytes(environment.random()),
            next: AtomicU64::new(1),
        }
    }

    /// Returns the request id that the client sent, if it is short and cannot forge a log line.
    /// Otherwise returns a new id.
    pub(crate) fn of(&self, headers: &HeaderMap) -> String {
        let given = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok());
        match given {
            Some(id) if is_plain(id) => id.to_owned(),
            _ => {
                let number = self.next.fetch_add(1, Ordering::Relaxed);
                format!("{:08x}-{number:x}", self.process)
            }
        }
    }
}

fn is_plain(id: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=MAX_REQUEST_ID_BYTES).contains(&id.len()) && id.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_ids_are_kept_and_others_replaced() {
        assert!(is_plain("3f2c-AB_9.1"));
        for id in ["", "a b", "a\"b", "ä", &"x".repeat(65)] {
            assert!(!is_plain(id), "{id}");
        }
    }
}
