//! Tests of cells (encoded values): they have the form of CQL's native protocol, and other bytes
//! are rejected.

use crate::values;

use std::sync::Arc;

use proptest::prelude::*;
use recto_model::cell::{self, CellError, MAX_NESTING};
use recto_model::types::UdtType;
use recto_model::{Type, Value, extremes};
use values::{any_type, cell_of, value};

fn boxed(ty: Type) -> Box<Type> {
    Box::new(ty)
}

fn pair_type() -> Type {
    Type::Udt(Arc::new(UdtType {
        name: "pair".to_owned(),
        fields: vec![("a".to_owned(), Type::Int), ("b".to_owned(), Type::Text)],
    }))
}

/// Returns types with values and their cells, which were derived by hand from the protocol's
/// specification.
fn known_cells() -> Vec<(Type, Value, Vec<u8>)> {
    let small = |number: i16| Value::SmallInt(number);
    vec![
        (Type::Date, Value::Date(0), vec![0x80, 0, 0, 0]),
        (Type::Date, Value::Date(-1), vec![0x7F, 0xFF, 0xFF, 0xFF]),
        (Type::Varint, Value::Varint(128.into()), vec![0, 0x80]),
        (Type::Varint, Value::Varint((-129).into()), vec![0xFF, 0x7F]),
        (
            Type::Decimal,
            Value::Decimal("12.50".parse().unwrap()),
            vec![0, 0, 0, 2, 0x04, 0xE2],
        ),
        (
            Type::Duration,
            Value::Duration {
                months: 1,
                days: 2,
                nanoseconds: 3,
            },
            vec![2, 4, 6],
        ),
        (
            Type::Duration,
            Value::Duration {
                months: -1,
                days: 0,
                nanoseconds: -100,
            },
            vec![1, 0, 0x80, 0xC7],
        ),
        (
            Type::Set(boxed(Type::Int)),
            Value::Set(vec![Value::Int(2), Value::Int(-1), Value::Int(2)]),
            vec![
                0, 0, 0, 2, 0, 0, 0, 4, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 4, 0, 0, 0, 2,
            ],
        ),
        (
            Type::Map(boxed(Type::Text), boxed(Type::TinyInt)),
            Value::Map(vec![
                (Value::Text("b".into()), Value::TinyInt(1)),
                (Value::Text(String::new()), Value::TinyInt(2)),
            ]),
            vec![
                0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 1, b'b', 0, 0, 0, 1, 1,
            ],
        ),
        (
            pair_type(),
            Value::Udt(vec![None, Some(Value::Text("x".into()))]),
            vec![0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 1, b'x'],
        ),
        (
            Type::Vector(boxed(Type::Int), 2),
            Value::Vector(vec![Value::Int(1), Value::Int(2)]),
            vec![0, 0, 0, 1, 0, 0, 0, 2],
        ),
        // Cassandra treats the size of a smallint as variable, although every smallint has two
        // bytes (CASSANDRA-18504).
        (
            Type::Vector(boxed(Type::SmallInt), 2),
            Value::Vector(vec![small(1), small(-1)]),
            vec![2, 0, 1, 2, 0xFF, 0xFF],
        ),
        (
            Type::Vector(boxed(Type::Text), 2),
            Value::Vector(vec![Value::Text(String::new()), Value::Text("é".into())]),
            vec![0, 2, 0xC3, 0xA9],
        ),
    ]
}

#[test]
fn cells_are_those_of_the_protocol() {
    for (ty, value, expected) in known_cells() {
        assert_eq!(cell_of(&ty, &value), expected, "{ty}");
        let again = cell::decode(&ty, &expected).unwrap();
        assert_eq!(cell_of(&ty, &again), expected, "{ty}");
    }
}

#[test]
fn rejects_invalid_cells_with_a_reason() {
    let int_list = Type::List(boxed(Type::Int));
    let cases: Vec<(Type, Vec<u8>, &str)> = vec![
        (Type::Ascii, vec![0x80], "0x7F"),
        (Type::Text, vec![0xC3], "UTF-8"),
        (Type::Text, vec![0xED, 0xA0, 0x80], "UTF-8"),
        (
            Type::Time,
            86_400_000_000_000_i64.to_be_bytes().to_vec(),
            "midnight",
        ),
        (Type::Time, (-1_i64).to_be_bytes().to_vec(), "midnight"),
        (Type::TimeUuid, vec![0x40; 16], "version"),
        (Type::Inet, vec![0; 5], "sixteen"),
        (Type::Decimal, vec![0; 4], "fewer"),
        (Type::Duration, vec![1, 2, 0], "signs"),
        (Type::Duration, vec![0, 0, 0, 0], "follow"),
        (Type::Duration, vec![0, 0xF8], "ends"),
        (Type::Duration, vec![0xF1, 0, 0, 0, 0, 0, 0], "months"),
        (int_list.clone(), vec![0x7F, 0xFF, 0xFF, 0xFF], "entries"),
        (int_list.clone(), vec![0xFF, 0xFF, 0xFF, 0xFF], "entries"),
        (int_list.clone(), vec![0, 0, 0, 1, 0xFF, 0xFF, 0xFF, 0xFF], "null"),
        (int_list.clone(), vec![0, 0, 0, 1, 0, 0, 0, 9, 1], "length of 9"),
        (
            int_list.clone(),
            vec![0, 0, 0, 1, 0, 0, 0, 0],
            "an int of no bytes",
        ),
        (int_list, vec![0, 0, 0, 0, 1], "follow"),
        (pair_type(), vec![], "no bytes"),
        (pair_type(), vec![0xFF, 0xFF, 0xFF, 0xFE], "length of -2"),
        (Type::Vector(boxed(Type::Int), 2), vec![0; 7], "ends within"),
        (Type::Vector(boxed(Type::Int), 2), vec![0; 9], "follow"),
        (Type::Vector(boxed(Type::Text), 1), vec![0xFF; 9], "ends within"),
    ];
    for (ty, bytes, reason) in cases {
        let error = cell::decode(&ty, &bytes).unwrap_err();
        assert!(error.to_string().contains(reason), "{ty} {bytes:02x?}: {error}");
        assert_eq!(cell::validate(&ty, &bytes), Err(error));
    }
    for ty in values::all_types() {
        let empty_is_a_value = matches!(ty, Type::Ascii | Type::Text | Type::Blob);
        assert_eq!(cell::decode(&ty, &[]).is_ok(), empty_is_a_value, "{ty}");
    }
}

#[test]
fn fields_that_a_udt_gained_are_null() {
    let value = cell::decode(&pair_type(), &[0, 0, 0, 4, 0, 0, 0, 7]).unwrap();
    assert_eq!(value, Value::Udt(vec![Some(Value::Int(7)), None]));
}

#[test]
fn values_outside_their_type_leave_nothing_behind() {
    let twice = Value::Map(vec![
        (Value::Decimal("1.0".parse().unwrap()), Value::Int(1)),
        (Value::Decimal("1.00".parse().unwrap()), Value::Int(2)),
    ]);
    let mixed = Value::Duration {
        months: 1,
        days: -1,
        nanoseconds: 0,
    };
    let bad = [
        (Type::Ascii, Value::Ascii("é".into())),
        (Type::Time, Value::Time(-1)),
        (Type::TimeUuid, Value::TimeUuid(uuid::Uuid::max())),
        (Type::Duration, mixed),
        (
            Type::Decimal,
            Value::Decimal(bigdecimal::BigDecimal::new(1.into(), 1 << 31)),
        ),
        (Type::Int, Value::BigInt(1)),
        (Type::Map(boxed(Type::Decimal), boxed(Type::Int)), twice),
        (
            Type::Vector(boxed(Type::Int), 2),
            Value::Vector(vec![Value::Int(1)]),
        ),
        (
            Type::Tuple(vec![Type::Int, Type::Int]),
            Value::Tuple(vec![Some(Value::Int(1))]),
        ),
        (
            Type::List(boxed(Type::Int)),
            Value::List(vec![Value::Int(1), Value::Text("x".into())]),
        ),
    ];
    for (ty, value) in bad {
        let mut out = b"before".to_vec();
        cell::encode(&ty, &value, &mut out).unwrap_err();
        assert_eq!(out, b"before", "{ty}");
    }
}

#[test]
fn nesting_has_a_limit() {
    let nest = |depth: usize| (1..depth).fold(Type::Int, |ty, _| Type::List(boxed(ty)));
    let (mut value, mut cell) = (Value::Int(7), vec![0, 0, 0, 7]);
    for _ in 1..=MAX_NESTING {
        value = Value::List(vec![value]);
        cell = [
            &[0, 0, 0, 1],
            &u32::try_from(cell.len()).unwrap().to_be_bytes()[..],
            &cell,
        ]
        .concat();
    }
    let deepest = nest(MAX_NESTING + 1);
    assert_eq!(cell::decode(&deepest, &cell), Ok(value.clone()));
    assert_eq!(cell_of(&deepest, &value), cell);
    let too_deep = nest(MAX_NESTING + 2);
    let cell = [
        &[0, 0, 0, 1],
        &u32::try_from(cell.len()).unwrap().to_be_bytes()[..],
        &cell,
    ]
    .concat();
    for error in [
        cell::decode(&too_deep, &cell).unwrap_err(),
        cell::encode(&too_deep, &Value::List(vec![value]), &mut Vec::new()).unwrap_err(),
    ] {
        assert!(
            matches!(error, CellError::Malformed { .. }) && error.to_string().contains("deeper"),
            "{error}"
        );
    }
}

#[test]
fn extremes_round_trip() {
    for ty in &Type::ORDERABLE {
        for value in extremes::values(ty) {
            let cell = cell_of(ty, &value);
            let decoded = cell::decode(ty, &cell).unwrap();
            assert_eq!(cell_of(ty, &decoded), cell, "{ty} {value:?}");
        }
    }
}

fn typed_value() -> impl Strategy<Value = (Type, Value)> {
    any_type().prop_flat_map(|ty| (Just(ty.clone()), value(&ty)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn values_round_trip((ty, value) in typed_value()) {
        let cell = cell_of(&ty, &value);
        prop_assert_eq!(cell::validate(&ty, &cell), Ok(()));
        let decoded = cell::decode(&ty, &cell).unwrap();
        prop_assert_eq!(cell_of(&ty, &decoded), cell);
        // NaN is not equal to itself, so do not compare it.
        if !format!("{value:?}").contains("NaN") {
            prop_assert_eq!(decoded, value);
        }
    }

    #[test]
    fn canonical_forms_are_final(ty in any_type(), bytes in proptest::collection::vec(any::<u8>(), 0..24)) {
        let mut once = Vec::new();
        if cell::canonical_key(&ty, &bytes, &mut once).is_ok() {
            prop_assert_eq!(values::canonical(&ty, &once), once);
        } else {
            prop_assert!(once.is_empty());
        }
    }

    /// Checks that a damaged cell causes no panic, and that `decode` and `validate` both accept or
    /// both reject it.
    #[test]
    fn damaged_cells_do_not_panic(
        (ty, value) in typed_value(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut cell = cell_of(&ty, &value);
        if !cell.is_empty() {
            let at = at.index(cell.len());
            cell[at] = byte;
            for bytes in [&cell[..], &cell[..cut.index(cell.len())]] {
                prop_assert_eq!(cell::decode(&ty, bytes).map(drop), cell::validate(&ty, bytes));
            }
        }
    }

    #[test]
    fn garbage_does_not_panic(ty in any_type(), bytes in proptest::collection::vec(prop_oneof![Just(0_u8), Just(1), any::<u8>()], 0..40)) {
        prop_assert_eq!(cell::decode(&ty, &bytes).map(drop), cell::validate(&ty, &bytes));
    }
}

/// Checks that empty fields of tuples become null. Cassandra can store an empty field of every
/// type. Empty elements of a list remain an error, because elements cannot be null.
#[test]
fn makes_empty_fields_null() {
    let pair = Type::Tuple(vec![Type::Int, Type::Text]);
    let cell = [0_i32.to_be_bytes(), 0_i32.to_be_bytes()].concat();
    let with_null = [(-1_i32).to_be_bytes(), 0_i32.to_be_bytes()].concat();
    assert_eq!(
        cell::with_empty_fields_null(&pair, &cell),
        Some(with_null.clone())
    );
    assert_eq!(cell::with_empty_fields_null(&pair, &with_null), None);
    let pairs = Type::List(Box::new(pair));
    let in_list = |cell: &[u8]| [&1_i32.to_be_bytes()[..], &8_i32.to_be_bytes(), cell].concat();
    let found = cell::with_empty_fields_null(&pairs, &in_list(&cell));
    assert_eq!(found, Some(in_list(&with_null)));
    let ints = Type::List(Box::new(Type::Int));
    let cell = [1_i32.to_be_bytes(), 0_i32.to_be_bytes()].concat();
    assert_eq!(cell::with_empty_fields_null(&ints, &cell), None);
    for length in 0..cell.len() {
        assert_eq!(cell::with_empty_fields_null(&ints, &cell[..length]), None);
    }
}
