//! Parts of a request's path: collection and key, queue or work unit (temporary queue), and
//! position of a message.
//!
//! The path is split first and each part decoded afterwards. So an encoded `,` or `/` is part of a
//! value and never a separator.

use axum::http::Uri;
use recto::text::percent_decoded;

use crate::problem::Problem;

/// Index of the path segment with the name of a collection or a queue. Segment 0 is empty, because
/// the path starts with `/`.
const COLLECTION_SEGMENT: usize = 3;
/// Index of the path segment with the key of a record, or with the position of a message in a
/// queue.
const KEY_SEGMENT: usize = 5;
/// Index and text of the path segment between the name of a queue and that of its work unit.
const UNITS: (usize, &str) = (4, "units");
const UNIT_SEGMENT: usize = 5;
/// Index of the path segment with the position of a message in a work unit.
const UNIT_KEY_SEGMENT: usize = 7;

/// Returns the name of the collection in a path.
pub(crate) fn collection(uri: &Uri) -> Result<String, Problem> {
    let segment = uri.path().split('/').nth(COLLECTION_SEGMENT).unwrap_or_default();
    percent_decoded(segment).ok_or_else(|| Problem::no_collection(segment))
}

/// Returns the key in a path: one text per key field.
pub(crate) fn key(uri: &Uri) -> Result<Vec<String>, Problem> {
    let segment = uri.path().split('/').nth(KEY_SEGMENT).unwrap_or_default();
    let parts = segment.split(',').map(percent_decoded);
    parts.collect::<Option<_>>().ok_or_else(|| {
        Problem::invalid_parameter("key", "the key in the path is not percent-encoded UTF-8")
            .with_hint("encode each key field separately and join the fields by `,`")
    })
}

/// Returns the name of the queue in a path, or `QUEUE/UNIT` if the path names a work unit.
pub(crate) fn queue(uri: &Uri) -> Result<String, Problem> {
    let queue = queue_name(segment(uri, COLLECTION_SEGMENT))?;
    match segment(uri, UNIT_SEGMENT) {
        unit if is_of_units(uri) && !unit.is_empty() => Ok(format!("{queue}/{}", queue_name(unit)?)),
        _ => Ok(queue),
    }
}

/// Work unit (temporary queue) in a path, with the operation on it.
pub(crate) struct UnitVerb {
    pub(crate) queue: String,
    pub(crate) unit: String,
    /// Name of the operation, such as `begin`; empty if the path names only the unit.
    pub(crate) verb: String,
}

/// Splits a path that ends with `/units/{unit}:{verb}` or `/units/{unit}` into queue, unit and
/// verb.
pub(crate) fn unit_verb(uri: &Uri) -> Result<UnitVerb, Problem> {
    let last = segment(uri, UNIT_SEGMENT);
    let (unit, verb) = last.rsplit_once(':').unwrap_or((last, ""));
    Ok(UnitVerb {
        queue: queue_name(segment(uri, COLLECTION_SEGMENT))?,
        unit: queue_name(unit)?,
        verb: verb.to_owned(),
    })
}

fn segment(uri: &Uri, number: usize) -> &str {
    uri.path().split('/').nth(number).unwrap_or_default()
}

fn is_of_units(uri: &Uri) -> bool {
    let (number, name) = UNITS;
    segment(uri, number) == name
}

/// Decodes the name of a queue or of a work unit. Rejects a name with `/`: `QUEUE/UNIT` is written
/// `/queues/QUEUE/units/UNIT` in a path.
fn queue_name(segment: &str) -> Result<String, Problem> {
    let name = percent_decoded(segment).filter(|name| !name.contains('/'));
    name.ok_or_else(|| Problem::no_queue(segment))
}

/// Returns the text of a message's position in a path.
pub(crate) fn position(uri: &Uri) -> Result<String, Problem> {
    let number = if is_of_units(uri) {
        UNIT_KEY_SEGMENT
    } else {
        KEY_SEGMENT
    };
    let segment = segment(uri, number);
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

    #[test]
    fn a_unit_is_named_behind_its_queue() {
        for (path, named) in [
            ("/v1/queues/mails", Some("mails")),
            ("/v1/queues/m%61ils/messages:send", Some("mails")),
            ("/v1/queues/units/messages", Some("units")),
            ("/v1/queues/mails/units", Some("mails")),
            ("/v1/queues/mails/units/night", Some("mails/night")),
            ("/v1/queues/mails/units/night/messages:send", Some("mails/night")),
            ("/v1/queues/mails%2Fnight", None),
            ("/v1/queues/mails/units/a%2Fb", None),
        ] {
            let uri: Uri = path.parse().unwrap();
            assert_eq!(queue(&uri).ok().as_deref(), named, "{path}");
        }
        for path in [
            "/v1/queues/q/messages/0-3-17",
            "/v1/queues/q/units/u/messages/0-3-17",
        ] {
            assert_eq!(position(&path.parse().unwrap()).unwrap(), "0-3-17");
        }
        let of = |path: &str| unit_verb(&path.parse().unwrap()).unwrap();
        let UnitVerb { queue, unit, verb } = of("/v1/queues/mails/units/n%3Aght:begin");
        assert_eq!(
            (queue.as_str(), unit.as_str(), verb.as_str()),
            ("mails", "n:ght", "begin")
        );
        assert_eq!(of("/v1/queues/mails/units/night").verb, "");
    }
}
