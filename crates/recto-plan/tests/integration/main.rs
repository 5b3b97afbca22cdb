//! Tests of cursors, resume tokens and filter text through the public interface of this crate.
#![allow(clippy::unwrap_used)]

mod cursor;
mod scan_token;
mod text;
mod text_properties;
