//! Those who are measured: each answers the same questions with the same rows.

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

/// Which rows are paged, newest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Filter {
    /// Those of one carrier.
    Equal,
    /// Those of one carrier within a span of time that holds most of them.
    Range,
    /// Those of eight carriers.
    AnyOf,
}

impl Filter {
    pub(crate) const ALL: [Self; 3] = [Self::Equal, Self::Range, Self::AnyOf];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Equal => "equality",
            Self::Range => "equality and range",
            Self::AnyOf => "IN of 8",
        }
    }
}

/// Which page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) filter: Filter,
    pub(crate) backward: bool,
    pub(crate) rows: u32,
    /// The span of [`Filter::Range`]: from the first moment on, before the second, in milliseconds.
    pub(crate) span: (i64, i64),
}

/// A row that a page lies beyond.
#[derive(Debug, Clone)]
pub(crate) struct Start {
    pub(crate) cursor: String,
    pub(crate) time_hour: i64,
    pub(crate) carrier: String,
    pub(crate) flight: i32,
}

/// Someone who answers with pages.
pub(crate) trait Peer {
    /// Reads the page beyond each start, or as often the page at the near end; hands the rows of each to
    /// `take`, in the order of the question.
    fn pages(&mut self, question: &Question, starts: &[Start], at_end: bool, take: &mut dyn FnMut(&[Flight]));
}

/// The rows of all those pages.
pub(crate) fn count(peer: &mut dyn Peer, question: &Question, starts: &[Start], at_end: bool) -> usize {
    let mut rows = 0;
    peer.pages(question, starts, at_end, &mut |page| {
        rows += std::hint::black_box(page).len();
    });
    rows
}
