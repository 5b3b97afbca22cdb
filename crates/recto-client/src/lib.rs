//! Client of the HTTP API of a Recto server.
//!
//! Requests and replies are the structs of [`recto_api`]. Each request goes through
//! [`Client::call`], which applies the deadlines, the limits and the retries. Errors have the same
//! type, [`Error`](recto_api::Error), as those of a store that the process opens itself.
//!
//! ```no_run
//! use recto_api::pages::{PageReply, PageRequest};
//! use recto_client::{Client, Query, collection_path};
//!
//! # async fn example() -> recto_api::Result<()> {
//! let client = Client::new(&"http://127.0.0.1:8080".parse()?)?;
//! let page = PageRequest { filter: "carrier = \"UA\"".into(), ..PageRequest::default() };
//! let path = collection_path("flights", "/records");
//! let request = Query::of(&page).request(&path, &collection_path("flights", "/records:query"));
//! let reply: PageReply = client.read(&request).await?.body;
//! println!("{} records", reply.records.len());
//! # Ok(())
//! # }
//! ```
//!
//! | module | content |
//! |---|---|
//! | `client` | [`Client`]: connections, deadlines, limits, retries |
//! | `request` | [`Request`]: paths, parameters, bodies |
//! | `response` | [`Response`]: replies that are read as they arrive |
//! | `file` | a file as the body of a request |
//! | `problem` | problems (RFC 9457) as errors |
//! | `credentials` | the access token, and the servers to which it is sent |
//! | `tls` | trusted certificate authorities |

mod client;
mod credentials;
mod file;
mod problem;
mod request;
mod response;
mod tls;

pub use client::{
    Client, DEFAULT_CONNECT_TIMEOUT, DEFAULT_REQUEST_TIMEOUT, MAX_ATTEMPTS, MAX_REPLY_BYTES, MAX_RETRY_AFTER,
    Reply, backoff, unexpected_reply,
};
pub use hyper::{HeaderMap, Method, StatusCode, header};
pub use problem::error_of_problem;
pub use request::{Effect, MAX_TARGET_CHARACTERS, Query, Request, collection_path, queue_path, record_path};
pub use response::Response;
