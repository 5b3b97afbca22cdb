//! Paths and queries, byte for byte as they are sent.

use std::time::Duration;

use hyper::Method;
use hyper::body::Bytes;
use recto_api::parameters::to_pairs;
use recto_api::text;
pub(crate) use recto_api::text::path_part as encode;
use serde::Serialize;
use serde_json::Value as Json;

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

/// The parameters of a request, for an address or a body.
#[derive(Debug, Default)]
pub(crate) struct Query {
    pairs: Vec<(&'static str, String)>,
    /// The members of the body, without its braces.
    members: Vec<String>,
}

impl Query {
    /// Returns the parameters of a request.
    pub(crate) fn of<T: Serialize>(request: &T) -> Self {
        Self::default().and(request)
    }

    /// Adds the parameters of more options.
    pub(crate) fn and<T: Serialize>(mut self, options: &T) -> Self {
        self.pairs.extend(to_pairs(options));
        // Only maps whose keys are no text cannot be written, and a struct has none.
        let body = serde_json::to_string(options).unwrap_or_default();
        let members = body.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        if let Some(members) = members.filter(|members| !members.is_empty()) {
            self.members.push(members.to_owned());
        }
        self
    }

    /// Returns the request to `path`; with a body to `body_path`, if the address would be too long.
    pub(crate) fn ask(self, path: &str, body_path: &str) -> Ask {
        let target = self.after(path);
        if target.len() <= MAX_TARGET_CHARACTERS {
            return Ask::get(target);
        }
        Ask::new(Method::POST, body_path, format!("{{{}}}", self.members.join(",")))
    }

    /// Returns the path with the query.
    pub(crate) fn after(&self, path: &str) -> String {
        if self.pairs.is_empty() {
            return path.to_owned();
        }
        let pairs = self.pairs.iter().map(|(name, value)| (*name, value.as_str()));
        format!("{path}?{}", text::query(pairs))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use recto::session::PageRequest;
    use recto_api::pages::ExplainOptions;

    use super::*;

    #[test]
    fn parts_of_keys_are_values_and_never_separators() {
        let key = ["a,b/c", "..", "", "é %"].map(str::to_owned);
        assert_eq!(
            of_record("posts", &key),
            "/v1/collections/posts/records/a%2Cb%2Fc,%2E%2E,,%C3%A9%20%25"
        );
    }

    fn request() -> PageRequest {
        PageRequest {
            filter: "a = \"+&\"".into(),
            last: true,
            fields: vec!["a".into(), "b".into()],
            from: Some(r#"["x",1]"#.into()),
            ..PageRequest::default()
        }
    }

    #[test]
    fn short_requests_are_addresses() {
        let options = ExplainOptions { run: true };
        let ask = Query::of(&request()).and(&options).ask("/x", "/x:query");
        let query = "filter=a%20%3D%20%22%2B%26%22&last=true&from=%5B%22x%22%2C1%5D&fields=a%2Cb&run=true";
        assert_eq!(ask, Ask::get(format!("/x?{query}")));
        assert_eq!(Query::default().ask("/x", "/y"), Ask::get("/x"));
    }

    #[test]
    fn long_requests_are_bodies() {
        let long = PageRequest {
            page_token: "t".repeat(MAX_TARGET_CHARACTERS),
            page_size: Some(7),
            ..request()
        };
        let ask = Query::of(&long)
            .and(&ExplainOptions { run: true })
            .ask("/x", "/x:explain");
        assert_eq!((&ask.method, ask.target.as_str()), (&Method::POST, "/x:explain"));
        let body: Json = serde_json::from_slice(&ask.body).unwrap();
        assert_eq!(body["from"], serde_json::json!(["x", 1]));
        assert_eq!(body["fields"], serde_json::json!(["a", "b"]));
        assert_eq!(
            (&body["last"], &body["page_size"], &body["run"]),
            (&Json::Bool(true), &Json::from(7), &Json::Bool(true))
        );
    }
}
