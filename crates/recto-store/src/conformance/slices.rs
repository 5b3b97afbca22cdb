//! Behaviors of slices: both directions, every form of edge, limits, mixed clustering directions.

use std::collections::BTreeSet;

use recto_model::table::ReadDirection::{self, Backward, Forward};
use recto_model::{Bound, Cells, Column, Direction, Slice, Type};

use super::Bench;
use super::fixture::{Fixture, ascending, cells, clustering, concat, int, ints, partition, put, regular};
use super::model::Model;
use crate::random::Random;
use crate::{PointRead, ReadOptions, StoreErrorKind};

/// Number of random slices that are read from each table.
const SLICES: usize = 80;

const BOTH: [ReadDirection; 2] = [Forward, Backward];

/// Creates rows `(p, c, d)` of two partitions with equal clustering cells and other values, so that a read of
/// the wrong partition is detected. `c` is ascending, `d` is descending, and each partition has 4 × 4 rows.
async fn grid(bench: &dyn Bench, prefix: &str) -> (Fixture, Model) {
    let columns = vec![
        partition("p", Type::Int),
        ascending("c", Type::Int),
        clustering("d", Type::Int, Direction::Descending),
        regular("v", Type::Text),
    ];
    let fixture = Fixture::new(bench, prefix, columns).await;
    let mut model = Model::new(&fixture.table);
    let mut rows = Vec::new();
    for p in 1..=2 {
        for c in [-3, 0, 2, 7] {
            for d in [-10, -1, 0, 5] {
                let value = format!("{p} {c} {d}");
                rows.push(concat(&ints([p, c, d]), &cells([Some(value.as_bytes())])));
            }
        }
    }
    fixture.fill(&mut model, rows).await;
    (fixture, model)
}

/// Checks reads of whole partitions from both ends, with limits below, at and above their number of rows, and
/// a read of an absent partition.
pub async fn read_both_ways_with_limits(bench: &dyn Bench) {
    let (fixture, model) = grid(bench, "both").await;
    for p in 1..=3 {
        for direction in BOTH {
            for limit in [1, 2, 15, 16, 17, 5000] {
                let slice = fixture.slice_of(&ints([p]), Bound::start(), Bound::end(), direction, limit);
                fixture.check(&model, &slice).await;
            }
        }
    }
    fixture.drop().await;
}

/// Checks reads with every pair of bounds: no bound, and bounds before and after a prefix of a key and a
/// whole key, of existing and of absent rows.
pub async fn read_every_form_of_bound(bench: &dyn Bench) {
    let (fixture, model) = grid(bench, "bounds").await;
    let mut edges = vec![Cells::new()];
    edges.extend([-3, 1, 7, 8].map(|c| ints([c])));
    edges.extend([[-3, 5], [0, -1], [0, 1], [2, -11], [7, -10]].map(ints));
    let bounds: Vec<Bound> = edges
        .into_iter()
        .flat_map(|edge| [Bound::Before(edge.clone()), Bound::After(edge)])
        .collect();
    for (index, from) in bounds.iter().enumerate() {
        for (other, to) in bounds.iter().enumerate() {
            let direction = BOTH[(index + other) % 2];
            let slice = fixture.slice_of(&ints([1]), from.clone(), to.clone(), direction, 6);
            fixture.check(&model, &slice).await;
        }
    }
    fixture.drop().await;
}

/// Checks that a slice that ends before it begins, or that contains no row, is empty and exhausted.
pub async fn inverted_is_empty(bench: &dyn Bench) {
    let (fixture, _) = grid(bench, "inverted").await;
    let pairs = [
        (Bound::end(), Bound::start()),
        (Bound::After(ints([2])), Bound::Before(ints([0]))),
        (Bound::After(ints([2])), Bound::Before(ints([2]))),
        (Bound::Before(ints([2])), Bound::Before(ints([2]))),
        (Bound::After(ints([2, 0])), Bound::After(ints([2, 5]))),
        (Bound::After(ints([0, 0])), Bound::Before(ints([0, 0]))),
    ];
    for (from, to) in pairs {
        for direction in BOTH {
            let slice = fixture.slice_of(&ints([1]), from.clone(), to.clone(), direction, 5);
            let read = fixture.read(&slice).await;
            assert!(
                read.rows.is_empty() && read.exhausted,
                "{slice:?} returned {read:?}"
            );
        }
    }
    fixture.drop().await;
}

/// Checks that `exhausted` is true if and only if the slice ended before its limit.
pub async fn exhausted_is_exact(bench: &dyn Bench) {
    let (fixture, _) = grid(bench, "exhausted").await;
    for direction in BOTH {
        for limit in 1..=6 {
            let (from, to) = (Bound::Before(ints([0])), Bound::After(ints([0])));
            let slice = fixture.slice_of(&ints([2]), from, to, direction, limit);
            let read = fixture.read(&slice).await;
            assert_eq!(read.rows.len(), 4.min(limit as usize));
            assert_eq!(read.exhausted, limit > 4, "4 rows, limit {limit}");
        }
    }
    fixture.drop().await;
}

/// Checks that random slices of a table with one clustering column, in each direction, return the expected
/// rows.
pub async fn random_bounds_one_column(bench: &dyn Bench) {
    random_bounds(bench, &[Direction::Ascending], 11).await;
    random_bounds(bench, &[Direction::Descending], 12).await;
}

/// Checks that random slices of a table with two clustering columns, of equal and of different directions,
/// return the expected rows.
pub async fn random_bounds_two_columns(bench: &dyn Bench) {
    random_bounds(bench, &[Direction::Descending, Direction::Descending], 21).await;
    random_bounds(bench, &[Direction::Descending, Direction::Ascending], 22).await;
}

/// Checks that random slices of a table with three clustering columns of mixed directions return the expected
/// rows.
pub async fn random_bounds_three_columns(bench: &dyn Bench) {
    let directions = [Direction::Ascending, Direction::Descending, Direction::Ascending];
    random_bounds(bench, &directions, 31).await;
}

/// Checks that random slices of a table with four clustering columns of mixed directions return the expected
/// rows.
pub async fn random_bounds_four_columns(bench: &dyn Bench) {
    let directions = [
        Direction::Descending,
        Direction::Ascending,
        Direction::Ascending,
        Direction::Descending,
    ];
    random_bounds(bench, &directions, 41).await;
}

/// Returns the possible cells of a clustering column of the random tables. There are few, so that many rows
/// share prefixes.
fn domain(ty: &Type) -> Vec<Vec<u8>> {
    match ty {
        Type::Text => ["", "a", "a\0", "ab", "b", "\u{e9}"]
            .map(|text| text.as_bytes().to_vec())
            .to_vec(),
        _ => [i32::MIN, -1, 0, 1, 256, i32::MAX].map(int).to_vec(),
    }
}

fn draw_key(random: &mut Random, domains: &[Vec<Vec<u8>>], columns: usize) -> Cells {
    domains[..columns]
        .iter()
        .map(|domain| Some(domain[random.below(domain.len())].as_slice()))
        .collect()
}

fn draw_bound(random: &mut Random, domains: &[Vec<Vec<u8>>]) -> Bound {
    let columns = random.below(domains.len() + 1);
    let cells = draw_key(random, domains, columns);
    if random.chance(0.5) {
        Bound::Before(cells)
    } else {
        Bound::After(cells)
    }
}

async fn random_bounds(bench: &dyn Bench, directions: &[Direction], seed: u64) {
    let types = [Type::Int, Type::Text, Type::Int, Type::Text];
    let mut columns: Vec<Column> = vec![partition("p", Type::Int), regular("v", Type::Int)];
    for (index, direction) in directions.iter().enumerate() {
        columns.push(clustering(&format!("c{index}"), types[index].clone(), *direction));
    }
    let fixture = Fixture::new(bench, "random", columns).await;
    let domains: Vec<Vec<Vec<u8>>> = types[..directions.len()].iter().map(domain).collect();
    let mut random = Random::new(seed);
    let mut keys = BTreeSet::new();
    for _ in 0..120 {
        let key = draw_key(&mut random, &domains, directions.len());
        keys.insert(
            key.iter()
                .map(|cell| cell.map(<[u8]>::to_vec))
                .collect::<Vec<_>>(),
        );
    }
    let mut rows = Vec::new();
    for (index, key) in keys.iter().enumerate() {
        for p in 1..=2 {
            let key: Cells = key.iter().map(Option::as_deref).collect();
            rows.push(concat(
                &concat(&ints([p]), &key),
                &ints([p * 1000 + index as i32]),
            ));
        }
    }
    let mut model = Model::new(&fixture.table);
    fixture.fill(&mut model, rows).await;
    for _ in 0..SLICES {
        let (from, to) = (
            draw_bound(&mut random, &domains),
            draw_bound(&mut random, &domains),
        );
        let direction = BOTH[random.below(2)];
        let limit = 1 + random.below(30) as u32;
        let slice = fixture.slice_of(&ints([1]), from, to, direction, limit);
        fixture.check(&model, &slice).await;
    }
    fixture.drop().await;
}

/// Checks that pages that each start after the last row of the previous page contain every row once, in both
/// directions.
pub async fn pages_tile_the_partition(bench: &dyn Bench) {
    let (fixture, model) = grid(bench, "tiled").await;
    for direction in BOTH {
        for limit in [1, 3, 16] {
            let mut slice = fixture.slice_of(&ints([1]), Bound::start(), Bound::end(), direction, limit);
            let expected: Vec<Cells> = model.slice(&slice).into_iter().cloned().collect();
            let mut found: Vec<Cells> = Vec::new();
            loop {
                let read = fixture.read(&slice).await;
                found.extend(read.rows.iter().map(|row| row.to_cells()));
                assert!(found.len() <= expected.len(), "pages overlap");
                if read.exhausted {
                    break;
                }
                let last = found.last().expect("a page that is not the last has rows");
                move_past(&mut slice, last);
            }
            assert_eq!(found, expected);
        }
    }
    fixture.drop().await;
}

fn move_past(slice: &mut Slice, row: &Cells) {
    let key = (1..slice.table.key_len()).map(|index| row.get(index)).collect();
    match slice.direction {
        Forward => slice.from = Bound::After(key),
        Backward => slice.to = Bound::Before(key),
    }
}

/// Checks that a table without clustering columns has one row per partition.
pub async fn table_without_clustering(bench: &dyn Bench) {
    let columns = vec![
        partition("p", Type::Int),
        partition("q", Type::Text),
        regular("v", Type::Int),
    ];
    let fixture = Fixture::new(bench, "single", columns).await;
    let key = |p: i32, q: &str| cells([Some(&int(p)), Some(q.as_bytes())]);
    for p in 0..3 {
        for q in ["", "x"] {
            fixture.apply(&key(p, q), 1, put(Cells::new(), ints([p]))).await;
        }
    }
    let row = concat(&key(1, ""), &ints([1]));
    fixture.expect(&key(1, ""), std::slice::from_ref(&row)).await;
    assert_eq!(fixture.get(&key(1, ""), &Cells::new()).await, Some(row));
    let slice = fixture.slice_of(&key(1, "x"), Bound::start(), Bound::end(), Backward, 2);
    let read = fixture.read(&slice).await;
    assert!(read.rows.len() == 1 && read.exhausted);
    fixture.apply(&key(1, ""), 2, put(Cells::new(), ints([9]))).await;
    fixture
        .expect(&key(1, ""), &[concat(&key(1, ""), &ints([9]))])
        .await;
    let row = crate::Operation::DeleteRow {
        clustering: Cells::new(),
    };
    fixture.apply(&key(1, ""), 3, row).await;
    fixture.expect(&key(1, ""), &[]).await;
    assert_eq!(fixture.get(&key(1, ""), &Cells::new()).await, None);
    fixture
        .expect(&key(2, ""), &[concat(&key(2, ""), &ints([2]))])
        .await;
    fixture.drop().await;
}

/// Checks that reads of wrong arity, with null parts or with the limit 0 are invalid, and do not panic.
pub async fn invalid_reads_are_errors(bench: &dyn Bench) {
    let (fixture, _) = grid(bench, "invalid").await;
    let snapshot = fixture.snapshot();
    let options = ReadOptions::default();
    let whole = fixture.whole(&ints([1]));
    let invalid = [
        Slice {
            limit: 0,
            ..whole.clone()
        },
        Slice {
            partition: Cells::new(),
            ..whole.clone()
        },
        Slice {
            partition: ints([1, 2]),
            ..whole.clone()
        },
        Slice {
            partition: cells([None]),
            ..whole.clone()
        },
        Slice {
            from: Bound::Before(ints([1, 2, 3])),
            ..whole.clone()
        },
        Slice {
            to: Bound::After(cells([None])),
            ..whole.clone()
        },
    ];
    for slice in invalid {
        let read = snapshot.slice(&slice, &options).await;
        let error = read.expect_err("an invalid slice is not read");
        assert_eq!(error.kind(), StoreErrorKind::Invalid, "{error}");
    }
    for clustering in [ints([1]), ints([1, 2, 3]), cells([Some(&int(1)), None])] {
        let read = PointRead {
            table: fixture.table.clone(),
            partition: ints([1]),
            clustering,
        };
        let error = snapshot
            .get(&read, &options)
            .await
            .expect_err("an invalid key is not read");
        assert_eq!(error.kind(), StoreErrorKind::Invalid, "{error}");
    }
    fixture.drop().await;
}
