//! Requests to the HTTP API: paths, parameters and bodies, as the client sends them.

use std::time::Duration;

use hyper::Method;
use hyper::body::Bytes;
use recto_api::parameters::to_pairs;
use recto_api::text;
use recto_api::text::path_part;
use serde::Serialize;
use serde_json::Value as Json;

/// Maximum number of characters of a path with its parameters. Longer parameters are sent in a
/// body: servers accept 16 KiB unless they are configured otherwise, and many proxies only 8 KiB.
pub const MAX_TARGET_CHARACTERS: usize = 4 << 10;

/// Returns the path of a resource below a collection. `rest` is the part of the path after the name
/// of the collection.
///
/// ```
/// assert_eq!(recto_client::collection_path("posts", "/records"), "/v1/collections/posts/records");
/// ```
pub fn collection_path(collection: &str, rest: &str) -> String {
    format!("/v1/collections/{}{rest}", path_part(collection))
}

/// Returns the path of a record. `key` has one text per field of the record's key.
///
/// ```
/// let key = ["a,b".to_owned(), "7".to_owned()];
/// assert_eq!(recto_client::record_path("posts", &key), "/v1/collections/posts/records/a%2Cb,7");
/// ```
pub fn record_path(collection: &str, key: &[String]) -> String {
    let parts: Vec<String> = key.iter().map(|part| path_part(part)).collect();
    collection_path(collection, &format!("/records/{}", parts.join(",")))
}

/// Returns the path of a resource below a queue, or below a temporary queue named `QUEUE/UNIT`.
///
/// ```
/// assert_eq!(recto_client::queue_path("mails", "/messages"), "/v1/queues/mails/messages");
/// assert_eq!(recto_client::queue_path("mails/night", ""), "/v1/queues/mails/units/night");
/// ```
pub fn queue_path(queue: &str, rest: &str) -> String {
    match queue.split_once('/') {
        None => format!("/v1/queues/{}{rest}", path_part(queue)),
        Some((queue, unit)) => format!("/v1/queues/{}/units/{}{rest}", path_part(queue), path_part(unit)),
    }
}

/// Effect of a request on the server. It determines whether the client may send the request again,
/// and which error it returns if the reply is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The request only reads, so the client sends it again if the reply is lost.
    Read,
    /// The request changes the store. The client sends it again only if the server certainly has
    /// not executed it, because a second execution could undo another client's change. If the reply
    /// is lost, the outcome is unknown.
    Change,
    /// The request starts an operation (such as a load) or hands out data (such as messages of a
    /// queue). The client sends it again only if the server certainly has not executed it. The
    /// value is the hint of the error if the reply is lost.
    Work(&'static str),
}

/// Request to the HTTP API.
///
/// ```
/// use recto_client::{Effect, Request};
///
/// let request = Request::get("/v1/collections");
/// assert_eq!(request.effect, Effect::Read);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// HTTP method.
    pub method: Method,
    /// Path with its parameters.
    pub target: String,
    /// Body: JSON text, or empty.
    pub body: Bytes,
    /// Effect of the request, which determines whether it may be sent again.
    pub effect: Effect,
    /// Version that the record or queue must have for the change, sent as `If-Match`. `None` allows
    /// any version.
    pub if_version: Option<u64>,
    /// Time that the server may wait before it replies, in addition to the usual time limit.
    pub wait: Duration,
}

impl Request {
    fn new(method: Method, target: impl Into<String>, body: impl Into<Bytes>, effect: Effect) -> Self {
        Self {
            method,
            target: target.into(),
            body: body.into(),
            effect,
            if_version: None,
            wait: Duration::ZERO,
        }
    }

    /// Returns a request that reads a resource.
    pub fn get(target: impl Into<String>) -> Self {
        Self::new(Method::GET, target, Bytes::new(), Effect::Read)
    }

    /// Returns a request that only reads, with its parameters in a body.
    pub fn query(target: impl Into<String>, body: &Json) -> Self {
        Self::new(Method::POST, target, body.to_string(), Effect::Read)
    }

    /// Returns a request that changes the store, with a body or without.
    pub fn change(method: Method, target: impl Into<String>, body: Option<&Json>) -> Self {
        let body = body.map(Json::to_string).unwrap_or_default();
        Self::new(method, target, body, Effect::Change)
    }

    /// Returns a request that starts an operation, with a body or without. If the reply is lost,
    /// the error has the hint `lost_hint`.
    pub fn work(target: impl Into<String>, body: Option<&Json>, lost_hint: &'static str) -> Self {
        let body = body.map(Json::to_string).unwrap_or_default();
        Self::new(Method::POST, target, body, Effect::Work(lost_hint))
    }

    /// Sets the version that the record or queue must have for the change.
    #[must_use]
    pub fn if_version(mut self, version: Option<u64>) -> Self {
        self.if_version = version;
        self
    }

    /// Sets the time that the server may wait before it replies.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }
}

/// Parameters of a reading request, which can be sent in its URL or in its body.
///
/// ```
/// use recto_api::pages::PageRequest;
/// use recto_client::Query;
///
/// let page = PageRequest { last: true, ..PageRequest::default() };
/// assert_eq!(Query::of(&page).after("/x"), "/x?last=true");
/// ```
#[derive(Debug, Default)]
pub struct Query {
    pairs: Vec<(&'static str, String)>,
    /// Members of the JSON body. Each string has the members of one struct, without its braces.
    members: Vec<String>,
}

impl Query {
    /// Returns the fields of the struct `request` as parameters.
    pub fn of<T: Serialize>(request: &T) -> Self {
        Self::default().and(request)
    }

    /// Adds the fields of the struct `options` to the parameters.
    #[must_use]
    pub fn and<T: Serialize>(mut self, options: &T) -> Self {
        self.pairs.extend(to_pairs(options));
        // Serialization fails only for a map whose keys are not text, and `options` contains no
        // such map.
        let body = serde_json::to_string(options).unwrap_or_default();
        let members = body.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        if let Some(members) = members.filter(|members| !members.is_empty()) {
            self.members.push(members.to_owned());
        }
        self
    }

    /// Returns a `GET` request to `path` with the parameters in its URL. If the URL would be too
    /// long, returns a `POST` request to `body_path` with the parameters in its body.
    pub fn request(self, path: &str, body_path: &str) -> Request {
        let target = self.after(path);
        if target.len() <= MAX_TARGET_CHARACTERS {
            return Request::get(target);
        }
        let body = format!("{{{}}}", self.members.join(","));
        Request::new(Method::POST, body_path, body, Effect::Read)
    }

    /// Returns the path with the parameters after `?`.
    pub fn after(&self, path: &str) -> String {
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
    use recto_api::pages::{ExplainOptions, PageRequest};

    use super::*;

    #[test]
    fn parts_of_keys_are_values_and_never_separators() {
        let key = ["a,b/c", "..", "", "é %"].map(str::to_owned);
        assert_eq!(
            record_path("posts", &key),
            "/v1/collections/posts/records/a%2Cb%2Fc,%2E%2E,,%C3%A9%20%25"
        );
    }

    fn page_request() -> PageRequest {
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
        let request = Query::of(&page_request()).and(&options).request("/x", "/x:query");
        let query = "filter=a%20%3D%20%22%2B%26%22&last=true&from=%5B%22x%22%2C1%5D&fields=a%2Cb&run=true";
        assert_eq!(request, Request::get(format!("/x?{query}")));
        assert_eq!(Query::default().request("/x", "/y"), Request::get("/x"));
    }

    #[test]
    fn long_requests_are_bodies() {
        let long = PageRequest {
            page_token: "t".repeat(MAX_TARGET_CHARACTERS),
            page_size: Some(7),
            ..page_request()
        };
        let request = Query::of(&long)
            .and(&ExplainOptions { run: true })
            .request("/x", "/x:explain");
        assert_eq!(
            (&request.method, request.target.as_str()),
            (&Method::POST, "/x:explain")
        );
        let body: Json = serde_json::from_slice(&request.body).unwrap();
        assert_eq!(body["from"], serde_json::json!(["x", 1]));
        assert_eq!(body["fields"], serde_json::json!(["a", "b"]));
        assert_eq!(
            (&body["last"], &body["page_size"], &body["run"]),
            (&Json::Bool(true), &Json::from(7), &Json::Bool(true))
        );
    }
}
