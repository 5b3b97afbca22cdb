//! Server over a test's store, and the HTTP client of the server.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Extension;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{HeaderMap, Method, Request};
use hyper_util::rt::TokioIo;
use recto::{LocalSession, Recto};
use recto_server::access::Access;
use recto_server::{App, router};
use serde_json::Value as Json;
use tokio::net::{TcpListener, TcpStream};

use super::Kind;
use super::description::Description;
use super::stores;

/// HTTP client with a server of its own. It checks each response against the API description.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) kind: Kind,
    pub(crate) address: SocketAddr,
    description: Option<Arc<Description>>,
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Client {
    /// Creates a client whose server gives all rights to every request.
    pub(crate) async fn new(kind: Kind) -> Self {
        Self::with_access(kind, Access::all()).await
    }

    /// Creates a client whose server gives the rights `access` to every request.
    pub(crate) async fn with_access(kind: Kind, access: Access) -> Self {
        Self::over(stores::shared(kind).await, kind, access).await
    }

    /// Creates a client whose server uses the store `recto`, and gives the rights `access` to every
    /// request.
    pub(crate) async fn over(recto: Recto, kind: Kind, access: Access) -> Self {
        let is_restricted = access.name != Access::all().name;
        let session = LocalSession::new(recto);
        let routes = router(App::new(session)).layer(Extension(access));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, routes).await });
        let mut client = Self {
            kind,
            address,
            description: None,
        };
        let document = client.get("/openapi.json").await.json();
        client.description = Some(Arc::new(Description::new(document, is_restricted)));
        client
    }

    /// Turns off the check of responses against the API description.
    pub(crate) fn unchecked(mut self) -> Self {
        self.description = None;
        self
    }

    /// Sends a request unchanged, and checks the response against the API description.
    pub(crate) async fn send(
        &self,
        method: Method,
        target: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Reply {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let mut request = Request::builder()
            .method(method.clone())
            .uri(target)
            .header("host", "localhost");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into())).unwrap();
        let response = sender.send_request(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let reply = Reply {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body: body.collect().await.unwrap().to_bytes(),
        };
        if let Some(description) = &self.description {
            description.check(&method, target, &reply);
        }
        reply
    }

    pub(crate) async fn get(&self, target: &str) -> Reply {
        self.send(Method::GET, target, &[], "").await
    }

    pub(crate) async fn delete(&self, target: &str) -> Reply {
        self.send(Method::DELETE, target, &[], "").await
    }

    pub(crate) async fn put(&self, target: &str, body: &Json) -> Reply {
        let headers = [("content-type", "application/json")];
        self.send(Method::PUT, target, &headers, body.to_string()).await
    }

    pub(crate) async fn patch(&self, target: &str, headers: &[(&str, &str)], body: &Json) -> Reply {
        let headers = [&[("content-type", "application/merge-patch+json")], headers].concat();
        self.send(Method::PATCH, target, &headers, body.to_string()).await
    }

    pub(crate) async fn post(&self, target: &str, body: &Json) -> Reply {
        let headers = [("content-type", "application/json")];
        self.send(Method::POST, target, &headers, body.to_string()).await
    }

    /// Writes changes to a collection, in batches small enough for any store. Panics if a write
    /// fails.
    pub(crate) async fn write(&self, collection: &str, changes: Vec<Json>) {
        for some in changes.chunks(50) {
            let body = serde_json::json!({ "changes": some });
            let target = format!("/v1/collections/{collection}/records:batchWrite");
            let reply = self.post(&target, &body).await;
            assert_eq!(reply.status, 200, "{}", reply.text());
        }
    }

    /// Returns a page of the collection `notes`. Panics if the request fails.
    pub(crate) async fn notes(&self, parameters: &[(&str, &str)]) -> Json {
        let reply = self.get(&notes(parameters)).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json()
    }
}

/// Returns the URL path of a list of notes with parameters.
pub(crate) fn notes(parameters: &[(&str, &str)]) -> String {
    listed("/v1/collections/notes/records", parameters)
}

/// Appends parameters to a path.
pub(crate) fn listed(path: &str, parameters: &[(&str, &str)]) -> String {
    let pairs = parameters.iter();
    let pairs = pairs.map(|(name, value)| format!("{name}={}", encode(value)));
    format!("{path}?{}", pairs.collect::<Vec<_>>().join("&"))
}

/// Encodes text for a path or a query.
pub(crate) fn encode(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

impl Reply {
    pub(crate) fn json(&self) -> Json {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Returns the problem in the response. Panics if the response has another status or another
    /// problem type.
    pub(crate) fn problem(&self, status: u16, kind: &str) -> Json {
        assert_eq!(self.status, status, "{}", self.text());
        assert_eq!(self.header("content-type"), "application/problem+json");
        assert_eq!(self.header("cache-control"), "no-store");
        let problem = self.json();
        assert_eq!(problem["type"], format!("urn:recto:problem:{kind}"), "{problem}");
        assert_eq!(problem["status"], status);
        problem
    }
}
