//! Peers that Recto is compared with. All of them return the same rows for a query.

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

/// Filter of a page of flights. Flights are sorted by time, newest first.
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

/// Query for a page, which each peer answers in its own way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) filter: Filter,
    pub(crate) backward: bool,
    pub(crate) rows: u32,
    /// Time span of [`Filter::Range`] in milliseconds: start (inclusive) and end (exclusive).
    pub(crate) span: (i64, i64),
}

/// Row after which a page starts, or before which it ends.
#[derive(Debug, Clone)]
pub(crate) struct Start {
    pub(crate) cursor: String,
    pub(crate) time_hour: i64,
    pub(crate) carrier: String,
    pub(crate) flight: i32,
}

/// Contender that returns pages of flights.
pub(crate) trait Peer {
    /// Reads the page beyond each row of `starts`. With `at_end`, reads the page at the beginning of the
    /// order (or its end, if backward) as many times instead. Passes the rows of each page to `take`, in the
    /// order of the query.
    fn pages(&mut self, question: &Question, starts: &[Start], at_end: bool, take: &mut dyn FnMut(&[Flight]));
}

/// Reads the pages of `Peer::pages`, and returns the total number of their rows.
pub(crate) fn count(peer: &mut dyn Peer, question: &Question, starts: &[Start], at_end: bool) -> usize {
    let mut rows = 0;
    peer.pages(question, starts, at_end, &mut |page| {
        rows += std::hint::black_box(page).len();
    });
    rows
}
