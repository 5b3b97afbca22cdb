//! Peers: the programs with which Recto is compared. All of them return the same rows for a query.

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

/// Filter of a measured page of flights. The flights are sorted by time, newest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Filter {
    /// Flights of one carrier.
    Equal,
    /// Flights of one carrier within a time span that contains most of them.
    Range,
    /// Flights of eight carriers, merged.
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

/// Query for a page of flights, which each peer executes in its own way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) filter: Filter,
    pub(crate) backward: bool,
    pub(crate) rows: u32,
    /// Time span of [`Filter::Range`] in milliseconds: start (inclusive) and end (exclusive).
    pub(crate) span: (i64, i64),
}

/// Row of flights after which a page starts, or before which a backward page ends.
#[derive(Debug, Clone)]
pub(crate) struct Start {
    pub(crate) cursor: String,
    pub(crate) time_hour: i64,
    pub(crate) carrier: String,
    pub(crate) flight: i32,
}

/// Compared program that returns pages of flights.
pub(crate) trait Peer {
    /// Reads one page for each row of `starts`: the page after the row, or before it if backward.
    /// With `at_end`, reads as many times the first page of the order (or the last, if backward).
    /// Passes the rows of each page to `take`, in the order of the query.
    fn pages(&mut self, question: &Question, starts: &[Start], at_end: bool, take: &mut dyn FnMut(&[Flight]));
}

/// Reads the pages that [`Peer::pages`] reads, and returns their total number of rows.
pub(crate) fn count(peer: &mut dyn Peer, question: &Question, starts: &[Start], at_end: bool) -> usize {
    let mut rows = 0;
    peer.pages(question, starts, at_end, &mut |page| {
        rows += std::hint::black_box(page).len();
    });
    rows
}
