//! Tests that random cases are printed without loss, and that their simplification ends.

use std::sync::Arc;

use recto_model::{Value, json};
use recto_testkit::generate::{self, Case, Change, Rng};
use recto_testkit::oracle::{Collations, Condition, Oracle, Row, order};

/// Number of random cases in each test.
const CASES: u64 = 200;
/// Maximum number of simplification steps of a case. Every case needs fewer.
const MAX_STEPS: usize = 20_000;

fn drawn(seed: u64) -> (Case, Rng) {
    let mut rng = generate::rng(seed);
    let mut collection = generate::collection(&mut rng, "drawn");
    let mut collations = Collations::new();
    if rng.bool() {
        let base = collection.base();
        let order: Vec<String> = base.order.iter().map(|column| column.field.clone()).collect();
        collations = generate::collations(&mut rng, &mut collection, &order);
    }
    let oracle = Oracle::collated(Arc::new(collection), collations);
    let data = generate::data(&mut rng, &oracle, 20);
    let question = generate::question(&mut rng, &data);
    let moves = generate::moves(&mut rng, &data, &data.oracle, &question);
    let case = Case {
        collection: Arc::clone(oracle.collection()),
        collations: oracle.collations().clone(),
        rows: data.oracle.rows().to_vec(),
        question,
        built: rng.bool(),
        moves,
    };
    (case, rng)
}

fn rows(case: &Case) -> Vec<Row> {
    let writes = case.moves.iter().flat_map(|page| &page.writes);
    let put = writes.filter_map(|change| match change {
        Change::Put(row) => Some(row.clone()),
        Change::Delete(_) => None,
    });
    case.rows.iter().cloned().chain(put).collect()
}

fn values(condition: &Condition) -> Vec<(usize, Value)> {
    match condition {
        Condition::Compare { field, value, .. } => vec![(*field, value.clone())],
        Condition::AnyOf { field, values } => values.iter().map(|value| (*field, value.clone())).collect(),
        Condition::Tuple { fields, values, .. } => fields.iter().copied().zip(values.clone()).collect(),
        Condition::StartsWith { .. } => Vec::new(),
    }
}

/// Checks that reading the printed rows (JSON) and values (text) of a case gives the same rows and
/// values.
#[test]
fn printed_tests_reproduce_the_case() {
    for seed in 0..CASES {
        let (case, _) = drawn(seed);
        let oracle = case.oracle();
        let mut empty = case.clone();
        empty.rows.clear();
        for row in rows(&case) {
            let again = empty.clone().row(&oracle.show(&row));
            assert!(
                oracle.same_row(&again.rows[0], &row),
                "seed {seed}: {}",
                oracle.show(&row)
            );
        }
        let order = case.order();
        let mut all: Vec<(usize, Value)> = case.question.conditions.iter().flat_map(values).collect();
        for page in &case.moves {
            all.extend(order.iter().map(|(field, _)| *field).zip(page.from.clone()));
        }
        for (field, value) in all {
            let ty = &case.collection.fields[field].ty;
            let text = json::to_text(ty, &value);
            let again = json::from_text(ty, &text).unwrap();
            assert!(order::same(ty, &again, &value), "seed {seed}: {text}");
        }
    }
}

/// Checks that the simplification of a failing case ends, whichever simpler cases also fail. If all
/// of them fail, the result has no part that can be left out.
#[test]
fn making_a_case_simpler_ends() {
    for seed in 0..CASES / 10 {
        let (mut case, mut rng) = drawn(seed);
        let mut steps = 0;
        loop {
            let mut simpler = case.simpler();
            if simpler.is_empty() {
                break;
            }
            steps += 1;
            assert!(steps < MAX_STEPS, "seed {seed}");
            case = simpler.swap_remove(rng.usize(0..simpler.len()));
        }
        assert_eq!((case.rows.len(), case.moves.len()), (0, 1), "seed {seed}");
        assert!(case.question.conditions.is_empty() && case.question.sort.is_empty());
        assert_eq!(
            case.collection.fields.len(),
            2,
            "seed {seed}: a partition and an order column"
        );
    }
}
