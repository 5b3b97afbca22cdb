//! Tests of byte-comparable keys: the byte order of keys equals the order of their values.

use crate::values;

use std::cmp::Ordering;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use recto_model::Direction::{Ascending, Descending};
use recto_model::{Direction, Type, Value, extremes, key, order};
use values::{canonical, cell_of, order_type, value};

const DIRECTIONS: [Direction; 2] = [Ascending, Descending];

fn key_of(ty: &Type, direction: Direction, cell: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    key::encode(ty, direction, cell, &mut out).unwrap();
    out
}

/// Checks that two cells (encoded values) compare as their keys do. Their keys must be equal
/// exactly if the cells are equal in order.
fn check_pair(ty: &Type, left: &[u8], right: &[u8]) {
    let expected = order::compare(ty, left, right);
    assert_eq!(order::compare(ty, right, left), expected.reverse());
    assert_eq!(
        canonical(ty, left) == canonical(ty, right),
        expected.is_eq(),
        "{ty}"
    );
    for direction in DIRECTIONS {
        let (left_key, right_key) = (key_of(ty, direction, left), key_of(ty, direction, right));
        let found = direction.apply(left_key.cmp(&right_key));
        assert_eq!(found, expected, "{ty} {direction:?} {left:02x?} {right:02x?}");
        let prefix = left_key.starts_with(&right_key) || right_key.starts_with(&left_key);
        assert_eq!(
            prefix,
            expected.is_eq(),
            "{ty} {direction:?}: a key is another's prefix"
        );
    }
}

#[test]
fn extremes_rise_and_so_do_their_keys() {
    for ty in &Type::ORDERABLE {
        let cells: Vec<Vec<u8>> = extremes::values(ty)
            .iter()
            .map(|value| cell_of(ty, value))
            .collect();
        for (index, left) in cells.iter().enumerate() {
            for (other, right) in cells.iter().enumerate() {
                assert_eq!(
                    order::compare(ty, left, right),
                    index.cmp(&other),
                    "{ty} {index} {other}"
                );
                check_pair(ty, left, right);
            }
        }
    }
}

#[test]
fn keys_give_their_canonical_cells_back() {
    for ty in &Type::ORDERABLE {
        for value in extremes::values(ty) {
            let cell = cell_of(ty, &value);
            for direction in DIRECTIONS {
                let mut encoded = key_of(ty, direction, &cell);
                let length = encoded.len();
                encoded.extend_from_slice(b"what follows");
                let (mut rest, mut decoded) = (&encoded[..], b"before".to_vec());
                key::decode(ty, direction, &mut rest, &mut decoded).unwrap();
                assert_eq!(rest, b"what follows");
                assert_eq!(decoded[6..], canonical(ty, &cell), "{ty} {direction:?} {value:?}");
                for cut in (0..length).step_by(1 + length / 50) {
                    let mut rest = &encoded[..cut];
                    let mut out = b"before".to_vec();
                    key::decode(ty, direction, &mut rest, &mut out).unwrap_err();
                    assert_eq!((rest.len(), &out[..]), (cut, &b"before"[..]));
                }
            }
        }
    }
}

/// Type, and different cells (encoded values) of the type that are equal in order.
type EqualCells = (Type, &'static [&'static [u8]]);

/// Checks that equal values have the same key, also if their cells have forms that only other
/// programs write.
#[test]
fn equal_values_have_one_key() {
    let equal: [EqualCells; 5] = [
        (
            Type::Decimal,
            &[&[0, 0, 0, 1, 1], &[0, 0, 0, 2, 10], &[0, 0, 0, 3, 0, 0, 100]],
        ),
        (
            Type::Decimal,
            &[
                &[0, 0, 0, 0, 0],
                &[0x7F, 0xFF, 0xFF, 0xFF, 0],
                &[0x80, 0, 0, 0, 0, 0],
            ],
        ),
        (Type::Varint, &[&[0xFF], &[0xFF, 0xFF], &[0xFF; 40]]),
        (Type::Boolean, &[&[1], &[2], &[0xFF]]),
        (
            Type::Float,
            &[&[0x7F, 0xC0, 0, 0], &[0xFF, 0xC0, 0, 0], &[0x7F, 0x80, 0, 1]],
        ),
    ];
    for (ty, cells) in equal {
        for cell in cells {
            assert_eq!(
                order::compare(&ty, cell, cells[0]),
                Ordering::Equal,
                "{ty} {cell:02x?}"
            );
            check_pair(&ty, cell, cells[0]);
        }
    }
}

#[test]
fn a_key_part_has_at_most_64_kib() {
    let mut out = b"before".to_vec();
    let longest = vec![0xAB; key::MAX_KEY_PART_BYTES];
    for (ty, cell) in [(Type::Blob, longest.clone()), (Type::Varint, longest.clone())] {
        let encoded = key_of(&ty, Descending, &cell);
        let (mut rest, mut decoded) = (&encoded[..], Vec::new());
        key::decode(&ty, Descending, &mut rest, &mut decoded).unwrap();
        assert_eq!(decoded, cell);
        let error = key::encode(&ty, Ascending, &[&longest[..], &[1]].concat(), &mut out).unwrap_err();
        assert!(error.to_string().contains("65536 bytes"), "{error}");
    }
    assert_eq!(out, b"before");
}

/// Checks that every decimal that fits into a key column can be encoded, also with the minimum and
/// maximum scale.
#[test]
fn decimals_reach_as_far_as_a_key_part() {
    for first in [0x7F_u8, 0x80, 0x01] {
        for scale in [i32::MIN, -1, 0, 1, i32::MAX] {
            let mut cell = scale.to_be_bytes().to_vec();
            cell.push(first);
            cell.resize(key::MAX_KEY_PART_BYTES, 0x55);
            let encoded = key_of(&Type::Decimal, Ascending, &cell);
            let mut decoded = Vec::new();
            key::decode(&Type::Decimal, Ascending, &mut &encoded[..], &mut decoded).unwrap();
            assert_eq!(decoded, canonical(&Type::Decimal, &cell));
        }
    }
}

#[test]
fn types_without_an_order_have_no_key() {
    let mut runner = TestRunner::deterministic();
    for ty in values::other_types() {
        let cell = cell_of(&ty, &value(&ty).new_tree(&mut runner).unwrap().current());
        let mut out = Vec::new();
        key::encode(&ty, Ascending, &cell, &mut out).unwrap_err();
        key::decode(&ty, Ascending, &mut &cell[..], &mut out).unwrap_err();
        assert!(out.is_empty());
    }
}

fn two_of_one_type() -> impl Strategy<Value = (Type, Value, Value)> {
    order_type().prop_flat_map(|ty| (Just(ty.clone()), value(&ty), value(&ty)))
}

/// Returns a strategy for the key columns of two rows: for each column, its type, its direction,
/// and the values of both rows.
fn two_rows() -> impl Strategy<Value = Vec<(Type, Direction, Value, Value)>> {
    let column = two_of_one_type().prop_flat_map(|(ty, left, right)| {
        // Make equal values frequent, so that the comparison often depends on later columns.
        let right = prop_oneof![Just(left.clone()), Just(right)];
        let direction = proptest::sample::select(DIRECTIONS.to_vec());
        (Just(ty), direction, Just(left), right)
    });
    proptest::collection::vec(column, 1..5)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn keys_compare_as_values((ty, left, right) in two_of_one_type()) {
        check_pair(&ty, &cell_of(&ty, &left), &cell_of(&ty, &right));
    }

    #[test]
    fn keys_round_trip((ty, value, _) in two_of_one_type()) {
        let cell = cell_of(&ty, &value);
        for direction in DIRECTIONS {
            let encoded = key_of(&ty, direction, &cell);
            let (mut rest, mut decoded) = (&encoded[..], Vec::new());
            key::decode(&ty, direction, &mut rest, &mut decoded).unwrap();
            prop_assert!(rest.is_empty());
            prop_assert_eq!(&decoded, &canonical(&ty, &cell));
            prop_assert_eq!(order::compare(&ty, &decoded, &cell), Ordering::Equal);
        }
    }

    #[test]
    fn keys_of_several_parts_compare_part_by_part(columns in two_rows()) {
        let (mut left_key, mut right_key) = (Vec::new(), Vec::new());
        let mut expected = Ordering::Equal;
        for (ty, direction, left, right) in &columns {
            let (left, right) = (cell_of(ty, left), cell_of(ty, right));
            expected = expected.then(direction.apply(order::compare(ty, &left, &right)));
            key::encode(ty, *direction, &left, &mut left_key).unwrap();
            key::encode(ty, *direction, &right, &mut right_key).unwrap();
        }
        prop_assert_eq!(left_key.cmp(&right_key), expected);
        let mut rest = &left_key[..];
        for (ty, direction, left, _) in &columns {
            let mut decoded = Vec::new();
            key::decode(ty, *direction, &mut rest, &mut decoded).unwrap();
            prop_assert_eq!(decoded, canonical(ty, &cell_of(ty, left)));
        }
        prop_assert!(rest.is_empty());
    }

    /// Checks that decoding accepts only bytes that encoding produces, so that each value has
    /// exactly one key.
    #[test]
    fn garbage_is_refused_or_is_a_key(
        ty in order_type(),
        descending in any::<bool>(),
        head in any::<u8>(),
        tail in proptest::collection::vec(prop_oneof![Just(0_u8), Just(0xFF), any::<u8>()], 0..24),
    ) {
        let direction = if descending { Descending } else { Ascending };
        let bytes = [&[head][..], &tail].concat();
        let (mut rest, mut cell) = (&bytes[..], Vec::new());
        if key::decode(&ty, direction, &mut rest, &mut cell).is_ok() {
            let consumed = bytes.len() - rest.len();
            prop_assert_eq!(key_of(&ty, direction, &cell), &bytes[..consumed]);
        } else {
            prop_assert!(cell.is_empty());
            prop_assert_eq!(rest, &bytes[..]);
        }
    }

    #[test]
    fn bytes_that_are_no_cell_have_no_key(
        ty in order_type(),
        bytes in proptest::collection::vec(any::<u8>(), 0..20),
    ) {
        let mut out = Vec::new();
        let encoded = key::encode(&ty, Ascending, &bytes, &mut out);
        prop_assert_eq!(encoded.is_ok(), recto_model::cell::validate(&ty, &bytes).is_ok());
        // Ignore the result: the bytes are not a cell, and the comparison must only not panic.
        let _ = order::compare(&ty, &bytes, &[1, 2, 3]);
    }

    #[test]
    fn successors_of_prefixes_are_tight(key in proptest::collection::vec(prop_oneof![Just(0xFF_u8), any::<u8>()], 0..6)) {
        let mut successor = key.clone();
        if key::prefix_successor(&mut successor) {
            prop_assert!(successor > [&key[..], &[0xFF; 8]].concat());
            let mut before = successor.clone();
            *before.last_mut().unwrap() -= 1;
            prop_assert!(key.starts_with(&before));
        } else {
            prop_assert!(key.iter().all(|byte| *byte == 0xFF));
        }
    }
}
