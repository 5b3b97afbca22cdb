//! `/collections/{collection}/design` in a build that cannot design views.

use axum::response::Response;
use recto::{Error, ErrorKind};

use super::layout::Failure;

/// Returns an error that names a build which can design views.
#[allow(clippy::unused_async)] // a handler must be async
pub(super) async fn get() -> Result<Response, Failure> {
    let error = Error::new(ErrorKind::NotOffered, "this build of Recto cannot design views");
    Err(error
        .with_hint("run cargo install --path crates/recto-cli, which builds all features")
        .into())
}

/// Returns the error of [`get`].
pub(super) async fn ask() -> Result<Response, Failure> {
    get().await
}
