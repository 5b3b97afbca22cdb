//! `/collections/{collection}/design`, in a build that designs no views.

use axum::response::Response;
use recto::{Error, ErrorKind};

use super::layout::Failure;

/// Says which build has this page.
#[allow(clippy::unused_async)] // a handler
pub(super) async fn get() -> Result<Response, Failure> {
    let error = Error::new(ErrorKind::NotOffered, "this build of recto designs no views");
    Err(error
        .with_hint("cargo install --path crates/recto-cli builds all of recto")
        .into())
}

/// As [`get`].
pub(super) async fn ask() -> Result<Response, Failure> {
    get().await
}
