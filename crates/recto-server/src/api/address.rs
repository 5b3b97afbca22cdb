//! The collection and the key in a request's path; the queue, and where one of its messages stands.
//!
//! Paths are taken apart as they were sent and decoded afterwards, so that an encoded `,` or `/` is
//! part of a value and never a separator.

use axum::http::Uri;
use recto::text::percent_decoded;

use crate::problem::Problem;

/// The segment after `/v1/collections`, and after `/v1/queues`.
const COLLECTION_SEGMENT: usize = 3;
/// The segment after `/records`, and after `/messages`.
const KEY_SEGMENT: usize = 5;

/// The collection that a path names.
pub(crate) fn collection(uri: &Uri) -> Result<String, Problem> {
    let segment = uri.path().split('/').nth(COLLECTION_SEGMENT).unwrap_or_default();
    percent_decoded(segment).ok_or_else(|| Problem::no_collection(segment))
}

/// The texts of the key fields that a path names, in the key's order.
pub(crate) fn key(uri: &Uri) -> Result<Vec<String>, Problem> {
    let segment = uri.path().split('/').nth(KEY_SEGMENT).unwrap_or_default();
    let parts = segment.split(',').map(percent_decoded);
    parts.collect::<Option<_>>().ok_or_else(|| {
        Problem::invalid_parameter("key", "the key in the path is not percent-encoded UTF-8")
            .with_hint("encode each key field by itself and join them by `,`")
    })
}

/// The queue that a path names.
pub(crate) fn queue(uri: &Uri) -> Result<String, Problem> {
    let segment = uri.path().split('/').nth(COLLECTION_SEGMENT).unwrap_or_default();
    percent_decoded(segment).ok_or_else(|| Problem::no_queue(segment))
}

/// The position of a message that a path names.
pub(crate) fn position(uri: &Uri) -> Result<String, Problem> {
    let segment = uri.path().split('/').nth(KEY_SEGMENT).unwrap_or_default();
    let detail = "the position in the path is not percent-encoded UTF-8";
    percent_decoded(segment).ok_or_else(|| Problem::invalid_parameter("position", detail))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_key_is_split_before_it_is_decoded() {
        let uri: Uri = "/v1/collections/c/records/a%2Cb,c%2Fd,,%C3%A9+%25"
            .parse()
            .unwrap();
        assert_eq!(key(&uri).unwrap(), ["a,b", "c/d", "", "é+%"]);
        assert_eq!(collection(&uri).unwrap(), "c");
    }
}
