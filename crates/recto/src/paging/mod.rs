//! Running a plan: slices into pages.
//!
//! [`Reader`] reads the rows beyond an edge in one direction, whatever the plan's shape;
//! [`fetch`] makes a page of them: look-ahead, what is known of both ends, budgets. Between plan and slices,
//! [`Pieces`] says which partitions of the table a partition as queries name it is kept in. A [`Keeper`](keeper::Keeper)
//! says which rows are the page's; [`Joining`] reads their base rows where a view does not say enough.

mod budget;
mod found;
mod joined;
mod keeper;
mod merge;
mod page;
mod pieces;
mod reader;

pub(crate) use budget::{Budget, blurred};
pub use budget::{PageCost, Stop};
pub(crate) use joined::{Joining, Judge};
pub(crate) use page::{PageSpec, Place, RawPage, fetch};
pub(crate) use pieces::Undivided;
pub use pieces::{Found, Pieces};
pub(crate) use reader::RESIDUAL_CHUNK_ROWS;
