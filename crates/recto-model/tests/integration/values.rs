//! Strategies that generate values of every type, for property tests.
#![allow(dead_code, reason = "each suite uses a part")]

use std::sync::Arc;

use bigdecimal::BigDecimal;
use num_bigint::{BigInt, Sign};
use proptest::collection::vec;
use proptest::prelude::*;
use recto_model::types::UdtType;
use recto_model::{Type, Value, cell, extremes};
use uuid::Uuid;

/// Returns the cell (encoded form) of a value.
pub(crate) fn cell_of(ty: &Type, value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    cell::encode(ty, value, &mut out).unwrap();
    out
}

/// Returns the canonical form of a cell, which keys contain.
pub(crate) fn canonical(ty: &Type, cell: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    cell::canonical_key(ty, cell, &mut out).unwrap();
    out
}

fn varint() -> impl Strategy<Value = BigInt> {
    let sign = prop_oneof![Just(Sign::Plus), Just(Sign::Minus)];
    (sign, vec(any::<u8>(), 0..40)).prop_map(|(sign, bytes)| BigInt::from_bytes_be(sign, &bytes))
}

/// Returns a strategy for decimals with few digits and close scales, so that equal values with
/// different scales are frequent.
fn decimal() -> BoxedStrategy<BigDecimal> {
    prop_oneof![
        (-2_000_i64..2_000, -4_i64..4).prop_map(|(unscaled, scale)| BigDecimal::new(unscaled.into(), scale)),
        (-200_i64..200, 36_i64..42).prop_map(|(unscaled, scale)| BigDecimal::new(unscaled.into(), scale)),
        (varint(), -200_i64..200).prop_map(|(unscaled, scale)| BigDecimal::new(unscaled, scale)),
        (varint(), any::<i32>()).prop_map(|(unscaled, scale)| BigDecimal::new(unscaled, scale.into())),
        (varint(), 0_u32..60, -70_i64..70).prop_map(|(unscaled, zeros, scale)| {
            BigDecimal::new(unscaled * BigInt::from(10).pow(zeros), scale)
        }),
    ]
    .boxed()
}

/// Returns a strategy for texts with characters at the limits of text encodings and of the escapes
/// in keys.
fn text() -> BoxedStrategy<String> {
    let letter = prop_oneof![
        Just('\0'),
        Just('\u{1}'),
        Just('a'),
        Just('b'),
        Just('\u{7f}'),
        Just('\u{ff}'),
        Just('\u{ffff}'),
        Just('\u{10ffff}'),
        any::<char>()
    ];
    vec(letter, 0..12).prop_map(String::from_iter).boxed()
}

fn blob() -> BoxedStrategy<Vec<u8>> {
    let byte = prop_oneof![Just(0_u8), Just(1), Just(0xFE), Just(0xFF), any::<u8>()];
    vec(byte, 0..12).boxed()
}

fn uuid() -> BoxedStrategy<[u8; 16]> {
    let nibble = prop_oneof![Just(1_u8), 0_u8..16];
    let byte = prop_oneof![Just(0_u8), Just(0x7F), Just(0x80), Just(0xFF), any::<u8>()];
    (proptest::array::uniform16(byte), nibble)
        .prop_map(|(mut bytes, version)| {
            bytes[6] = bytes[6] & 0x0F | version << 4;
            bytes
        })
        .boxed()
}

fn inet() -> BoxedStrategy<std::net::IpAddr> {
    let byte = || prop_oneof![Just(0_u8), Just(1), Just(0xFF), any::<u8>()];
    prop_oneof![
        proptest::array::uniform4(byte()).prop_map(Into::into),
        proptest::array::uniform16(byte()).prop_map(Into::into),
    ]
    .boxed()
}

fn random(ty: &Type) -> BoxedStrategy<Value> {
    match ty {
        Type::Ascii => vec(prop_oneof![Just(0_u8), Just(1), Just(127), 0_u8..128], 0..12)
            .prop_map(|bytes| Value::Ascii(bytes.into_iter().map(char::from).collect()))
            .boxed(),
        Type::Text => text().prop_map(Value::Text).boxed(),
        Type::Blob => blob().prop_map(Value::Blob).boxed(),
        Type::Boolean => any::<bool>().prop_map(Value::Boolean).boxed(),
        Type::TinyInt => any::<i8>().prop_map(Value::TinyInt).boxed(),
        Type::SmallInt => any::<i16>().prop_map(Value::SmallInt).boxed(),
        Type::Int => any::<i32>().prop_map(Value::Int).boxed(),
        Type::BigInt => any::<i64>().prop_map(Value::BigInt).boxed(),
        Type::Varint => varint().prop_map(Value::Varint).boxed(),
        Type::Decimal => decimal().prop_map(Value::Decimal).boxed(),
        Type::Float => any::<u32>()
            .prop_map(|bits| Value::Float(f32::from_bits(bits)))
            .boxed(),
        Type::Double => any::<u64>()
            .prop_map(|bits| Value::Double(f64::from_bits(bits)))
            .boxed(),
        Type::Date => any::<i32>().prop_map(Value::Date).boxed(),
        Type::Time => (0..=cell::MAX_TIME_NANOS).prop_map(Value::Time).boxed(),
        Type::Timestamp => any::<i64>().prop_map(Value::Timestamp).boxed(),
        Type::TimeUuid => uuid()
            .prop_map(|mut bytes| {
                bytes[6] = bytes[6] & 0x0F | 0x10;
                Value::TimeUuid(Uuid::from_bytes(bytes))
            })
            .boxed(),
        Type::Uuid => uuid()
            .prop_map(|bytes| Value::Uuid(Uuid::from_bytes(bytes)))
            .boxed(),
        Type::Inet => inet().prop_map(Value::Inet).boxed(),
        Type::Duration => (any::<bool>(), 0..=i32::MAX, 0..=i32::MAX, 0..=i64::MAX)
            .prop_map(|(negative, months, days, nanoseconds)| {
                let sign = if negative { -1 } else { 1 };
                Value::Duration {
                    months: months * sign,
                    days: days * sign,
                    nanoseconds: nanoseconds * i64::from(sign),
                }
            })
            .boxed(),
        nested => nested_value(nested),
    }
}

fn nested_value(ty: &Type) -> BoxedStrategy<Value> {
    let fields = |types: Vec<Type>| {
        types
            .iter()
            .map(|ty| proptest::option::of(value(ty)))
            .collect::<Vec<_>>()
    };
    let strategy = match ty {
        Type::List(element) => vec(value(element), 0..4).prop_map(Value::List).boxed(),
        Type::Set(element) => vec(value(element), 0..4).prop_map(Value::Set).boxed(),
        Type::Map(key, element) => vec((value(key), value(element)), 0..2)
            .prop_map(Value::Map)
            .boxed(),
        Type::Tuple(types) => fields(types.clone()).prop_map(Value::Tuple).boxed(),
        Type::Udt(udt) => fields(udt.fields.iter().map(|(_, ty)| ty.clone()).collect())
            .prop_map(Value::Udt)
            .boxed(),
        Type::Vector(element, dimension) => vec(value(element), usize::from(*dimension))
            .prop_map(Value::Vector)
            .boxed(),
        scalar => panic!("{scalar} is not nested"),
    };
    // Encode and decode the value, which makes sets and maps sorted and without duplicates.
    let ty = ty.clone();
    strategy
        .prop_map(move |value| cell::decode(&ty, &cell_of(&ty, &value)).unwrap())
        .boxed()
}

/// Returns a strategy for values of a type. One in four values is extreme, if the type has an
/// order.
pub(crate) fn value(ty: &Type) -> BoxedStrategy<Value> {
    if !ty.is_orderable() {
        return random(ty);
    }
    prop_oneof![3 => random(ty), 1 => proptest::sample::select(extremes::values(ty))].boxed()
}

/// Returns types of every kind without an order, including nested types.
pub(crate) fn other_types() -> Vec<Type> {
    let boxed = |ty| Box::new(ty);
    let udt = Type::Udt(Arc::new(UdtType {
        name: "address".to_owned(),
        fields: vec![
            ("street".to_owned(), Type::Text),
            ("numbers".to_owned(), Type::Set(boxed(Type::SmallInt))),
        ],
    }));
    vec![
        Type::Duration,
        Type::List(boxed(Type::Text)),
        Type::Set(boxed(Type::Decimal)),
        Type::Set(boxed(Type::TimeUuid)),
        Type::Map(boxed(Type::Inet), boxed(Type::Blob)),
        Type::Map(boxed(Type::Text), boxed(Type::List(boxed(Type::Varint)))),
        Type::Tuple(vec![Type::Int, Type::Text, Type::Timestamp]),
        udt.clone(),
        Type::List(boxed(udt)),
        Type::Vector(boxed(Type::Float), 3),
        Type::Vector(boxed(Type::SmallInt), 2),
        Type::Vector(boxed(Type::Text), 2),
        Type::Vector(boxed(Type::Vector(boxed(Type::Double), 2)), 2),
        Type::Vector(boxed(Type::Duration), 2),
    ]
}

/// Returns all types that the test suites cover.
pub(crate) fn all_types() -> Vec<Type> {
    Type::ORDERABLE.into_iter().chain(other_types()).collect()
}

/// Returns a strategy for types whose values have an order.
pub(crate) fn order_type() -> impl Strategy<Value = Type> {
    proptest::sample::select(Type::ORDERABLE.to_vec())
}

/// Returns a strategy for types of all kinds.
pub(crate) fn any_type() -> impl Strategy<Value = Type> {
    proptest::sample::select(all_types())
}
