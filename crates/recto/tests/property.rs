//! Random collections, rows and questions: every page of the engine is the oracle's page.
//!
//! Each run draws anew. A failure names its seed; `RECTO_TEST_SEED=…` draws it again.
//! `RECTO_TEST_SCALE=20` draws twenty times as much, for a long run: collections on the embedded store;
//! questions on Cassandra, whose every table takes memory of the node that all tests share.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod common;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{SystemTime, UNIX_EPOCH};

use common::subject::rows;
use common::{Fresh, Kind, Scope, Subject, run};
use futures::StreamExt;
use recto::session::ScanRequest;
use recto::{DynamicRecord, Edge, LocalSession, Page, PageQuery, Recto, Session, schema};
use recto_testkit::generate::{self, Data, Rng};
use recto_testkit::oracle::{Question, Row, Sequence};

/// The variable that holds the seed to draw with.
const SEED_VARIABLE: &str = "RECTO_TEST_SEED";
/// The variable that holds by how much to multiply what is drawn.
const SCALE_VARIABLE: &str = "RECTO_TEST_SCALE";
/// The most pages a traversal may take for each row it finds or looks at, before it is taken to
/// stand still.
const MAX_PAGES_PER_ROW: usize = 4;

/// The tests of this binary that have not ended.
static TESTS: AtomicUsize = AtomicUsize::new(4);

/// How much one test draws.
struct Amount {
    collections: usize,
    rows: usize,
    questions: u64,
}

const EMBEDDED: Amount = Amount {
    collections: 60,
    rows: 60,
    questions: 12,
};
const CASSANDRA: Amount = Amount {
    collections: 10,
    rows: 40,
    questions: 10,
};

#[test]
fn embedded_pages_are_the_oracles() {
    let _scope = Scope::new(&TESTS);
    run(pages_are_the_oracles(Kind::Embedded, &EMBEDDED));
}

#[test]
fn cassandra_pages_are_the_oracles() {
    let _scope = Scope::new(&TESTS);
    run(pages_are_the_oracles(Kind::Cassandra, &CASSANDRA));
}

#[test]
fn embedded_writes_between_pages_lose_and_repeat_nothing() {
    let _scope = Scope::new(&TESTS);
    run(writes_between_pages(Kind::Embedded, &EMBEDDED));
}

#[test]
fn cassandra_writes_between_pages_lose_and_repeat_nothing() {
    let _scope = Scope::new(&TESTS);
    run(writes_between_pages(
        Kind::Cassandra,
        &Amount {
            collections: 3,
            ..CASSANDRA
        },
    ));
}

fn from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is a whole number, not {text:?}")),
    )
}

fn scale() -> u64 {
    from_environment(SCALE_VARIABLE).unwrap_or(1)
}

fn questions(kind: Kind, amount: &Amount) -> u64 {
    amount.questions * if kind == Kind::Cassandra { scale() } else { 1 }
}

fn seed() -> u64 {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64;
    from_environment(SEED_VARIABLE).unwrap_or_else(now)
}

/// A store that holds the drawn collections, with the data of each.
async fn drawn(kind: Kind, seed: u64, amount: &Amount) -> (Recto, Vec<(Subject, Data, Rng)>) {
    let collections = amount.collections as u64 * if kind == Kind::Embedded { scale() } else { 1 };
    let mut rngs: Vec<Rng> = (0..collections)
        .map(|index| generate::rng(seed + index))
        .collect();
    let collections: Vec<Arc<schema::Collection>> = rngs
        .iter_mut()
        .enumerate()
        .map(|(index, rng)| Arc::new(generate::collection(rng, &format!("drawn_{index}"))))
        .collect();
    let mut recto = Fresh::new(kind).open().await;
    recto
        .apply(&schema::Schema {
            types: Vec::new(),
            collections: collections.clone(),
        })
        .await
        .unwrap();
    let mut subjects = Vec::new();
    for (collection, mut rng) in collections.iter().zip(rngs) {
        let count = rng.usize(0..=amount.rows);
        let data = generate::data(&mut rng, collection, count);
        let mut subject = Subject::new(&recto, &collection.name);
        subject.put_rows(data.oracle.rows().iter().cloned()).await;
        subjects.push((subject, data, rng));
    }
    (recto, subjects)
}

async fn pages_are_the_oracles(kind: Kind, amount: &Amount) {
    let seed = seed();
    println!("{SEED_VARIABLE}={seed}");
    let mut pages = 0;
    for (subject, data, mut rng) in drawn(kind, seed, amount).await.1 {
        keys_and_scan(&subject, &data, &mut rng, seed).await;
        for _ in 0..questions(kind, amount) {
            let question = generate::question(&mut rng, &data);
            let sequence = subject.oracle.ask(&question);
            let query = subject.query(&question, rng.bool());
            let context = context(seed, &subject, &question);
            let mut check = Check {
                subject: &subject,
                sequence: &sequence,
                query,
                rng: &mut rng,
                context,
                pages: 0,
            };
            check.forwards().await;
            check.backwards().await;
            check.beside_rows().await;
            if !subject.oracle.leaves_no_value(&question) {
                check.pages_from_values(&data).await;
            }
            check.on_a_budget().await;
            pages += check.pages;
        }
    }
    println!("{pages} pages on {kind:?}");
}

fn context(seed: u64, subject: &Subject, question: &Question) -> String {
    format!(
        "{SEED_VARIABLE}={seed}, {}\n  filter: {}\n  sort: {}\n  allow_residual: {}",
        subject.definition.arrangement(),
        question.filter_text(&subject.definition),
        question.sort_text(&subject.definition),
        question.allow_residual
    )
}

/// One question put to the engine, page by page.
struct Check<'a> {
    subject: &'a Subject,
    sequence: &'a Sequence,
    query: PageQuery<DynamicRecord>,
    rng: &'a mut Rng,
    context: String,
    pages: usize,
}

fn edge(more: bool) -> Edge {
    if more { Edge::Yes } else { Edge::No }
}

impl Check<'_> {
    fn size(&mut self) -> usize {
        [1, 1, 2, 3, 5, 8, 100][self.rng.usize(0..7)]
    }

    async fn page(&mut self, query: PageQuery<DynamicRecord>) -> Page<DynamicRecord> {
        self.pages += 1;
        query
            .await
            .unwrap_or_else(|error| panic!("{}\n  {error}\n  hint: {:?}", self.context, error.hint()))
    }

    fn assert_rows(&self, page: &Page<DynamicRecord>, expected: &[Row], what: &str) {
        self.subject
            .assert_rows(&rows(page), expected, &format!("{}\n  {what}", self.context));
    }

    fn assert_edges(&self, page: &Page<DynamicRecord>, before: Edge, after: Edge, what: &str) {
        assert_eq!(
            (page.has_previous(), page.has_next()),
            (before, after),
            "{}\n  {what}",
            self.context
        );
        assert_eq!(
            page.previous_cursor().is_none(),
            before == Edge::No,
            "{}\n  {what}",
            self.context
        );
        assert_eq!(
            page.next_cursor().is_none(),
            after == Edge::No,
            "{}\n  {what}",
            self.context
        );
    }

    /// From the first page to the last, by tokens and by the last row's cursor, sizes changing.
    async fn forwards(&mut self) {
        let all = self.sequence.rows();
        let mut seen = 0;
        let mut query = self.query.clone();
        loop {
            let (size, both) = (self.size(), self.rng.bool());
            query = query.page_size(size as u32);
            let page = self
                .page(if both {
                    query.clone().both_edges()
                } else {
                    query.clone()
                })
                .await;
            let end = (seen + size).min(all.len());
            let what = format!("forwards, {size} rows after {seen}");
            self.assert_rows(&page, &all[seen..end], &what);
            let before = if seen == 0 {
                Edge::No
            } else if both {
                Edge::Yes
            } else {
                Edge::Unknown
            };
            self.assert_edges(&page, before, edge(end < all.len()), &what);
            seen = end;
            let Some(next) = page.next_cursor() else { break };
            query = self.query.clone();
            query = if self.rng.bool() {
                query.page_token(next)
            } else {
                query.after(page.cursor(page.len() - 1))
            };
        }
        assert_eq!(seen, all.len());
    }

    /// From the last page to the first.
    async fn backwards(&mut self) {
        let all = self.sequence.rows();
        let mut left = all.len();
        let mut size = self.size();
        let mut query = self.query.clone().last(size as u32);
        loop {
            let both = self.rng.bool();
            let page = self
                .page(if both {
                    query.clone().both_edges()
                } else {
                    query.clone()
                })
                .await;
            let start = left.saturating_sub(size);
            let what = format!("backwards, {size} rows before {left} of {}", all.len());
            self.assert_rows(&page, &all[start..left], &what);
            let after = if left == all.len() {
                Edge::No
            } else if both {
                Edge::Yes
            } else {
                Edge::Unknown
            };
            self.assert_edges(&page, edge(start > 0), after, &what);
            left = start;
            let Some(previous) = page.previous_cursor() else {
                break;
            };
            size = self.size();
            query = self.query.clone().page_size(size as u32);
            query = if self.rng.bool() {
                query.page_token(previous)
            } else {
                query.before(page.cursor(0))
            };
        }
        assert_eq!(left, 0);
    }

    /// After, before and around the cursors of a few rows.
    async fn beside_rows(&mut self) {
        let all = self.page(self.query.clone().page_size(1_000)).await;
        if all.is_empty() {
            return;
        }
        for _ in 0..3 {
            let index = self.rng.usize(0..all.len());
            let (row, cursor, size) = (&self.sequence.rows()[index], all.cursor(index), self.size());
            let query = self.query.clone().page_size(size as u32).both_edges();
            let cuts = [
                (
                    "after",
                    query.clone().after(cursor.clone()),
                    self.sequence.after(row, size),
                ),
                (
                    "before",
                    query.clone().before(cursor.clone()),
                    self.sequence.before(row, size),
                ),
                ("around", query.around(cursor), self.sequence.around(row, size)),
            ];
            for (name, query, cut) in cuts {
                let what = format!("{size} rows {name} row {index}");
                let page = self.page(query).await;
                self.assert_rows(&page, cut.rows, &what);
                self.assert_edges(&page, edge(cut.more_before), edge(cut.more_after), &what);
            }
        }
    }

    /// From random order values on, and a page back from there.
    async fn pages_from_values(&mut self, data: &Data) {
        for _ in 0..3 {
            let values = generate::from_values(self.rng, data, self.sequence);
            let size = self.size();
            let cut = self.sequence.from(&values, size);
            let what = format!("{size} rows from {values:?}");
            let query = self.query.clone().page_size(size as u32).from(values);
            let page = self.page(query.both_edges()).await;
            self.assert_rows(&page, cut.rows, &what);
            self.assert_edges(&page, edge(cut.more_before), edge(cut.more_after), &what);
            let Some(previous) = page.previous_cursor() else {
                continue;
            };
            let place = self.sequence.rows().len() - cut.rows.len() - self.after(cut.rows, cut.more_after);
            let back = self
                .page(self.query.clone().page_size(size as u32).page_token(previous))
                .await;
            let expected = &self.sequence.rows()[place.saturating_sub(size)..place];
            self.assert_rows(&back, expected, &format!("{what}, and back"));
        }
    }

    /// How many rows of the sequence follow a page's.
    fn after(&self, page: &[Row], more_after: bool) -> usize {
        if let Some(last) = page.last() {
            return self.sequence.after(last, usize::MAX / 2).rows.len();
        }
        assert!(!more_after, "{}", self.context);
        0
    }

    /// Forwards and backwards while a page may look at a few rows or hold a few bytes only.
    async fn on_a_budget(&mut self) {
        let all = self.sequence.rows();
        let most = (self.subject.oracle.rows().len() + 2) * MAX_PAGES_PER_ROW;
        for forwards in [true, false] {
            let mut found: Vec<Row> = Vec::new();
            let size = self.size() as u32;
            let mut query = self.query.clone();
            query = if forwards {
                query.first(size)
            } else {
                query.last(size)
            };
            for pages in 0.. {
                assert!(pages <= most, "{}\n  the traversal stands still", self.context);
                let budgets = (self.rng.u64(1..6), [1, 300, 1 << 20][self.rng.usize(0..3)]);
                let query_on_budget = query.clone().scan_budget(budgets.0).byte_budget(budgets.1);
                let page = self.page(query_on_budget).await;
                let next = if forwards {
                    found.extend(rows(&page));
                    page.next_cursor()
                } else {
                    found.splice(0..0, rows(&page));
                    page.previous_cursor()
                };
                let Some(next) = next else { break };
                query = self.query.clone().page_size(size).page_token(next);
            }
            let context = format!("{}\n  on a budget, forwards: {forwards}", self.context);
            self.subject.assert_rows(&found, all, &context);
        }
        self.around_on_a_budget().await;
    }

    /// The page around a row on a budget, and on from both its ends: every row once.
    async fn around_on_a_budget(&mut self) {
        let all = self.page(self.query.clone().page_size(1_000)).await;
        if all.is_empty() {
            return;
        }
        let cursor = all.cursor(self.rng.usize(0..all.len()));
        let (size, budget) = (self.size() as u32, [1, 300, 1 << 20][self.rng.usize(0..3)]);
        let around = self.query.clone().page_size(size).around(cursor);
        let around = around.scan_budget(self.rng.u64(1..6)).byte_budget(budget);
        let middle = self.page(around).await;
        let mut found = rows(&middle);
        let mut next = middle.next_cursor();
        while let Some(cursor) = next {
            let page = self
                .page(self.query.clone().page_size(size).page_token(cursor))
                .await;
            found.extend(rows(&page));
            next = page.next_cursor();
        }
        let mut previous = middle.previous_cursor();
        while let Some(cursor) = previous {
            let page = self
                .page(self.query.clone().page_size(size).page_token(cursor))
                .await;
            found.splice(0..0, rows(&page));
            previous = page.previous_cursor();
        }
        let context = format!(
            "{}\n  {size} rows around a row on a budget of {budget} bytes",
            self.context
        );
        self.subject.assert_rows(&found, self.sequence.rows(), &context);
    }
}

/// Reads by key and a scan of everything find what the oracle has.
async fn keys_and_scan(subject: &Subject, data: &Data, rng: &mut Rng, seed: u64) {
    let context = format!("{SEED_VARIABLE}={seed}, {}", subject.definition.arrangement());
    for _ in 0..5 {
        let row = data.row(rng);
        let found = subject
            .collection
            .get(subject.key(&row).as_slice())
            .await
            .unwrap();
        let found: Vec<Row> = found.iter().map(|record| record.values().to_vec()).collect();
        let expected: Vec<Row> = subject.oracle.get(&row).cloned().into_iter().collect();
        subject.assert_rows(&found, &expected, &format!("{context}\n  by key"));
    }
    let session = LocalSession::new(subject.recto.clone());
    let mut request = ScanRequest {
        fields: Vec::new(),
        parallel: rng.u32(0..6),
        resume: None,
    };
    let mut found = 0;
    loop {
        // Each step is one of a scan of its own, which resumes the one before.
        let mut steps = session.scan(&subject.definition.name, &request);
        let Some(step) = steps.next().await else { break };
        let step = step.unwrap();
        for record in &step.records {
            let row = subject.row(&serde_json::Value::Object(record.clone()));
            let expected = subject
                .oracle
                .get(&row)
                .unwrap_or_else(|| panic!("{context}\n  scanned {record:?}"));
            subject.assert_rows(
                &[row],
                std::slice::from_ref(expected),
                &format!("{context}\n  scanned"),
            );
            found += 1;
        }
        request.resume = step.resume;
        if request.resume.is_none() {
            break;
        }
    }
    assert_eq!(found, subject.oracle.rows().len(), "{context}\n  scanned");
}

/// Rows come and go between pages. What was there all the time is returned exactly once, in order;
/// nothing is returned twice.
async fn writes_between_pages(kind: Kind, amount: &Amount) {
    let seed = seed();
    println!("{SEED_VARIABLE}={seed}");
    for (mut subject, data, mut rng) in drawn(kind, seed, amount).await.1 {
        for _ in 0..questions(kind, amount) / 2 {
            let question = generate::question(&mut rng, &data);
            let context = context(seed, &subject, &question);
            let query = subject.query(&question, rng.bool());
            let mut stayed = subject.oracle.ask(&question).rows().to_vec();
            let forwards = rng.bool();
            let mut found: Vec<Row> = Vec::new();
            let mut page_query = if forwards {
                query.clone().first(2)
            } else {
                query.clone().last(2)
            };
            loop {
                let page = page_query
                    .await
                    .unwrap_or_else(|error| panic!("{context}\n  {error}"));
                let next = if forwards {
                    page.next_cursor()
                } else {
                    page.previous_cursor()
                };
                let place = if forwards { found.len() } else { 0 };
                found.splice(place..place, rows(&page));
                let Some(next) = next else { break };
                write_something(&mut subject, &data, &mut rng, &mut stayed).await;
                page_query = query.clone().page_size(rng.u32(1..5)).page_token(next);
            }
            let sequence = subject.oracle.ask(&question);
            let in_order = found
                .windows(2)
                .all(|pair| sequence.compare(&pair[0], &pair[1]).is_lt());
            assert!(
                in_order,
                "{context}\n  out of order or twice:\n{}",
                subject.show(&found)
            );
            for row in &stayed {
                let is_found = found.iter().any(|other| subject.oracle.same_row(row, other));
                assert!(is_found, "{context}\n  lost: {}", subject.oracle.show(row));
            }
        }
    }
}

/// Deletes a row or two, and stores one or two under keys that are free.
async fn write_something(subject: &mut Subject, data: &Data, rng: &mut Rng, stayed: &mut Vec<Row>) {
    for _ in 0..rng.usize(0..3) {
        let there = subject.oracle.rows();
        if there.is_empty() {
            break;
        }
        let row = there[rng.usize(0..there.len())].clone();
        stayed.retain(|other| !subject.oracle.same_row(other, &row));
        subject.delete(&row).await;
    }
    for _ in 0..rng.usize(0..3) {
        let row = data.row(rng);
        if subject.oracle.get(&row).is_none() {
            subject.put_rows([row]).await;
        }
    }
}
