//! Measured peers. All answer the same queries with the same rows.

pub(crate) mod deleted_rows;
pub(crate) mod driver;
pub(crate) mod engine;
pub(crate) mod http;
pub(crate) mod kept_by_hand;
pub(crate) mod ours;
pub(crate) mod pair_by_hand;
pub(crate) mod postgresql;
pub(crate) mod sql;
pub(crate) mod sqlite;

use crate::flights::Flight;

/// Filter of the paged rows, which are ordered newest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Filter {
    /// Rows of one carrier.
    Equal,
    /// Rows of one carrier within a time span that contains most of them.
    Range,
    /// Rows of eight carriers.
    AnyOf,
}

impl Filter {
    pub(crate) const ALL: [Self; 3] = [Self::Equal, Self::Range, Self::AnyOf];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Equal => "`=`",
            Self::Range => "range",
            Self::AnyOf => "`IN` of 8",
        }
    }
}

/// Page to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) filter: Filter,
    pub(crate) backward: bool,
    pub(crate) rows: u32,
    /// Time span of [`Filter::Range`] in milliseconds: start (inclusive) and end (exclusive).
    pub(crate) span: (i64, i64),
}

/// Row after or before which a page starts.
#[derive(Debug, Clone)]
pub(crate) struct Start {
    pub(crate) cursor: String,
    pub(crate) time_hour: i64,
    pub(crate) carrier: String,
    pub(crate) flight: i32,
}

/// Peer that returns pages.
pub(crate) trait Peer {
    /// Reads the page beyond each start, or the page at the near end the same number of times. Passes the rows of each
    /// page to `take`, in the order of the question.
    fn pages(&mut self, question: &Question, starts: &[Start], at_end: bool, take: &mut dyn FnMut(&[Flight]));
}

/// Returns the number of rows of all these pages.
pub(crate) fn count(peer: &mut dyn Peer, question: &Question, starts: &[Start], at_end: bool) -> usize {
    let mut rows = 0;
    peer.pages(question, starts, at_end, &mut |page| {
        rows += std::hint::black_box(page).len();
    });
    rows
}
