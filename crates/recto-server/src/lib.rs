//! Recto over HTTP: the JSON API, its `OpenAPI` description, and the console for people.
//!
//! Every request uses the store through a [`Session`](recto::Session) that its
//! [`Access`](access::Access) restricts. The API and the console therefore have the same rights,
//! and neither shows rows that the row filter of a token hides.
//!
//! | module | content |
//! |---|---|
//! | `rights` | rights of a request |
//! | `access` | sessions for the access of a request |
//! | `work` | running maintenance operations |
//! | `asked` | shapes of received queries by collection, without values |
//! | `log` | lines of the log |
//! | `app` | state that all requests share |
//! | `routes` | all routes |
//! | `problem` | errors as problem+json (RFC 9457) |
//! | `api` | `/v1`: collections, records, batches, export, explanations |
//! | `openapi` | description of the API, as JSON and for people |
//! | `serve` | listening, connections, shutdown |
//! | `config` | configuration: defaults, file, environment, flags |
//! | `auth` | tokens: creation, hashing, lookup, revocation |
//! | `guard` | limits of requests, and headers of replies |
//! | `operation` | health, readiness, metrics, logs |
//! | `console` | pages for people |

// Allow dead code in a build without the feature `full`, which has no logs and fewer pages.
#![cfg_attr(not(feature = "full"), allow(dead_code, unused_variables))]

pub mod access;
mod api;
mod app;
#[cfg(feature = "full")]
mod asked;
#[cfg(not(feature = "full"))]
#[path = "asked/none.rs"]
mod asked;
pub mod auth;
pub mod config;
mod console;
mod guard;
mod log;
mod openapi;
mod operation;
mod problem;
mod rights;
mod routes;
mod serve;
mod stopping;
mod work;

pub use app::App;
pub use config::Config;
#[cfg(feature = "full")]
pub use operation::start_logs;
pub use routes::router;
pub use serve::{ServeError, Server};
