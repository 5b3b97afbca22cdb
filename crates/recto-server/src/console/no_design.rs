//! `/collections/{collection}/design` in a build without the design of views.

use axum::response::Response;
use recto::{Error, ErrorKind};

use super::layout::Failure;

/// Returns an error that names the build with this page.
#[allow(clippy::unused_async)] // a handler must be async
pub(super) async fn get() -> Result<Response, Failure> {
    let error = Error::new(ErrorKind::NotOffered, "this build of Recto cannot design views");
    Err(error
        .with_hint("run cargo install --path crates/recto-cli, which builds all features")
        .into())
}

/// Returns an error, as [`get`] does.
pub(super) async fn ask() -> Result<Response, Failure> {
    get().await
}
