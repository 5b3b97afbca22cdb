//! Loading files, through the session that tools speak to.

#![allow(clippy::unwrap_used, clippy::format_push_string)]

mod files;
mod kill;
mod rejects;
mod resume;
mod rows;
mod support;
