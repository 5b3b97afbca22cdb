//! Recto over HTTP: the JSON API, its `OpenAPI` description, and the console for people.
//!
//! Everything a request asks of a store goes through one [`Session`](recto::Session), restricted to
//! what the request's [`Access`](access::Access) allows, so that neither the API nor the console can
//! do what the other could not, nor see past a token's row filter.
//!
//! | module | holds |
//! |---|---|
//! | `rights` | what may be done, and by whom |
//! | `access` | the session of who asks, for what they may |
//! | `work` | what is being done with the store |
//! | `asked` | what was asked of each collection, without values |
//! | `log` | lines of the log |
//! | `app` | what all requests share |
//! | `routes` | the routes together |
//! | `problem` | errors as problem+json (RFC 9457) |
//! | `api` | `/v1`: collections, records, batches, export, explanations |
//! | `openapi` | the description of the API, as JSON and for people |
//! | `serve` | listening, connections, shutting down |
//! | `config` | what a server is told: defaults, file, environment, flags |
//! | `auth` | tokens: made, hashed, looked up, revoked |
//! | `guard` | limits on what comes in; headers on what goes out |
//! | `operation` | health, readiness, metrics, logs |
//! | `console` | pages for people |

// Without logs and some pages, nothing uses what only these show.
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
