//! Schemas, views and records that change while programs use them.
// What tests print is shown when they fail.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "../common/mod.rs"]
mod common;
mod schema_changes;
mod update;
mod views_life;
