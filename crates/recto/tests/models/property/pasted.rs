//! Tests that the property tests printed: failures of earlier runs, and the expected output of the
//! printer.

use recto_testkit::generate::{Case, Move, Place};

use super::drawn::Ground;
use super::guarantee::Guarantee;
use crate::common::{Kind, Scope, run};

/// Number of tests in this module, which the suite needs. Increase it for each pasted test.
pub(crate) const TESTS: usize = 3;

/// Asserts that a guarantee of pages holds for a test case.
fn holds(guarantee: Guarantee, ground: Ground, case: &Case) {
    let _scope = Scope::new(&super::TESTS);
    let pages = run(ground.check(guarantee, case)).unwrap_or_else(|failure| panic!("{}", failure.message));
    assert!(pages > 0);
}

#[test]
#[rustfmt::skip]
fn seed_0() {
    let case = Case::declared(r#"
[collection.large]
fields = { q = "text", b = "double" }
key = ["q", "b"]
partition = ["q"]
order = ["b"]
writes = "append"
"#)
        .row(r#"{"q":"a","b":0.0}"#)
        .row(r#"{"q":"a","b":1.0}"#)
        .row(r#"{"q":"a","b":2.0}"#)
        .row(r#"{"q":"a","b":3.0}"#)
        .any_of("q", &["a"])
        .page(Move { size: 3, place: Place::Before, row: 3, ..Move::default() });
    holds(Guarantee::AfterAndBefore, Ground::new(Kind::Embedded), &case);
}

#[test]
#[rustfmt::skip]
fn seed_1() {
    let case = Case::declared(r#"
[collection.all]
fields = { p = "int", q = "text", a = "text", b = "decimal", c = "timestamp", v = "list<int>" }
key = ["p", "q", "a", "b", "c"]
partition = ["p", "q"]
order = ["a", "-b", "c"]
writes = "overwrite"
"#)
        .row("{\"p\":1,\"q\":\"r\",\"a\":\"a\\\"#\\u0000é\",\"b\":\"0.1\",\"c\":\"2024-01-01T00:00:00.000Z\",\"v\":[1,2]}")
        .row(r#"{"p":2,"q":"s","a":"a","b":"-1E+30","c":"1969-12-31T23:59:59.999Z"}"#)
        .any_of("p", &["1", "2", "3"])
        .any_of("q", &["r", "s"])
        .starts_with("a", "a")
        .compare("a", "<", r"b\")
        .tuple(&["a", "b", "c"], ">", &["a", "-5", "1970-01-01T00:00:00.000Z"])
        .compare("v", "=", "[1,2]")
        .sort(&["-p", "a"])
        .allow_filter_scan()
        .built()
        .page(Move { size: 3, place: Place::From, row: 7, backwards: true, by_row: true, both_edges: true, scan_budget: 2, byte_budget: 300, ..Move::default() })
        .from(&["2", "a"])
        .put(r#"{"p":3,"q":"r","a":"ab","b":"2","c":"2024-01-01T00:00:00.000Z"}"#)
        .delete(1);
    holds(Guarantee::EveryRowOnce, Ground::new(Kind::Cassandra), &case);
}

#[test]
#[rustfmt::skip]
fn seed_2() {
    let case = Case::declared(r#"
[collection.names_1]
fields = { team = "int", name = "text" }
key = ["team", "name"]
partition = ["team"]
order = ["-name"]
writes = "append"
"#)
        .collate("name", "sv")
        .row("{\"team\":0,\"name\":\"Åmål\"}")
        .row("{\"team\":0,\"name\":\"Äpfel\"}")
        .compare("team", "=", "0")
        .page(Move { size: 1, ..Move::default() });
    holds(Guarantee::AfterAndBefore, Ground { views: true, ..Ground::new(Kind::Embedded) }, &case);
}
