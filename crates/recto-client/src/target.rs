//! Paths and queries, byte for byte as they are sent.

use std::time::Duration;

use hyper::Method;
use hyper::body::Bytes;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value as Json;
use serde_json::value::RawValue;

/// RFC 3986's unreserved characters, but for the dot: a part that is `.` or `..` is a value and no
/// way up.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'~');

pub(crate) fn encode(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

/// The path of a collection's resource: `/v1/collections/posts/records:export`.
pub(crate) fn of_collection(collection: &str, rest: &str) -> String {
    format!("/v1/collections/{}{rest}", encode(collection))
}

/// The path of a record: its key's texts, each encoded by itself.
pub(crate) fn of_record(collection: &str, key: &[String]) -> String {
    let parts: Vec<String> = key.iter().map(|part| encode(part)).collect();
    of_collection(collection, &format!("/records/{}", parts.join(",")))
}

/// The path of a resource of a queue, or of a work unit, `QUEUE/UNIT`: `/v1/queues/mails/messages:send`,
/// `/v1/queues/mails/units/night/messages:send`.
pub(crate) fn of_queue(queue: &str, rest: &str) -> String {
    match queue.split_once('/') {
        None => format!("/v1/queues/{}{rest}", encode(queue)),
        Some((queue, unit)) => format!("/v1/queues/{}/units/{}{rest}", encode(queue), encode(unit)),
    }
}

/// The longest path and query that is sent. What is longer is asked in a body: servers take 16 KiB
/// unless told otherwise, and proxies before them often 8.
pub(crate) const MAX_TARGET_CHARACTERS: usize = 4 << 10;

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ask {
    pub(crate) method: Method,
    pub(crate) target: String,
    pub(crate) body: Bytes,
    /// The version that what it changes must be of.
    pub(crate) if_version: Option<u64>,
    /// How long the server may wait before it answers, beside what it takes it to.
    pub(crate) wait: Duration,
}

impl Ask {
    pub(crate) fn new(method: Method, target: impl Into<String>, body: impl Into<Bytes>) -> Self {
        Self {
            method,
            target: target.into(),
            body: body.into(),
            if_version: None,
            wait: Duration::ZERO,
        }
    }

    pub(crate) fn get(target: impl Into<String>) -> Self {
        Self::new(Method::GET, target, Bytes::new())
    }

    /// A question in a body.
    pub(crate) fn post(target: impl Into<String>, body: &Json) -> Self {
        Self::new(Method::POST, target, body.to_string())
    }
}

/// Parameters being written.
#[derive(Debug, Default)]
pub(crate) struct Query(Vec<Parameter>);

/// A parameter.
#[derive(Debug)]
struct Parameter {
    name: String,
    /// As it stands in an address.
    text: String,
    /// As it stands in a body.
    json: String,
}

impl Query {
    pub(crate) fn add(&mut self, name: &str, value: impl Into<Json>) {
        let value = value.into();
        self.push(name, text_of(name, &value), value.to_string());
    }

    fn push(&mut self, name: &str, text: String, json: String) {
        self.0.push(Parameter {
            name: name.to_owned(),
            text,
            json,
        });
    }

    /// Adds a JSON array as it is written, so that no number in it changes.
    pub(crate) fn add_values(&mut self, name: &str, array: &str) {
        // What is no JSON array is refused in the words of the server.
        let is_array = serde_json::from_str::<Vec<&RawValue>>(array).is_ok();
        let json = if is_array {
            array.to_owned()
        } else {
            Json::from(array).to_string()
        };
        self.push(name, array.to_owned(), json);
    }

    /// Adds what is not empty.
    pub(crate) fn add_text(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            self.add(name, value);
        }
    }

    /// Adds names, if there are any.
    pub(crate) fn add_names(&mut self, name: &str, names: &[String]) {
        if !names.is_empty() {
            self.add(name, names);
        }
    }

    /// Adds what is set.
    pub(crate) fn add_flag(&mut self, name: &str, is_set: bool) {
        if is_set {
            self.add(name, true);
        }
    }

    /// The request for what stands at `path`; at `body_path`, in a body, if it would be too long.
    pub(crate) fn ask(self, path: &str, body_path: &str) -> Ask {
        let target = self.after(path);
        if target.len() <= MAX_TARGET_CHARACTERS {
            return Ask::get(target);
        }
        Ask::new(Method::POST, body_path, self.body())
    }

    /// A JSON object.
    fn body(&self) -> String {
        let members = self.0.iter();
        let members = members.map(|one| format!("{}:{}", Json::from(one.name.as_str()), one.json));
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    }

    /// The path with the query.
    pub(crate) fn after(&self, path: &str) -> String {
        let mut target = path.to_owned();
        for (index, parameter) in self.0.iter().enumerate() {
            target.push(if index == 0 { '?' } else { '&' });
            target.push_str(&parameter.name);
            target.push('=');
            target.push_str(&encode(&parameter.text));
        }
        target
    }
}

/// A parameter as it stands in an address: names are joined by commas, other arrays are JSON.
fn text_of(name: &str, value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        Json::Array(names) if name == "fields" => {
            let names: Vec<&str> = names.iter().filter_map(Json::as_str).collect();
            names.join(",")
        }
        value => value.to_string(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_keys_are_values_and_never_separators() {
        let key = ["a,b/c", "..", "", "é %"].map(str::to_owned);
        assert_eq!(
            of_record("posts", &key),
            "/v1/collections/posts/records/a%2Cb%2Fc,%2E%2E,,%C3%A9%20%25"
        );
    }

    fn some() -> Query {
        let mut query = Query::default();
        query.add_text("filter", "a = \"+&\"");
        query.add_text("order_by", "");
        query.add_flag("last", true);
        query.add_flag("row_tokens", false);
        query.add_names("fields", &["a".to_owned(), "b".to_owned()]);
        query.add_values("from", r#"["x",1]"#);
        query
    }

    #[test]
    fn a_query_holds_what_is_given() {
        let ask = some().ask("/x", "/x:query");
        let query = "filter=a%20%3D%20%22%2B%26%22&last=true&fields=a%2Cb&from=%5B%22x%22%2C1%5D";
        assert_eq!(sorted(&ask.target), sorted(&format!("/x?{query}")));
        assert_eq!(Query::default().ask("/x", "/y"), Ask::get("/x"));
    }

    /// The parts of a target, whatever their order.
    fn sorted(target: &str) -> Vec<&str> {
        let mut parts: Vec<&str> = target.split(['?', '&']).collect();
        parts.sort_unstable();
        parts
    }

    #[test]
    fn values_are_sent_as_they_are_written() {
        let values = "[ 1000000000000000000.10, 1e400 ]";
        let asked = |values: &str, long: bool| {
            let mut query = Query::default();
            query.add_values("from", values);
            query.add_text(
                "filter",
                &"f".repeat(if long { MAX_TARGET_CHARACTERS } else { 0 }),
            );
            query.ask("/x", "/y")
        };
        assert_eq!(asked(values, false).target, format!("/x?from={}", encode(values)));
        let body = asked(values, true).body;
        assert!(
            body.starts_with(format!("{{\"from\":{values},").as_bytes()),
            "{body:?}"
        );
        assert!(
            asked("no array", true)
                .body
                .starts_with(b"{\"from\":\"no array\",")
        );
    }

    #[test]
    fn what_is_too_long_for_an_address_goes_into_a_body() {
        let mut query = some();
        query.add_text("page_token", &"t".repeat(MAX_TARGET_CHARACTERS));
        query.add("page_size", 7);
        let ask = query.ask("/x", "/x:query");
        assert_eq!((&ask.method, ask.target.as_str()), (&Method::POST, "/x:query"));
        let body: Json = serde_json::from_slice(&ask.body).unwrap();
        assert_eq!(body["from"], serde_json::json!(["x", 1]));
        assert!(ask.body.ends_with(br#""page_size":7}"#), "{ask:?}");
        assert_eq!(body["fields"], serde_json::json!(["a", "b"]));
        assert_eq!(
            (&body["last"], &body["page_size"]),
            (&Json::Bool(true), &Json::from(7))
        );
    }
}
