//! Execution of plans: from slices to pages.
//!
//! [`Reader`] reads the rows beyond an edge in one direction, for plans of every shape. [`fetch`]
//! makes a page of these rows: it reads one row more, determines whether rows exist beyond both
//! ends, and applies budgets. A [`Keeper`](keeper::Keeper) collects the rows that belong to the
//! page. [`Joining`] reads the base rows if the rows of a view are not sufficient.

mod budget;
mod counter;
mod estimate;
mod found;
mod intersect;
mod joined;
mod keeper;
mod merge;
mod page;
mod reader;
mod rest;
mod selecting;
mod sparsest;

pub(crate) use budget::{AskedBucket, Budget, blurred};
pub(crate) use estimate::known_row_count;
pub(crate) use intersect::{MIN_REMOTE_CHUNK_ROWS, first_chunks};
pub(crate) use joined::{Joining, Judge};
pub(crate) use page::{PageSpec, Place, RawPage, Share, fetch, is_remote};
pub(crate) use reader::FILTER_SCAN_CHUNK_ROWS;
