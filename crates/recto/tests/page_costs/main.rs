//! Tests of the cost of a page, in counts that do not depend on the machine: rows, calls to the
//! store, statements, round trips, and allocations. The tests read pages of every kind of query
//! plan, at the beginning and after 1,000 rows.
//!
//! Rows and calls must equal the table of budgets exactly. Allocations have upper limits slightly
//! above the measured numbers. If a number changes for a good reason, copy the line that the failed
//! test prints into the table.
#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;

mod budgets;
mod counting;
mod data;
mod shapes;

use std::sync::Arc;

use recto::{LocalSession, OpenOptions, Recto};

use budgets::{BUDGETS, Budget};
use common::{Fresh, Kind, Scope, Suite, run};
use counting::{Calls, Counting};
use shapes::{PAGE_ROWS, Place, ReadPage, SHAPES, Shape};

/// Test suite of the tests of this program. Its stores are removed after the last test.
static TESTS: Suite = Suite::new(module_path!(), 3);
/// Number of pages that are read before the measurement, to fill caches.
const WARM_UP_PAGES: u32 = 3;
/// Number of measured pages. The cheapest page is the result, because a cache may grow during the
/// others.
const MEASURED_PAGES: u32 = 5;

/// Store with the data, and the same store behind a wrapper that counts calls.
struct Stores {
    plain: Recto,
    counted: Recto,
    calls: Arc<Calls>,
}

impl Stores {
    fn new(kind: Kind) -> Self {
        run(async {
            let plain = Fresh::new(kind).open().await;
            data::store(&plain).await;
            let calls = Arc::new(Calls::default());
            let counting = Counting {
                inner: Arc::clone(plain.store()),
                calls: Arc::clone(&calls),
            };
            let counted = Recto::with_store(Arc::new(counting), OpenOptions::new())
                .await
                .unwrap();
            Self {
                plain,
                counted,
                calls,
            }
        })
    }

    /// Returns the number of snapshots, of slices (ranges of rows) and of other calls that one page
    /// needs.
    fn calls(&self, shape: &Shape, place: Place) -> (u32, u32, u32) {
        let reader = shape.reader(&self.counted, place);
        self.calls.take();
        reader.read();
        self.calls.take()
    }
}

/// Returns the budgets for the query plan of `shape`, one for each position of the page.
fn budgets_of(shape: &Shape) -> impl Iterator<Item = &'static Budget> {
    BUDGETS.iter().filter(|budget| budget.shape == shape.name)
}

/// Returns the number and the total bytes of the allocations of one page.
fn allocated(reader: &dyn ReadPage) -> (u64, u64) {
    for _ in 0..WARM_UP_PAGES {
        reader.read();
    }
    let measured = (0..MEASURED_PAGES).map(|_| {
        let counted = allocation_counter::measure(|| {
            reader.read();
        });
        (counted.count_total, counted.bytes_total)
    });
    measured.min().unwrap()
}

/// Compares measured costs with a budget. Returns the measured costs as a line for the table, with
/// the values that differ. Returns `None` if all values agree.
fn compare(found: &Budget, budget: &Budget, names: &[(&str, u64, u64)]) -> Option<String> {
    let wrong: Vec<String> = names
        .iter()
        .filter(|(_, found, budget)| found != budget)
        .map(|(name, found, budget)| format!("{name} {found}, not {budget}"))
        .collect();
    if wrong.is_empty() {
        return None;
    }
    Some(format!(
        "{}, {:?}: {}\n    {found}",
        budget.shape,
        budget.place,
        wrong.join("; ")
    ))
}

fn fail_on(problems: &[String]) {
    assert!(
        problems.is_empty(),
        "pages cost other than they should; if that is as it must be, take the lines over into budgets.rs:\n{}",
        problems.join("\n")
    );
}

#[test]
fn every_shape_is_planned_as_named_and_has_budgets() {
    let _scope = Scope::new(&TESTS);
    let stores = Stores::new(Kind::Embedded);
    let session = LocalSession::new(stores.plain.clone());
    for shape in &SHAPES {
        assert_eq!(run(shape.planned(&session)), shape.plan, "{}", shape.name);
        for place in [Place::First, Place::After, Place::Before] {
            assert!(
                budgets_of(shape).any(|budget| budget.place == place),
                "{} has no budget for {place:?}",
                shape.name
            );
        }
    }
    for budget in BUDGETS {
        assert!(SHAPES.iter().any(|shape| shape.name == budget.shape), "{budget}");
    }
}

#[test]
fn a_page_of_the_embedded_store_costs_no_more_than_it_should() {
    let _scope = Scope::new(&TESTS);
    let stores = Stores::new(Kind::Embedded);
    let mut problems = Vec::new();
    for shape in &SHAPES {
        for budget in budgets_of(shape) {
            let (snapshots, slices, others) = stores.calls(shape, budget.place);
            let reader = shape.reader(&stores.plain, budget.place);
            let outcome = reader.read();
            let (allocations, bytes) = allocated(reader.as_ref());
            assert_eq!(outcome.rows, PAGE_ROWS as usize, "{budget}");
            let found = Budget {
                rows_read: outcome.cost.rows_read,
                slices,
                allocations: budgets::with_slack(allocations),
                bytes: budgets::with_slack(bytes),
                ..*budget
            };
            problems.extend(compare(
                &found,
                budget,
                &[
                    ("rows read", found.rows_read, budget.rows_read),
                    ("slices read", slices.into(), budget.slices.into()),
                    ("snapshots taken", snapshots.into(), 1),
                    ("other calls", others.into(), 0),
                    ("round trips", outcome.cost.round_trips.into(), 0),
                    (
                        "allocations",
                        allocations.max(budget.allocations),
                        budget.allocations,
                    ),
                    ("bytes allocated", bytes.max(budget.bytes), budget.bytes),
                ],
            ));
        }
    }
    fail_on(&problems);
}

#[test]
fn reads_cassandra_pages_with_the_expected_requests() {
    let _scope = Scope::new(&TESTS);
    let stores = Stores::new(Kind::Cassandra);
    let mut problems = Vec::new();
    for shape in &SHAPES {
        for budget in budgets_of(shape) {
            let (_, slices, others) = stores.calls(shape, budget.place);
            let outcome = shape.reader(&stores.plain, budget.place).read();
            assert_eq!(outcome.rows, PAGE_ROWS as usize, "{budget}");
            let cost = outcome.cost;
            let found = Budget {
                remote: budgets::Remote {
                    rows_read: cost.rows_read,
                    slices,
                    statements: cost.statements,
                    round_trips: cost.round_trips,
                },
                ..*budget
            };
            let remote = &budget.remote;
            problems.extend(compare(
                &found,
                budget,
                &[
                    ("rows read", cost.rows_read, remote.rows_read),
                    ("slices read", slices.into(), remote.slices.into()),
                    ("other calls", others.into(), 0),
                    ("statements", cost.statements.into(), remote.statements.into()),
                    ("round trips", cost.round_trips.into(), remote.round_trips.into()),
                ],
            ));
        }
    }
    fail_on(&problems);
}
