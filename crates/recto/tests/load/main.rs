//! Loading files, through the session that tools speak to.

#![allow(clippy::unwrap_used)]

mod files;
mod rejects;
mod resume;
mod rows;
mod support;
