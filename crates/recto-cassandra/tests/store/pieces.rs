//! Tests of the division of slices: the pieces, read one after the other, return the rows of the
//! slice. A brute-force search computes the expected rows.

use proptest::prelude::*;
use recto_cassandra::pieces::{Piece, TupleBound, pieces};
use recto_model::table::{ColumnKind, TableOptions};
use recto_model::{Bound, Cells, Column, Direction, Table, Type, order};

/// Number of values of each column: 0 to 2. Bounds are random values from -1 to 3, so that every
/// relative position occurs.
const VALUES: i8 = 3;
const MAX_COLUMNS: usize = 4;

fn table(directions: &[Direction]) -> Table {
    let mut columns = vec![Column {
        name: "p".to_owned(),
        ty: Type::Int,
        kind: ColumnKind::Partition,
    }];
    for (index, direction) in directions.iter().enumerate() {
        columns.push(Column {
            name: format!("c{index}"),
            ty: Type::TinyInt,
            kind: ColumnKind::Clustering(*direction),
        });
    }
    Table::new("t", columns, TableOptions::default()).unwrap()
}

fn cells(values: &[i8]) -> Cells {
    let bytes: Vec<[u8; 1]> = values.iter().map(|value| value.to_be_bytes()).collect();
    bytes.iter().map(|cell| Some(&cell[..])).collect()
}

/// Returns every possible row of a partition, in clustering order.
fn rows(table: &Table) -> Vec<Cells> {
    let mut rows = vec![Vec::new()];
    for _ in table.clustering() {
        rows = rows
            .into_iter()
            .flat_map(|row| {
                (0..VALUES).map(move |value| {
                    let mut row = row.clone();
                    row.push(value);
                    row
                })
            })
            .collect();
    }
    let mut rows: Vec<Cells> = rows.iter().map(|row| cells(row)).collect();
    rows.sort_by(|left, right| table.compare_clustering(left, right));
    rows
}

/// Returns the rows between two bounds, computed from the definition of a bound.
fn between(table: &Table, from: &Bound, to: &Bound) -> Vec<Cells> {
    let is_after = |row: &Cells, bound: &Bound| {
        let ordering = table.compare_clustering(row, bound.cells());
        ordering.is_gt() || (ordering.is_eq() && matches!(bound, Bound::Before(_)))
    };
    rows(table)
        .into_iter()
        .filter(|row| is_after(row, from) && !is_after(row, to))
        .collect()
}

/// Returns the rows that Cassandra would return for one piece (key range of one statement). Like
/// Cassandra, this function compares tuples by value and returns rows in clustering order.
fn read(table: &Table, piece: &Piece) -> Vec<Cells> {
    let start = piece.pinned.len();
    let compare = |row: &Cells, start: usize, tuple: &Cells| {
        (0..tuple.len())
            .map(|index| {
                order::compare(
                    &Type::TinyInt,
                    row.get(start + index).unwrap(),
                    tuple.get(index).unwrap(),
                )
            })
            .find(|ordering| ordering.is_ne())
            .unwrap_or(std::cmp::Ordering::Equal)
    };
    let above = |row: &Cells, bound: &TupleBound| {
        let ordering = compare(row, start, &bound.cells);
        ordering.is_gt() || (bound.inclusive && ordering.is_eq())
    };
    let below = |row: &Cells, bound: &TupleBound| {
        let ordering = compare(row, start, &bound.cells);
        ordering.is_lt() || (bound.inclusive && ordering.is_eq())
    };
    rows(table)
        .into_iter()
        .filter(|row| compare(row, 0, &piece.pinned).is_eq())
        .filter(|row| piece.lower.as_ref().is_none_or(|bound| above(row, bound)))
        .filter(|row| piece.upper.as_ref().is_none_or(|bound| below(row, bound)))
        .collect()
}

fn directions() -> impl Strategy<Value = Vec<Direction>> {
    let direction = prop_oneof![Just(Direction::Ascending), Just(Direction::Descending)];
    prop::collection::vec(direction, 1..=MAX_COLUMNS)
}

fn bound(columns: usize) -> impl Strategy<Value = Bound> {
    (prop::collection::vec(-1..=VALUES, 0..=columns), any::<bool>()).prop_map(|(values, before)| {
        let cells = cells(&values);
        if before {
            Bound::Before(cells)
        } else {
            Bound::After(cells)
        }
    })
}

fn slices() -> impl Strategy<Value = (Table, Bound, Bound)> {
    directions().prop_flat_map(|directions| {
        let columns = directions.len();
        (Just(table(&directions)), bound(columns), bound(columns))
    })
}

/// Returns the number of runs of columns with the same direction in `start..end`.
fn runs(table: &Table, start: usize, end: usize) -> usize {
    (start..end)
        .filter(|index| {
            *index == start || table.clustering_direction(*index) != table.clustering_direction(index - 1)
        })
        .count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn pieces_in_turn_are_the_slice((table, from, to) in slices()) {
        let pieces = pieces(&table, &from, &to);
        let read: Vec<Cells> = pieces.iter().flat_map(|piece| read(&table, piece)).collect();
        prop_assert_eq!(read, between(&table, &from, &to));
    }

    /// Checks the number of pieces (key ranges of one statement). One piece covers the common part
    /// of the bounds and the first run of same-direction columns in which they differ. Each further
    /// run of either bound adds one piece.
    #[test]
    fn there_are_no_more_pieces_than_runs((table, from, to) in slices()) {
        let pieces = pieces(&table, &from, &to);
        if from.compare(&to, &table).is_ge() {
            prop_assert!(pieces.is_empty());
            return Ok(());
        }
        let common = from
            .cells()
            .iter()
            .zip(to.cells().iter())
            .take_while(|(left, right)| left == right)
            .count();
        let further = |bound: &Bound| runs(&table, common, bound.cells().len()).saturating_sub(1);
        prop_assert_eq!(pieces.len(), 1 + further(&from) + further(&to));
    }

    /// Checks that one CQL statement can express each piece (key range): the tuples start directly
    /// after the columns fixed by `=`, and cover columns of one direction.
    #[test]
    fn each_piece_is_one_statement((table, from, to) in slices()) {
        for piece in pieces(&table, &from, &to) {
            for bound in [&piece.lower, &piece.upper].into_iter().flatten() {
                let start = piece.pinned.len();
                let end = start + bound.cells.len();
                prop_assert!(end > start && end <= table.clustering().len());
                prop_assert_eq!(runs(&table, start, end), 1);
            }
        }
    }

    #[test]
    fn one_direction_is_one_statement(
        columns in 1..=MAX_COLUMNS,
        descending in any::<bool>(),
        seed in (prop::collection::vec(-1..=VALUES, 0..=1), prop::collection::vec(-1..=VALUES, 0..=1)),
    ) {
        let direction = if descending { Direction::Descending } else { Direction::Ascending };
        let table = table(&vec![direction; columns]);
        let (from, to) = (Bound::Before(cells(&seed.0)), Bound::After(cells(&seed.1)));
        prop_assert!(pieces(&table, &from, &to).len() <= 1);
    }
}

/// Checks that a bound needs one statement for each run (adjacent columns of the same direction).
/// The rows after (1, 2) in the order (c0 DESC, c1 ASC) need two statements: one for
/// `c0 = 1 AND c1 > 2`, then one for `c0 < 1`. CQL compares tuples by value, regardless of
/// directions, so one tuple cannot bound columns of different directions.
#[test]
fn mixed_directions_take_one_statement_per_run() {
    let table = table(&[Direction::Descending, Direction::Ascending]);
    let open = |values: &[i8]| {
        Some(TupleBound {
            cells: cells(values),
            inclusive: false,
        })
    };
    assert_eq!(
        pieces(&table, &Bound::After(cells(&[1, 2])), &Bound::end()),
        [
            Piece {
                pinned: cells(&[1]),
                lower: open(&[2]),
                upper: None,
            },
            Piece {
                pinned: Cells::new(),
                lower: None,
                upper: open(&[1]),
            },
        ]
    );
}

/// Checks that bounds of different lengths need only one statement if all columns have the same
/// direction.
#[test]
fn bounds_may_differ_in_length() {
    let table = table(&[Direction::Ascending; 3]);
    let from = Bound::After(cells(&[0, 1, 1]));
    let to = Bound::After(cells(&[2]));
    assert_eq!(
        pieces(&table, &from, &to),
        [Piece {
            pinned: Cells::new(),
            lower: Some(TupleBound {
                cells: cells(&[0, 1, 1]),
                inclusive: false,
            }),
            upper: Some(TupleBound {
                cells: cells(&[2]),
                inclusive: true,
            }),
        }]
    );
}
