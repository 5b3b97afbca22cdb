//! Comparison of pages with Cassandra's answer to a vector (a CQL query of Cassandra's tests). The
//! pages have several sizes, and are read forwards and backwards.

use std::cmp::Ordering;

use recto::{DynamicRecord, ErrorKind, Page, PageQuery};
use recto_testkit::oracle::{Condition, Question, Row, order};

use super::answer::{Answer, Beyond, Reason, answer};
use super::vector::Vector;
use crate::common::Subject;
use crate::common::subject::rows;

/// Page sizes, in rows, with which each query is read.
const SIZES: [usize; 5] = [1, 2, 3, 7, 1_000];
/// Maximum number of queries of a vector with which the test uses every page size. If a vector
/// needs more queries, the test reads each of them with one page size.
const FEW_PARTS: usize = 10;

/// Result of the test of one vector.
pub(crate) struct VectorResult {
    pub(crate) is_one_query: bool,
    pub(crate) pages: usize,
}

/// Asserts that pages of Recto contain Cassandra's answer to a vector.
pub(crate) async fn ask(subject: &Subject, vector: &Vector) -> VectorResult {
    let answer = answer(vector, &subject.definition);
    let mut asking = Asking {
        subject,
        vector,
        pages: 0,
    };
    match &answer.beyond {
        None => asking.one_query(&answer).await,
        Some(beyond) => asking.several_queries(&answer, beyond).await,
    }
    VectorResult {
        is_one_query: answer.beyond.is_none(),
        pages: asking.pages,
    }
}

struct Asking<'a> {
    subject: &'a Subject,
    vector: &'a Vector,
    pages: usize,
}

impl Asking<'_> {
    /// Asserts that the oracle (simple model of queries) gives Cassandra's answer, and that the
    /// pages of one query of Recto contain this answer.
    async fn one_query(&mut self, answer: &Answer) {
        let sequence = self.subject.oracle.ask(&answer.question);
        let all = sequence.rows();
        let limit = answer.limit.unwrap_or(usize::MAX);
        self.assert_answer(&all[..limit.min(all.len())], "the oracle");
        for built in built(self.subject, &answer.question) {
            let Some(limit) = answer.limit else { break };
            let query = self.subject.query(&answer.question, built);
            let page = self.page(query.first(limit as u32)).await;
            self.assert_answer(&rows(&page), "the page of the limit");
            self.assert_edge(page.has_next(), all.len() > limit, "after the limit");
        }
        let built = built(self.subject, &answer.question);
        for (size, built) in SIZES.into_iter().zip(built.into_iter().cycle()) {
            let query = self.subject.query(&answer.question, built);
            let found = self.forwards(&query, size, all).await;
            self.assert_answer(&found[..limit.min(found.len())], &format!("forwards by {size}"));
            let found = self.backwards(&query, size, all).await;
            self.assert_answer(&found[..limit.min(found.len())], &format!("backwards by {size}"));
        }
    }

    /// Asserts that the rows of several queries of Recto, sorted in the order of the vector's
    /// query, are Cassandra's answer.
    async fn several_queries(&mut self, answer: &Answer, beyond: &Beyond) {
        if beyond.reason == Reason::TooManyValues {
            self.assert_refused(beyond).await;
        }
        let whole = self.subject.oracle.ask(&answer.question);
        let rounds = if beyond.parts.len() > FEW_PARTS {
            1
        } else {
            SIZES.len()
        };
        for round in 0..rounds {
            let mut found: Vec<Row> = Vec::new();
            for (index, part) in beyond.parts.iter().enumerate() {
                let sequence = self.subject.oracle.ask(part);
                let size = SIZES[(round + index) % SIZES.len()];
                let query = self.subject.query(part, (round + index) % 2 == 0);
                self.backwards(&query, size, sequence.rows()).await;
                let mut rows = self.forwards(&query, size, sequence.rows()).await;
                rows.truncate(beyond.limit_per_part.unwrap_or(usize::MAX));
                found.extend(rows);
            }
            found.sort_by(|left, right| whole.compare(left, right));
            found.dedup_by(|left, right| whole.compare(left, right) == Ordering::Equal);
            found.truncate(answer.limit.unwrap_or(usize::MAX));
            self.assert_answer(
                &found,
                &format!("put together from {} queries", beyond.parts.len()),
            );
        }
    }

    /// Asserts that Recto rejects a filter with the whole list of the vector, because the list has
    /// too many values.
    async fn assert_refused(&self, beyond: &Beyond) {
        let mut question = beyond.parts[0].clone();
        for part in &beyond.parts[1..] {
            let lists = (question.conditions.last_mut(), part.conditions.last());
            if let (Some(Condition::AnyOf { values, .. }), Some(Condition::AnyOf { values: more, .. })) =
                lists
            {
                values.extend(more.iter().cloned());
            }
        }
        let error = self.subject.query(&question, true).await.unwrap_err();
        assert!(
            error.kind() == ErrorKind::LimitExceeded && error.to_string().contains("10001 values"),
            "{}: {error}",
            self.vector.id
        );
    }

    async fn page(&mut self, query: PageQuery<DynamicRecord>) -> Page<DynamicRecord> {
        self.pages += 1;
        query
            .await
            .unwrap_or_else(|error| panic!("{}\n  {error}\n  hint: {:?}", self.context(""), error.hint()))
    }

    async fn forwards(&mut self, query: &PageQuery<DynamicRecord>, size: usize, all: &[Row]) -> Vec<Row> {
        let mut found: Vec<Row> = Vec::new();
        let mut next = query.clone().first(size as u32);
        loop {
            let page = self.page(next).await;
            let end = (found.len() + size).min(all.len());
            let what = format!("{size} rows after {}", found.len());
            self.assert_rows(&page, &all[found.len()..end], &what);
            self.assert_edge(page.has_next(), end < all.len(), &what);
            found.extend(rows(&page));
            let Some(cursor) = page.next_cursor() else {
                return found;
            };
            next = query.clone().first(size as u32);
            next = if found.len().is_multiple_of(2) {
                next.page_token(cursor)
            } else {
                next.after(page.cursor(page.len() - 1))
            };
        }
    }

    async fn backwards(&mut self, query: &PageQuery<DynamicRecord>, size: usize, all: &[Row]) -> Vec<Row> {
        let mut found: Vec<Row> = Vec::new();
        let mut next = query.clone().last(size as u32);
        loop {
            let page = self.page(next).await;
            let end = all.len() - found.len();
            let start = end.saturating_sub(size);
            let what = format!("{size} rows before {end}");
            self.assert_rows(&page, &all[start..end], &what);
            self.assert_edge(page.has_previous(), start > 0, &what);
            found.splice(0..0, rows(&page));
            let Some(cursor) = page.previous_cursor() else {
                return found;
            };
            next = query.clone().page_size(size as u32);
            next = if found.len().is_multiple_of(2) {
                next.page_token(cursor)
            } else {
                next.before(page.cursor(0))
            };
        }
    }

    fn assert_rows(&self, page: &Page<DynamicRecord>, expected: &[Row], what: &str) {
        self.subject
            .assert_rows(&rows(page), expected, &self.context(what));
    }

    fn assert_edge(&self, found: Option<bool>, more: bool, what: &str) {
        let expected = Some(more);
        assert_eq!(found, expected, "{}", self.context(what));
    }

    /// Asserts that `found` has the rows of Cassandra's answer, in the columns that the vector
    /// selects. `what` names the origin of the rows in messages.
    fn assert_answer(&self, found: &[Row], what: &str) {
        let select = &self.vector.select;
        let is_same_row = |(found, expected): (&Row, &Row)| {
            select.iter().zip(expected).all(|(column, expected)| {
                let ty = &self.subject.definition.fields[*column].ty;
                let (found, expected) = (found[*column].as_ref(), expected.as_ref());
                matches!((found, expected), (Some(found), Some(expected)) if order::same(ty, found, expected))
            })
        };
        let expected = &self.vector.expected;
        assert!(
            found.len() == expected.len() && found.iter().zip(expected).all(is_same_row),
            "{}\n  found:\n{}\n  expected: {expected:?}",
            self.context(what),
            self.subject.show(found),
        );
    }

    fn context(&self, what: &str) -> String {
        let cql: String = self.vector.cql.chars().take(1_000).collect();
        format!("{}: {what}\n  {cql}", self.vector.id)
    }
}

/// Returns the ways in which the filter of a query can be given to Recto. `false`: as text. `true`:
/// through the Rust API. Text cannot express an empty list.
fn built(subject: &Subject, question: &Question) -> Vec<bool> {
    let lists_nothing = question.filter_text(&subject.definition).contains("()");
    if lists_nothing {
        vec![true]
    } else {
        vec![false, true]
    }
}
