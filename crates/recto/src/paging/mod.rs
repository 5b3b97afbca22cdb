//! Running a plan: slices into pages.
//!
//! [`Reader`] reads the rows beyond an edge in one direction, whatever the plan's shape;
//! [`fetch`] makes a page of them: look-ahead, what is known of both ends, budgets. A [`Keeper`](keeper::Keeper)
//! says which rows are the page's; [`Joining`] reads their base rows where a view does not say enough.

mod budget;
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
pub(crate) use intersect::{MIN_REMOTE_CHUNK_ROWS, first_chunks};
pub(crate) use joined::{Joining, Judge};
pub(crate) use page::{PageSpec, Place, RawPage, Share, fetch, is_remote};
pub(crate) use reader::FILTER_SCAN_CHUNK_ROWS;
