//! Loading files, through the session that tools speak to.

#![allow(clippy::unwrap_used, clippy::format_push_string)]

mod buckets;
mod changes;
#[path = "../common/mod.rs"]
mod common;
mod files;
mod kill;
mod rejects;
mod resume;
mod rows;
mod support;
mod views;
mod views_killed;
