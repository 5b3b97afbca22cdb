//! Tests of cursors, resume tokens, filter text and proposed views through the public interface of
//! this crate.
#![allow(clippy::unwrap_used)]

#[cfg(feature = "advisor")]
mod advisor;
mod cursor;
mod scan_token;
mod text;
mod text_properties;
