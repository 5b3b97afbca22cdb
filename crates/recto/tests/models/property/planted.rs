//! Tests of the property tests, on stores with a deliberate defect. The property tests must find
//! the defect, simplify the failed case, and print it as a test that compiles and has the same
//! case.

use std::sync::Arc;

use async_trait::async_trait;
use recto::store::wrapper::{SnapshotWrapper, StoreWrapper};
use recto::store::{ReadOptions, RowsRead, Snapshot, Store, StoreError};
use recto_model::table::ReadDirection;
use recto_model::{RowSet, Slice};
use recto_testkit::generate::{Case, Move, Place};

use super::drawn::{Defect, Ground, message, shrink, test};
use super::guarantee::Guarantee;
use crate::common::{Kind, Scope, run};

/// Number of tests in this module, which the suite needs.
pub(crate) const TESTS: usize = 3;
/// Index of the row that each backward read of a slice loses, the deliberate defect.
const LOST: usize = 2;

/// Store wrapper with a deliberate defect: it loses the third row of each backward read.
pub(crate) struct Planted(Arc<dyn Store>);

struct PlantedSnapshot(Arc<dyn Snapshot>);

impl Planted {
    pub(crate) fn new(inner: Arc<dyn Store>) -> Self {
        Self(inner)
    }
}

fn lose(slice: &Slice, mut read: RowsRead) -> RowsRead {
    if slice.direction == ReadDirection::Backward {
        let mut rows = RowSet::new(slice.table.columns().len());
        let kept = read.rows.iter().enumerate().filter(|(index, _)| *index != LOST);
        kept.for_each(|(_, row)| rows.push_row(row));
        read.rows = rows;
    }
    read
}

#[async_trait]
impl SnapshotWrapper for PlantedSnapshot {
    fn inner(&self) -> &Arc<dyn Snapshot> {
        &self.0
    }

    async fn on_slice(&self, slice: &Slice, options: &ReadOptions) -> Result<RowsRead, StoreError> {
        Ok(lose(slice, self.0.slice(slice, options).await?))
    }
}

impl StoreWrapper for Planted {
    fn inner(&self) -> &Arc<dyn Store> {
        &self.0
    }

    fn on_snapshot(&self, snapshot: Arc<dyn Snapshot>) -> Arc<dyn Snapshot> {
        Arc::new(PlantedSnapshot(snapshot))
    }
}

/// Asserts that `pasted.rs` contains a printed test, so that the printed test is known to compile.
fn assert_is_pasted(printed: &str) {
    let pasted = include_str!("pasted.rs");
    assert!(
        pasted.contains(printed),
        "pasted.rs has another text:\n\n{printed}"
    );
}

/// Returns a test case with more rows, fields, conditions and pages than are needed to find the
/// defect.
fn large() -> Case {
    let mut case = Case::declared(
        r#"
[collection.large]
fields = { v = "text", p = "int", q = "text", a = "bigint", b = "double", c = "blob" }
key = ["p", "q", "a", "b", "c"]
partition = ["p", "q"]
order = ["-a", "b", "-c"]
writes = "append"
"#,
    );
    for number in 0..40 {
        let (p, a, b) = (
            number % 2,
            9_000_000_000 + i64::from(number / 8),
            f64::from(number) / 3.0,
        );
        case = case.row(&format!(
            r#"{{"p": {p}, "q": "quite a long text", "a": {a}, "b": {b}, "c": "", "v": "{number}"}}"#
        ));
    }
    case.any_of("p", &["0", "1"])
        .any_of("q", &["quite a long text", "and another"])
        .compare("a", ">=", "9000000001")
        .sort(&["-a"])
        .page(Move {
            size: 8,
            row: 77,
            both_edges: true,
            ..Move::default()
        })
        .put(r#"{"p": 0, "q": "quite a long text", "a": 9000000003, "b": 1.5, "c": ""}"#)
        .page(Move {
            size: 5,
            place: Place::Before,
            row: 20,
            by_row: true,
            ..Move::default()
        })
        .delete(17)
}

#[test]
fn a_planted_defect_is_found_made_simple_and_printed() {
    let _scope = Scope::new(&super::TESTS);
    run(async {
        let planted = Ground {
            defect: Some(Defect::Reads),
            ..Ground::new(Kind::Embedded)
        };
        let sound = Ground {
            defect: None,
            ..planted
        };
        let guarantee = Guarantee::AfterAndBefore;
        assert!(sound.check(guarantee, &large()).await.is_ok());
        let failure = planted.check(guarantee, &large()).await.unwrap_err();
        let (case, failure) = shrink(planted, guarantee, large(), failure).await;
        assert!(
            case.rows.len() <= 5,
            "{} rows:\n{}",
            case.rows.len(),
            test(planted, guarantee, &case, 0)
        );
        assert_eq!((case.collection.fields.len(), case.moves.len()), (2, 1));
        // Without the deliberate defect, the simplified case must succeed. Otherwise it would show
        // another failure.
        assert!(sound.check(guarantee, &case).await.is_ok());
        let printed = test(planted, guarantee, &case, 0);
        assert!(message(planted, guarantee, 0, &case, &failure).contains(&printed));
        assert_is_pasted(&printed);
    });
}

/// Checks that the property tests find a view that sorts text by its bytes, although the case
/// declares a collation.
#[test]
fn a_collation_that_is_ignored_is_found() {
    let _scope = Scope::new(&super::TESTS);
    run(async {
        let sound = Ground {
            views: true,
            ..Ground::new(Kind::Embedded)
        };
        let planted = Ground {
            defect: Some(Defect::ForgetsCollations),
            ..sound
        };
        let mut case = Case::declared(
            r#"
[collection.names_1]
fields = { team = "int", name = "text", id = "int" }
key = ["team", "name", "id"]
partition = ["team"]
order = ["-name"]
writes = "append"
"#,
        )
        .collate("name", "sv");
        for (id, name) in ["Zorn", "apfel", "Åmål", "Äpfel", "b", "Örebro", "z"]
            .iter()
            .enumerate()
        {
            case = case.row(&format!(r#"{{"team": 1, "name": "{name}", "id": {id}}}"#));
        }
        let case = case.compare("team", "=", "1").page(Move {
            size: 3,
            row: 2,
            ..Move::default()
        });
        let guarantee = Guarantee::AfterAndBefore;
        assert!(sound.check(guarantee, &case).await.is_ok());
        let failure = planted.check(guarantee, &case).await.unwrap_err();
        let (case, _) = shrink(planted, guarantee, case, failure).await;
        assert_eq!((case.rows.len(), case.collations.len()), (2, 1));
        assert!(sound.check(guarantee, &case).await.is_ok());
        assert_is_pasted(&test(planted, guarantee, &case, 2));
    });
}

/// Checks that a printed test contains everything that a test case can have.
#[test]
fn all_of_a_case_is_printed() {
    let _scope = Scope::new(&super::TESTS);
    let case = Case::declared(
        r#"
[collection.all]
fields = { p = "int", q = "text", a = "text", b = "decimal", c = "timestamp", v = "list<int>" }
key = ["p", "q", "a", "b", "c"]
partition = ["p", "q"]
order = ["a", "-b"]
writes = "overwrite"
"#,
    )
    .row(r##"{"p":1,"q":"r","a":"a\"#\u0000\u00e9","b":"0.1","c":"2024-01-01T00:00:00.000Z","v":[1,2]}"##)
    .row(r#"{"p":2,"q":"s","a":"a","b":"-1E+30","c":"1969-12-31T23:59:59.999Z"}"#)
    .any_of("p", &["1", "2", "3"])
    .any_of("q", &["r", "s"])
    .starts_with("a", "a")
    .compare("a", "<", "b\\")
    .tuple(&["a", "b", "c"], ">", &["a", "-5", "1970-01-01T00:00:00.000Z"])
    .compare("v", "=", "[1,2]")
    .sort(&["-p", "a"])
    .allow_filter_scan()
    .built()
    .page(Move {
        size: 3,
        place: Place::From,
        row: 7,
        backwards: true,
        by_row: true,
        both_edges: true,
        scan_budget: 2,
        byte_budget: 300,
        ..Move::default()
    })
    .from(&["2", "a"])
    .put(r#"{"p":3,"q":"r","a":"ab","b":"2","c":"2024-01-01T00:00:00.000Z"}"#)
    .delete(1);
    assert_is_pasted(&test(
        Ground::new(Kind::Cassandra),
        Guarantee::EveryRowOnce,
        &case,
        1,
    ));
}
