//! A case put to a store, and how it fails.

use recto::{Cursor, Direction, DynamicRecord, Error, ErrorKind, Page, PageQuery};
use recto_testkit::generate::{Case, Change, Move, Place};
use recto_testkit::oracle::{Cut, Row, Sequence};

use crate::common::Subject;
use crate::common::subject::rows;

/// What is not as it should be.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) message: String,
    pub(crate) kind: FailureKind,
}

/// A case is not made simpler into one that fails in another way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// A page is wrong.
    Wrong,
    /// The query was refused.
    Refused,
    /// Another error.
    Error,
}

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            kind: FailureKind::Wrong,
        }
    }

    pub(crate) fn of(error: &Error, what: &str) -> Self {
        Self {
            message: format!("{what}: {error}\n  hint: {:?}", error.hint()),
            kind: if is_refusal(error) {
                FailureKind::Refused
            } else {
                FailureKind::Error
            },
        }
    }
}

/// Whether the query was refused, whatever page was asked for.
pub(crate) fn is_refusal(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::NoPlan | ErrorKind::InvalidQuery | ErrorKind::LimitExceeded
    )
}

/// Returns a failure unless something holds.
macro_rules! ensure {
    ($holds:expr, $($message:tt)+) => {
        if !$holds {
            return Err($crate::property::asked::Failure::new(format!($($message)+)));
        }
    };
}
pub(crate) use ensure;

/// A case put to the collection that has its rows.
pub(crate) struct Asked<'a> {
    pub(crate) subject: &'a mut Subject,
    pub(crate) case: &'a Case,
    pub(crate) query: PageQuery<DynamicRecord>,
    pub(crate) pages: usize,
}

/// All rows of a question, with a cursor of each.
pub(crate) struct Whole {
    pub(crate) sequence: Sequence,
    pub(crate) cursors: Vec<Cursor>,
}

impl Whole {
    /// The row and cursor that a move means; none if there are no rows.
    pub(crate) fn of(&self, page: &Move) -> Option<(&Row, &Cursor)> {
        let index = page.row.checked_rem(self.cursors.len())?;
        Some((&self.sequence.rows()[index], &self.cursors[index]))
    }
}

impl<'a> Asked<'a> {
    pub(crate) fn new(subject: &'a mut Subject, case: &'a Case) -> Self {
        let query = subject.query(&case.question, case.built);
        Self {
            subject,
            case,
            query,
            pages: 0,
        }
    }

    /// The move of the page of this number, counted round.
    pub(crate) fn page_move(&self, page: usize) -> &'a Move {
        &self.case.moves[page % self.case.moves.len()]
    }

    pub(crate) async fn page(
        &mut self,
        query: PageQuery<DynamicRecord>,
        what: &str,
    ) -> Result<Page<DynamicRecord>, Failure> {
        self.pages += 1;
        query.await.map_err(|error| Failure::of(&error, what))
    }

    /// One page of everything, which is the oracle's answer.
    pub(crate) async fn whole(&mut self) -> Result<Whole, Failure> {
        let sequence = self.subject.oracle.ask(&self.case.question);
        let page = self.page(self.query.clone().page_size(1_000), "all rows").await?;
        self.same_rows(&rows(&page), sequence.rows(), "all rows")?;
        Ok(Whole {
            sequence,
            cursors: (0..page.len()).map(|index| page.cursor(index)).collect(),
        })
    }

    /// The query of a move beside a row's cursor or from its values, and the rows it should have.
    pub(crate) fn beside<'s>(
        &self,
        sequence: &'s Sequence,
        page: &Move,
        row: Option<(&Row, &Cursor)>,
    ) -> Option<(PageQuery<DynamicRecord>, Cut<'s>)> {
        let size = page.size as usize;
        let mut query = self.query.clone().page_size(page.size);
        if page.both_edges {
            query = query.both_edges();
        }
        if page.place == Place::From {
            // Whether a field without a value left is pinned is nobody's business.
            let is_open = !self.subject.oracle.leaves_no_value(&self.case.question)
                && self.can_start_at(sequence, page);
            return is_open.then(|| (query.from(page.from.clone()), sequence.from(&page.from, size)));
        }
        let (row, cursor) = row?;
        let cursor = cursor.clone();
        Some(match page.place {
            Place::Before => (query.before(cursor), sequence.before(row, size)),
            Place::Around => (query.around(cursor), sequence.around(row, size)),
            Place::After | Place::From => (query.after(cursor), sequence.after(row, size)),
        })
    }

    /// Whether the values of `from` are of the subject's own columns: in a view, a key of the store's follows those
    /// of the order, before the partition's.
    fn can_start_at(&self, sequence: &Sequence, page: &Move) -> bool {
        let base = self.case.collection.base();
        let is_behind = |(field, _): &(usize, Direction)| {
            let name = &self.case.collection.fields[*field].name;
            base.partition.contains(name)
                && !self.case.question.sort.iter().any(|(sorted, _)| sorted == field)
        };
        let own = sequence.order().iter().position(is_behind);
        self.subject.view.is_none() || own.is_none_or(|own| page.from.len() <= own)
    }

    /// Writes what a move writes; the rows stored, and the rows deleted.
    pub(crate) async fn write(&mut self, writes: &[Change]) -> (Vec<Row>, Vec<Row>) {
        let (mut stored, mut deleted) = (Vec::new(), Vec::new());
        for change in writes {
            match change {
                Change::Put(row) => {
                    if self.subject.oracle.get(row).is_none() {
                        self.subject.put_rows([row.clone()]).await;
                        stored.push(row.clone());
                    }
                }
                Change::Delete(index) => {
                    let there = self.subject.oracle.rows();
                    if let Some(index) = index.checked_rem(there.len()) {
                        let row = there[index].clone();
                        self.subject.delete(&row).await;
                        deleted.push(row);
                    }
                }
            }
        }
        (stored, deleted)
    }

    pub(crate) fn same_rows(&self, found: &[Row], expected: &[Row], what: &str) -> Result<(), Failure> {
        let mut pairs = found.iter().zip(expected);
        let is_same = found.len() == expected.len()
            && pairs.all(|(found, expected)| self.subject.oracle.same_row(found, expected));
        ensure!(
            is_same,
            "{what}\n  found:\n{}\n  expected:\n{}",
            self.subject.show(found),
            self.subject.show(expected)
        );
        Ok(())
    }
}

/// A page says this of its ends, and has a cursor wherever there may be more.
pub(crate) fn edges_are(
    page: &Page<DynamicRecord>,
    before: Option<bool>,
    after: Option<bool>,
    what: &str,
) -> Result<(), Failure> {
    ensure!(
        (page.has_previous(), page.has_next()) == (before, after),
        "{what}: of what is before and after it, it says {:?} and {:?}; it is {before:?} and {after:?}",
        page.has_previous(),
        page.has_next()
    );
    ensure!(
        page.previous_cursor().is_none() == (before == Some(false)),
        "{what}: it says {before:?} of what is before it, and its cursor something else"
    );
    ensure!(
        page.next_cursor().is_none() == (after == Some(false)),
        "{what}: it says {after:?} of what is after it, and its cursor something else"
    );
    Ok(())
}
