//! Guarantees that every page fulfills, which property tests check for random cases.

use std::fmt;
use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use recto_testkit::generate::Case;

use super::loaded_case::{Failure, LoadedCase};
use super::{beside, cost, cursors, keys, traversal};
use crate::common::Subject;

/// Guarantee that every page fulfills, with its number in the documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guarantee {
    /// 1: the page after a position has the first rows strictly after it, in the query's order. The
    /// page before a position has the nearest rows before it. Pages around a position, and from
    /// values, follow the same rule.
    AfterAndBefore,
    /// 2: reading all pages returns every row that exists all the time exactly once. Other rows may
    /// be added and deleted in between, and the pages may be read backwards and have changing
    /// sizes. (`tests/behaviour/snapshot.rs` shows that a page of the embedded store reads one
    /// snapshot.)
    EveryRowOnce,
    /// 3: a cursor is a position, not a row. It works after its row is deleted, and every row has a
    /// cursor.
    Position,
    /// 4: a page reports correctly whether rows exist before and after it. The report is exact in
    /// the direction of reading, and unknown at the other end unless the query requests it. A
    /// cursor is missing only if no rows exist in its direction. No empty page ends a list early.
    Edges,
    /// 5: only the query that created a cursor accepts it, in every notation of the query, and only
    /// if the cursor is unaltered.
    OwnQuery,
    /// 6: a page at any depth reads its own rows, and one more row of each source (row range) of
    /// its plan.
    Cost,
    /// 7: a page with a budget reports the limit that ended it, and reading all such pages loses no
    /// row. The check covers budgets of rows and bytes. Another test covers time, because no seed
    /// can repeat it.
    Budgets,
    /// Without a number: reads by key, and scans of all rows, find exactly the existing rows.
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
    /// Checks the guarantee for a test case whose rows are stored in `subject`. Returns the number
    /// of pages read.
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
