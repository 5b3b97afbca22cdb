//! Checks every type on Cassandra and on the embedded store: both return extreme values of order
//! types in the same order, and every stored value unchanged.
#![allow(clippy::cast_possible_wrap)]

use std::fmt::Write as _;

use crate::common::subject::rows;
use crate::common::{Kind, Scope, Subject, Suite, run};
use recto::filter::{Filter, field};
use recto::{DynamicRecord, PageQuery, Recto, Type, Value};
use recto_model::extremes;
use recto_testkit::oracle::Row;
use serde_json::{Value as Json, json};

/// Suite of the tests in this module, which share stores.
static TESTS: Suite = Suite::new(module_path!(), 4);

/// Number of rows of a page. It is small, so that most types need several pages.
const PAGE_ROWS: u32 = 7;

/// Returns the types without an order, in the notation of the schema language, each with some
/// values as JSON.
fn unordered() -> Vec<(&'static str, Vec<Json>)> {
    vec![
        (
            "duration",
            vec![json!("P1Y2M3DT4H5M6.000000007S"), json!("-PT1S"), json!("PT0S")],
        ),
        ("list<text>", vec![json!([]), json!(["b", "a", "b", ""])]),
        ("list<list<int>>", vec![json!([[], [1, -1], []])]),
        (
            "set<timeuuid>",
            vec![json!([
                "00000000-0000-1000-8000-000000000000",
                "00000000-0000-1000-8080-808080808080"
            ])],
        ),
        (
            "set<uuid>",
            vec![json!([
                "00000000-0000-4000-8000-000000000000",
                "ffffffff-0000-1000-8000-000000000000"
            ])],
        ),
        ("set<inet>", vec![json!(["102:304::", "1.2.3.4"])]),
        (
            "map<text, decimal>",
            vec![json!([["a", "0.10"], ["b", "1E+400"]]), json!([])],
        ),
        (
            "map<double, list<int>>",
            vec![json!([["NaN", [1]], [-0.0, []], [0.0, [2]]])],
        ),
        (
            "tuple<int, text>",
            vec![json!([1, "a"]), json!([null, "b"]), json!([2, null])],
        ),
        (
            "address",
            vec![
                json!({"street": "High", "number": 7}),
                json!({"street": null, "number": -1}),
            ],
        ),
        ("list<address>", vec![json!([{"street": "a", "number": null}])]),
        ("vector<float, 3>", vec![json!([1.5, -0.0, 1e10])]),
        ("vector<text, 2>", vec![json!(["", "日本"])]),
    ]
}

fn schema() -> String {
    let mut order_fields = String::new();
    for (index, ty) in Type::ORDERABLE.iter().enumerate() {
        write!(order_fields, "c{index} = \"{ty}\", ").unwrap();
    }
    let names = |prefix: &str| {
        let names = (0..Type::ORDERABLE.len()).map(|index| format!("\"{prefix}c{index}\""));
        names.collect::<Vec<_>>().join(", ")
    };
    let mut stored = order_fields.clone();
    for (index, (ty, _)) in unordered().iter().enumerate() {
        write!(stored, "u{index} = \"{ty}\", ").unwrap();
    }
    let (columns, falling) = (names(""), names("-"));
    format!(
        r#"
[type.address]
fields = {{ street = "text", number = "int" }}

[collection.ascending]
fields = {{ {order_fields} group = "int" }}
key = ["group", {columns}]
partition = ["group"]
order = [{columns}]
writes = "append"

[collection.descending]
fields = {{ {order_fields} group = "int" }}
key = ["group", {columns}]
partition = ["group"]
order = [{falling}]
writes = "append"

[collection.partitions]
fields = {{ {order_fields} group = "int" }}
key = [{columns}]
writes = "overwrite"

[collection.stored]
fields = {{ {stored} id = "int" }}
key = ["id"]
writes = "overwrite"
"#
    )
}

async fn both() -> [Recto; 2] {
    let schema = schema();
    [
        Box::pin(TESTS.shared(Kind::Embedded, &schema)).await,
        Box::pin(TESTS.shared(Kind::Cassandra, &schema)).await,
    ]
}

/// Returns one ordinary value of each order type. A column contains it while the test varies
/// another column.
fn plain() -> Vec<Value> {
    let middle = |ty: &Type| {
        let values = extremes::values(ty);
        values[values.len() / 2].clone()
    };
    Type::ORDERABLE.iter().map(middle).collect()
}

/// Returns rows whose column with the index `varied` has the extreme values of its type, ascending.
/// The other columns have ordinary values.
fn group(varied: usize) -> Vec<Row> {
    let row = |value: Value| {
        let mut row: Row = plain().into_iter().map(Some).collect();
        row[varied] = Some(value);
        row.push(Some(Value::Int(varied as i32)));
        row
    };
    extremes::values(&Type::ORDERABLE[varied])
        .into_iter()
        .map(row)
        .collect()
}

async fn all(query: &PageQuery<DynamicRecord>) -> Vec<Row> {
    let mut found = Vec::new();
    let mut next = query.clone().first(PAGE_ROWS);
    loop {
        let page = next.await.unwrap();
        found.extend(rows(&page));
        let Some(cursor) = page.next_cursor() else {
            return found;
        };
        next = query.clone().first(PAGE_ROWS).after(cursor);
    }
}

async fn loaded(recto: &Recto, name: &str) -> Subject {
    let mut subject = Subject::new(recto, name);
    for varied in 0..Type::ORDERABLE.len() {
        subject.put_rows(group(varied)).await;
    }
    subject
}

#[test]
fn order_types_sort_alike_on_both_stores() {
    let _scope = Scope::new(&TESTS);
    run(async {
        for name in ["ascending", "descending"] {
            let [embedded, cassandra] = Box::pin(both()).await;
            let subjects = [loaded(&embedded, name).await, loaded(&cassandra, name).await];
            for (index, ty) in Type::ORDERABLE.iter().enumerate() {
                for sort in ["c0", "c0 desc"] {
                    let mut found = Vec::new();
                    for subject in &subjects {
                        found.push(all(&subject.text(&format!("group = {index}"), sort)).await);
                    }
                    let context = format!("{name}, {ty}, sorted by {sort}");
                    subjects[0].assert_rows(
                        &found[0],
                        &found[1],
                        &format!("{context}: embedded and Cassandra"),
                    );
                    let mut expected = group(index);
                    if sort == "c0 desc" {
                        expected.reverse();
                    }
                    subjects[0].assert_rows(&found[0], &expected, &context);
                }
            }
        }
    });
}

/// Checks that ranges have the same rows on both stores. Each extreme value of each type is used as
/// the bound of a range, with the columns before it fixed.
#[test]
fn order_types_are_bounded_alike_on_both_stores() {
    let _scope = Scope::new(&TESTS);
    run(async {
        let fixed = plain();
        for recto in Box::pin(both()).await {
            for name in ["ascending", "descending"] {
                let subject = loaded(&recto, name).await;
                for (index, ty) in Type::ORDERABLE.iter().enumerate() {
                    let pinned =
                        (0..index).fold(field("group").equal_to(index as i32), |filter: Filter, column| {
                            filter.and(field(format!("c{column}")).equal_to(fixed[column].clone()))
                        });
                    let values = extremes::values(ty);
                    for (place, value) in values.iter().enumerate() {
                        let column = field(format!("c{index}"));
                        let bounds = [
                            (column.clone().less_than(value.clone()), place),
                            (column.clone().at_least(value.clone()), values.len() - place),
                            (column.equal_to(value.clone()), 1),
                        ];
                        for (bound, expected) in bounds {
                            let query = subject.collection.query().matching(pinned.clone().and(bound));
                            let count = query.page_size(1_000).await.unwrap().len();
                            assert_eq!(count, expected, "{name}, {ty}, value {place}: {value:?}");
                        }
                    }
                }
            }
        }
    });
}

#[test]
fn order_types_are_partition_keys_on_both_stores() {
    let _scope = Scope::new(&TESTS);
    run(async {
        for recto in Box::pin(both()).await {
            let subject = loaded(&recto, "partitions").await;
            for row in subject.oracle.rows() {
                let key = subject.key(row);
                let found = subject.collection.get(key.as_slice()).await.unwrap();
                let found = found.unwrap_or_else(|| panic!("{} is not found", subject.oracle.show(row)));
                subject.assert_rows(
                    &[found.values().to_vec()],
                    std::slice::from_ref(row),
                    "by its key",
                );
            }
        }
    });
}

#[test]
fn stored_values_come_back_as_they_went_in() {
    let _scope = Scope::new(&TESTS);
    run(async {
        let [embedded, cassandra] = Box::pin(both()).await;
        let mut subjects = [
            Subject::new(&embedded, "stored"),
            Subject::new(&cassandra, "stored"),
        ];
        let columns: Vec<Vec<Value>> = Type::ORDERABLE.iter().map(extremes::values).collect();
        let unordered = unordered();
        let count = columns.iter().map(Vec::len).max().unwrap();
        for subject in &mut subjects {
            // Each row has the next value of each type, or null if the type has no more values.
            let mut stored = Vec::new();
            for id in 0..count {
                let mut json = json!({ "id": id });
                for (index, (_, values)) in unordered.iter().enumerate() {
                    if let Some(value) = values.get(id) {
                        json[format!("u{index}")] = value.clone();
                    }
                }
                let mut row = subject.row(&json);
                for (index, values) in columns.iter().enumerate() {
                    row[index] = values.get(id).cloned();
                }
                stored.push(row);
            }
            subject.put_rows(stored).await;
        }
        for id in 0..count as i32 {
            let mut found = Vec::new();
            for subject in &subjects {
                found.push(
                    subject
                        .collection
                        .get((id,))
                        .await
                        .unwrap()
                        .unwrap()
                        .values()
                        .to_vec(),
                );
            }
            let expected = subjects[0]
                .oracle
                .rows()
                .iter()
                .find(|row| row.last() == found[0].last())
                .unwrap();
            for (row, store) in found.iter().zip(["embedded", "Cassandra"]) {
                subjects[0].assert_rows(std::slice::from_ref(row), std::slice::from_ref(expected), store);
            }
        }
    });
}
