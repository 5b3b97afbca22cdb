//! Tests of the oracle (reference implementation): its sort order equals that of a real Cassandra,
//! and its pages equal hand-made pages.

use std::collections::BTreeMap;
use std::sync::Arc;

use recto_model::golden::bytes_of_hex;
use recto_model::schema::{Collection, Schema};
use recto_model::table::Direction;
use recto_model::{Type, Value, cell};
use recto_testkit::generate;
use recto_testkit::oracle::order::compare;
use recto_testkit::oracle::{Comparison, Condition, Oracle, Question, Row};

const VECTORS: &str = include_str!("../../vectors/order-cassandra-5.0.txt");

/// Returns the recorded values of each type, in the order in which a real Cassandra returned them.
fn recorded() -> BTreeMap<String, Vec<Value>> {
    let mut recorded: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for line in VECTORS.lines().filter(|line| !line.starts_with('#')) {
        let (name, digits) = line.split_once(' ').unwrap();
        let ty = Type::ORDERABLE
            .into_iter()
            .find(|ty| ty.to_string() == name)
            .unwrap();
        let bytes = bytes_of_hex(digits);
        recorded
            .entry(name.to_owned())
            .or_default()
            .push(cell::decode(&ty, &bytes).unwrap());
    }
    recorded
}

#[test]
fn the_oracle_orders_every_type_as_cassandra_does() {
    let recorded = recorded();
    assert_eq!(recorded.len(), Type::ORDERABLE.len());
    for (name, values) in recorded {
        assert!(values.len() >= 2, "{name}");
        for (left_index, left) in values.iter().enumerate() {
            for (right_index, right) in values.iter().enumerate() {
                assert_eq!(
                    compare(left, right),
                    left_index.cmp(&right_index),
                    "{name}: {left:?} and {right:?}"
                );
            }
        }
    }
}

fn letters() -> Oracle {
    let schema = Schema::parse(
        r#"
        [collection.letters]
        fields = { p = "int", a = "int", b = "text", v = "text" }
        key = ["p", "a", "b"]
        partition = ["p"]
        order = ["-a", "b"]
        writes = "append"
        "#,
    )
    .unwrap();
    let mut oracle = Oracle::new(Arc::clone(&schema.collections[0]));
    for p in 0..2 {
        for a in 0..3 {
            for b in ["x", "y"] {
                oracle.put(vec![
                    Some(Value::Int(p)),
                    Some(Value::Int(a)),
                    Some(Value::Text(b.into())),
                    None,
                ]);
            }
        }
    }
    oracle
}

fn names<'a>(rows: impl IntoIterator<Item = &'a Row>) -> String {
    let name = |row: &Row| match (&row[0], &row[1], &row[2]) {
        (Some(Value::Int(p)), Some(Value::Int(a)), Some(Value::Text(b))) => format!("{p}{a}{b}"),
        _ => unreachable!("the rows of this test have a key"),
    };
    rows.into_iter().map(name).collect::<Vec<_>>().join(" ")
}

fn pinned(p: i32) -> Condition {
    Condition::Compare {
        field: 0,
        comparison: Comparison::Equal,
        value: Value::Int(p),
    }
}

#[test]
fn orders_by_the_sort_order_without_a_sort() {
    let question = Question {
        conditions: vec![pinned(0)],
        ..Question::default()
    };
    assert_eq!(names(letters().ask(&question).rows()), "02x 02y 01x 01y 00x 00y");
}

#[test]
fn completes_and_reverses_partial_sorts() {
    let both = Condition::AnyOf {
        field: 0,
        values: vec![Value::Int(1), Value::Int(0), Value::Int(1)],
    };
    let sort = vec![(1, Direction::Ascending)];
    let question = Question {
        conditions: vec![both],
        sort,
        allow_filter_scan: false,
    };
    let sequence = letters().ask(&question);
    assert_eq!(
        names(sequence.rows()),
        "10y 00y 10x 00x 11y 01y 11x 01x 12y 02y 12x 02x"
    );
    let order: Vec<usize> = sequence.order().iter().map(|(field, _)| *field).collect();
    assert_eq!(order, [1, 2, 0]);
}

#[test]
fn pages_are_cut_at_rows_and_beside_rows_that_are_gone() {
    let oracle = letters();
    let sequence = oracle.ask(&Question {
        conditions: vec![pinned(0)],
        ..Question::default()
    });
    let row = |a: i32, b: &str| {
        vec![
            Some(Value::Int(0)),
            Some(Value::Int(a)),
            Some(Value::Text(b.into())),
            None,
        ]
    };
    assert_eq!(names(sequence.first(2).rows), "02x 02y");
    assert_eq!(names(sequence.last(2).rows), "00x 00y");
    assert_eq!(names(sequence.after(&row(1, "x"), 2).rows), "01y 00x");
    assert_eq!(names(sequence.before(&row(1, "x"), 5).rows), "02x 02y");
    assert_eq!(names(sequence.after(&row(1, "xx"), 1).rows), "01y");
    assert_eq!(names(sequence.around(&row(1, "x"), 3).rows), "02y 01x 01y");
    assert_eq!(names(sequence.around(&row(0, "y"), 4).rows), "01x 01y 00x 00y");
    assert_eq!(names(sequence.around(&row(9, "y"), 4).rows), "02x 02y 01x 01y");
    assert_eq!(names(sequence.from(&[Value::Int(1)], 2).rows), "01x 01y");
    assert_eq!(
        names(sequence.from(&[Value::Int(1), Value::Text("xx".into())], 2).rows),
        "01y 00x"
    );
    let cut = sequence.around(&row(1, "y"), 2);
    assert!(cut.more_before && cut.more_after);
}

#[test]
fn a_tuple_compares_by_value_whatever_the_directions() {
    let values = vec![Value::Int(1), Value::Text("x".into())];
    let tuple = Condition::Tuple {
        fields: vec![1, 2],
        comparison: Comparison::Greater,
        values,
    };
    let question = Question {
        conditions: vec![pinned(0), tuple],
        ..Question::default()
    };
    assert_eq!(names(letters().ask(&question).rows()), "02x 02y 01y");
}

#[test]
fn draws_keep_the_rules_and_repeat_with_their_seed() {
    let draw = |seed: u64| -> (Collection, Vec<Row>, Vec<String>) {
        let mut rng = generate::rng(seed);
        let collection = Arc::new(generate::collection(&mut rng, "drawn"));
        let data = generate::data(&mut rng, &Oracle::new(Arc::clone(&collection)), 30);
        let questions = (0..10).map(|_| {
            let question = generate::question(&mut rng, &data);
            format!(
                "{} / {}",
                question.filter_text(&collection),
                question.sort_text(&collection)
            )
        });
        let questions = questions.collect();
        (
            Arc::unwrap_or_clone(collection),
            data.oracle.rows().to_vec(),
            questions,
        )
    };
    let mut non_empty = 0;
    for seed in 0..100 {
        let (collection, rows, questions) = draw(seed);
        let again = draw(seed);
        assert_eq!(collection, again.0);
        assert_eq!(
            format!("{rows:?}{questions:?}"),
            format!("{:?}{:?}", again.1, again.2)
        );
        assert!(!rows.is_empty());
        non_empty += usize::from(rows.len() > 10);
    }
    assert!(non_empty > 60, "{non_empty} of 100 draws have more than ten rows");
}
