//! Guarantees of a page. A test checks each guarantee for each test case.

use std::fmt;
use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use recto_testkit::generate::Case;

use super::loaded_case::{Failure, LoadedCase};
use super::{beside, cost, cursors, keys, traversal};
use crate::common::Subject;

/// Guarantee of pages. The numbers are those of the list of guarantees in the documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guarantee {
    /// 1: the page after a position has the first rows strictly after it, in the query's order. The page
    /// before a position has the rows nearest before it. Pages around a position and from values follow the
    /// same rule.
    AfterAndBefore,
    /// 2: a traversal returns every row exactly once that exists during the whole traversal. Other
    /// rows may be added and deleted meanwhile, and the traversal may run forwards or backwards
    /// with changing page sizes. (`tests/behaviour/snapshot.rs` shows that a page on the embedded
    /// store reads one moment.)
    EveryRowOnce,
    /// 3: a cursor is a position, not a row. It works after its row is deleted, and any row gives a cursor.
    Position,
    /// 4: a page reports both of its ends correctly. The report is exact in the direction of travel, and
    /// unknown at the other end unless the query requests it. A cursor is missing only if there are no rows
    /// in its direction. No empty page ends a list early.
    Edges,
    /// 5: a cursor opens for the query that created it, in every notation of the query, and only if the
    /// cursor is unaltered.
    OwnQuery,
    /// 6: a page at any depth reads its rows and one more row of each source.
    Cost,
    /// 7: a page with a budget reports the limit that ended it, and a traversal with such pages loses no row.
    /// This guarantee covers rows and bytes. Another test covers time, because no seed can repeat it.
    Budgets,
    /// Reads by key and scans of all rows find the existing rows. This guarantee has no number.
    KeysAndScans,
}

impl fmt::Display for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AfterAndBefore => "guarantee 1, pages after and before",
            Self::EveryRowOnce => "guarantee 2, every row exactly once",
            Self::Position => "guarantee 3, a cursor is a position",
            Self::Edges => "guarantee 4, what is beyond both ends",
            Self::OwnQuery => "guarantee 5, a cursor opens for its query",
            Self::Cost => "guarantee 6, the cost is the page",
            Self::Budgets => "guarantee 7, budgets lose nothing",
            Self::KeysAndScans => "reads by key and scans",
        })
    }
}

impl Guarantee {
    /// Checks the guarantee for a case whose rows are stored in `subject`. Returns the number of
    /// pages that were read.
    pub(crate) async fn check(self, subject: &mut Subject, case: &Case) -> Result<usize, Failure> {
        let mut asked = LoadedCase::new(subject, case);
        let checked = AssertUnwindSafe(async {
            match self {
                Self::AfterAndBefore => beside::after_and_before(&mut asked).await,
                Self::EveryRowOnce => traversal::every_row_once(&mut asked).await,
                Self::Position => beside::cursors_of_rows_that_may_be_gone(&mut asked).await,
                Self::Edges => traversal::edges(&mut asked).await,
                Self::OwnQuery => cursors::own_query(&mut asked).await,
                Self::Cost => cost::of_pages(&mut asked).await,
                Self::Budgets => traversal::on_budgets(&mut asked).await,
                Self::KeysAndScans => keys::and_scans(&mut asked).await,
            }
        });
        let panicked = |_| Err(Failure::new("it panicked; the message stands above"));
        checked.catch_unwind().await.unwrap_or_else(panicked)?;
        Ok(asked.pages)
    }
}
