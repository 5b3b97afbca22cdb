//! Conversion of error replies (RFC 9457) to errors, with the kind, field, column and hint that a
//! store reports.

use hyper::StatusCode;
use recto_api::problem::{ProblemBody, ProblemType, TYPE_PREFIX};
use recto_api::{Error, ErrorKind, ErrorPart};

/// Names of the arrays in request bodies. An error can point to one of their elements.
const LISTS: [&str; 3] = ["changes", "messages", "receipts"];

/// Converts the status and the body of an error reply to an error.
pub(crate) fn error(server: &str, status: StatusCode, body: &[u8]) -> Error {
    match serde_json::from_slice::<ProblemBody>(body) {
        Ok(problem) if problem.name.starts_with(TYPE_PREFIX) => error_of(problem, status),
        _ => match status.as_u16() {
            414 | 431 => too_long(server, status),
            _ => strange(server, status),
        },
    }
}

/// Converts a problem inside a successful reply (in a line or a list) to an error.
pub fn error_of_problem(problem: ProblemBody) -> Error {
    error_of(problem, StatusCode::INTERNAL_SERVER_ERROR)
}

fn error_of(problem: ProblemBody, status: StatusCode) -> Error {
    let name = problem.name.strip_prefix(TYPE_PREFIX).unwrap_or_default();
    let kind = ProblemType::named(name).map_or_else(|| kind_of_status(status), ProblemType::kind);
    let mut error =
        Error::new(kind, problem.detail).with_missing_partition_fields(problem.missing_partition_fields);
    let part = problem.part.as_deref().and_then(ErrorPart::named);
    if let Some(part) = part {
        error = error.with_part(part);
    }
    if let Some(whole) = problem.field.as_deref() {
        let (change, field) = place(whole);
        if let Some(change) = change {
            error = error.with_change(change);
        }
        if let Some(field) = field {
            error = error.with_field(field);
        }
    }
    if let Some(version) = problem.version.and_then(|version| version.parse().ok()) {
        error = error.with_version(version);
    }
    // Ignore the position in other parts: an error has a column only in a filter or a sort.
    let is_text = matches!(part, Some(ErrorPart::Filter | ErrorPart::Sort));
    let column = problem
        .position
        .and_then(|position| usize::try_from(position).ok());
    if let Some(column) = column.filter(|_| is_text) {
        error = error.with_column(column);
    }
    match (kind, problem.hint) {
        (ErrorKind::Unauthorized, _) => {
            error.with_hint("set a token in RECTO_TOKEN, or name a file that has a token: ?token_file=FILE")
        }
        (_, Some(hint)) => error.with_hint(hint),
        (_, None) => error,
    }
}

/// Splits the path of a wrong value in an error reply, such as `changes[3].key`. Returns the index
/// (from 0) of the change, message or receipt, and the field inside it.
fn place(field: &str) -> (Option<usize>, Option<&str>) {
    let (list, rest) = field.split_once('[').unwrap_or((field, ""));
    match rest.split_once(']').filter(|_| LISTS.contains(&list)) {
        // A receipt has no fields, so use the name of the list as the field.
        Some((number, "")) if list == "receipts" => (number.parse().ok(), Some(list)),
        Some((number, rest)) => (number.parse().ok(), rest.strip_prefix('.')),
        None => (None, Some(field)),
    }
}

fn kind_of_status(status: StatusCode) -> ErrorKind {
    match status.as_u16() {
        401 => ErrorKind::Unauthorized,
        403 => ErrorKind::Forbidden,
        404 => ErrorKind::NotFound,
        413 | 414 | 431 => ErrorKind::LimitExceeded,
        408 | 504 => ErrorKind::Timeout,
        429 | 502 | 503 => ErrorKind::Unavailable,
        400..=499 => ErrorKind::InvalidArgument,
        _ => ErrorKind::Store,
    }
}

/// Returns the error for a request whose URL and headers are longer than the server, or a proxy
/// before it, accepts. The request does not reach Recto's own code.
fn too_long(server: &str, status: StatusCode) -> Error {
    let message = format!("the request's URL and headers are longer than {server} accepts ({status})");
    Error::new(kind_of_status(status), message).with_hint(
        "send long parameters in a body: POST …/records:query and records:batchWrite take keys of any length",
    )
}

/// Returns the error for an error reply that no Recto server sends, but a proxy or another program.
fn strange(server: &str, status: StatusCode) -> Error {
    let message = format!("the answer {status} of {server} is not from Recto");
    let kind = match status.as_u16() {
        404 | 405 => ErrorKind::Unavailable,
        _ => kind_of_status(status),
    };
    Error::new(kind, message)
        .with_hint("check the address that `recto serve` printed, and any proxy before the server")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn read(status: u16, body: &str) -> Error {
        error("http://h", StatusCode::from_u16(status).unwrap(), body.as_bytes())
    }

    #[test]
    fn a_problem_is_the_error_it_was_made_of() {
        let found = read(
            400,
            r#"{"type": "urn:recto:problem:invalid-query", "title": "t", "status": 400,
                "detail": "filter, column 9: no", "part": "filter", "field": "carrier",
                "parameter": "filter", "position": 9, "hint": "do this"}"#,
        );
        assert_eq!(found.kind(), ErrorKind::InvalidQuery);
        assert_eq!(found.message(), "filter, column 9: no");
        assert_eq!(found.part(), Some(ErrorPart::Filter));
        assert_eq!((found.field(), found.column()), (Some("carrier"), Some(9)));
        assert_eq!(found.hint(), Some("do this"));
    }

    #[test]
    fn restores_missing_partition_fields() {
        let found = read(
            400,
            r#"{"type": "urn:recto:problem:no-view", "detail": "d", "part": "of later", "missing_partition_fields": ["a", "b"]}"#,
        );
        assert_eq!((found.kind(), found.part()), (ErrorKind::NoPlan, None));
        assert_eq!(found.missing_partition_fields(), ["a", "b"]);
    }

    #[test]
    fn reads_positions_in_bodies_and_batches() {
        let of = |more: &str| {
            let text = format!(r#"{{"type": "urn:recto:problem:invalid-record", "detail": "d", {more}}}"#);
            read(400, &text)
        };
        assert_eq!(of(r#""position": 3"#).column(), None);
        let inside = of(r#""field": "changes[12].note""#);
        assert_eq!((inside.change(), inside.field()), (Some(12), Some("note")));
        let whole = of(r#""field": "changes[12]""#);
        assert_eq!((whole.change(), whole.field()), (Some(12), None));
        let message = of(r#""field": "messages[3].body""#);
        assert_eq!((message.change(), message.field()), (Some(3), Some("body")));
        let receipt = of(r#""field": "receipts[3]""#);
        assert_eq!((receipt.change(), receipt.field()), (Some(3), Some("receipts")));
        let other = of(r#""field": "steps[3]""#);
        assert_eq!((other.change(), other.field()), (None, Some("steps[3]")));
    }

    #[test]
    fn reports_replies_that_are_not_from_recto() {
        for (status, body) in [
            (502, "<html>"),
            (404, "{}"),
            (500, ""),
            (302, r#"{"type": "about:blank", "detail": "x"}"#),
        ] {
            let found = read(status, body);
            assert!(found.to_string().contains(&status.to_string()), "{found}");
            assert!(found.hint().is_some());
        }
    }

    #[test]
    fn a_beginning_that_nobody_read_is_told_as_too_long() {
        for (status, body) in [(431, ""), (414, "<html>")] {
            let found = read(status, body);
            assert_eq!(found.kind(), ErrorKind::LimitExceeded);
            assert!(
                found.to_string().contains("longer than http://h accepts"),
                "{found}"
            );
            assert!(found.hint().unwrap().contains("records:query"));
        }
    }

    #[test]
    fn a_kind_of_a_later_release_is_told_by_its_status() {
        let found = read(
            429,
            r#"{"type": "urn:recto:problem:too-fast", "detail": "slow down"}"#,
        );
        assert_eq!(
            (found.kind(), found.message()),
            (ErrorKind::Unavailable, "slow down")
        );
    }
}
