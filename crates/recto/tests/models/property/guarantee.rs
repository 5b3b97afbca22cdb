//! The guarantees of a page, each checked of a case.

use std::fmt;
use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use recto_testkit::generate::Case;

use super::asked::{Asked, Failure};
use super::{beside, cost, cursors, keys, traversal};
use crate::common::Subject;

/// What is promised of pages; the numbers are those of the list of guarantees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guarantee {
    /// 1: the page after a position is the first rows strictly after it, the page before it those
    /// nearest before it, in the query's order; around and from likewise.
    AfterAndBefore,
    /// 2: every row that is there throughout a traversal is returned exactly once, whatever comes and
    /// goes, forwards or backwards, in pages of changing sizes. (That a page is of one moment on the
    /// embedded store, `tests/behaviour/snapshot.rs` shows.)
    EveryRowOnce,
    /// 3: a cursor is a position, not a row: it works after its row is deleted, and any row gives one.
    Position,
    /// 4: what a page says of both ends is true: exact in the direction of travel, unknown at the other
    /// end unless asked for; no cursor only where there is nothing; no empty page ends a list early.
    Edges,
    /// 5: a cursor opens for the query that made it, however that is written, and only unaltered.
    OwnQuery,
    /// 6: a page reads its rows and one more of each source, at any depth.
    Cost,
    /// 7: a page on a budget says what cut it short, and a traversal of such pages loses nothing. (Rows
    /// and bytes; time, which no seed replays, is a behaviour of its own.)
    Budgets,
    /// Besides: reads by key and scans of everything find what there is.
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
    /// How many pages were asked for to find that it holds of a case, whose rows `subject` has.
    pub(crate) async fn check(self, subject: &mut Subject, case: &Case) -> Result<usize, Failure> {
        let mut asked = Asked::new(subject, case);
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
