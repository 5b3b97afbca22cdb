//! The console: its pages for a client without scripts, and in a real browser.
#![allow(clippy::unwrap_used)]

mod access;
mod browser;
mod buckets;
mod cassandra;
mod changes;
mod design;
mod fixture;
mod pages;
mod queues;
mod views;
