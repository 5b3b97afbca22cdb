//! Test case whose rows are stored in a collection, and the failures of its checks.

use recto::{Cursor, Direction, DynamicRecord, Error, ErrorKind, Page, PageQuery};
use recto_testkit::generate::{Case, Change, Move, Place};
use recto_testkit::oracle::{Cut, Row, Sequence};

use crate::common::Subject;
use crate::common::subject::rows;

/// Failed check of a test case.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) message: String,
    pub(crate) kind: FailureKind,
}

/// Kind of a failed check. A simplified case must fail in the same way as the original case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// A page has wrong content.
    Wrong,
    /// The query was rejected.
    Refused,
    /// The query failed with another error.
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

/// Returns whether an error rejects the query itself, whichever page is requested.
pub(crate) fn is_refusal(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::NoPlan | ErrorKind::InvalidQuery | ErrorKind::LimitExceeded
    )
}

/// Returns a [`Failure`] from the calling function if a condition is false.
macro_rules! ensure {
    ($holds:expr, $($message:tt)+) => {
        if !$holds {
            return Err($crate::property::loaded_case::Failure::new(format!($($message)+)));
        }
    };
}
pub(crate) use ensure;

/// Test case, with a stored collection that has its rows.
pub(crate) struct LoadedCase<'a> {
    pub(crate) subject: &'a mut Subject,
    pub(crate) case: &'a Case,
    pub(crate) query: PageQuery<DynamicRecord>,
    pub(crate) pages: usize,
}

/// All rows that a query must return, and the cursor of each row.
pub(crate) struct Whole {
    pub(crate) sequence: Sequence,
    pub(crate) cursors: Vec<Cursor>,
}

impl Whole {
    /// Returns the row and cursor to which a page request refers, or `None` if there are no rows.
    pub(crate) fn of(&self, page: &Move) -> Option<(&Row, &Cursor)> {
        let index = page.row.checked_rem(self.cursors.len())?;
        Some((&self.sequence.rows()[index], &self.cursors[index]))
    }
}

impl<'a> LoadedCase<'a> {
    pub(crate) fn new(subject: &'a mut Subject, case: &'a Case) -> Self {
        let query = subject.query(&case.question, case.built);
        Self {
            subject,
            case,
            query,
            pages: 0,
        }
    }

    /// Returns the request for the page with index `page`. The case's requests repeat after the
    /// last one.
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

    /// Reads all rows as one page, and checks that they agree with the oracle.
    pub(crate) async fn whole(&mut self) -> Result<Whole, Failure> {
        let sequence = self.subject.oracle.ask(&self.case.question);
        let page = self.page(self.query.clone().page_size(1_000), "all rows").await?;
        self.same_rows(&rows(&page), sequence.rows(), "all rows")?;
        Ok(Whole {
            sequence,
            cursors: (0..page.len()).map(|index| page.cursor(index)).collect(),
        })
    }

    /// Returns the query for a requested page (next to a row's cursor, or from given values), and
    /// the rows that it must return. Returns `None` if the request cannot be checked.
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
            // If the query excludes all values of a field, it is undefined whether `=` fixes that
            // field. Do not check such a page.
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

    /// Returns whether a page can start at the request's values. In a view, the key column of the
    /// store's collection comes before the partition columns, and has no start value. A page can
    /// therefore not start at values of later columns.
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

    /// Executes the writes that a page request prescribes. Returns the stored rows and the deleted
    /// rows.
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

/// Checks what a page reports about rows before and after it. On each side with possible rows, the
/// page must have a cursor.
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
