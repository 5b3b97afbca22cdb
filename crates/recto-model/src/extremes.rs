//! Values at the limits of each order type, for tests of all code that compares, stores or prints values.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use num_bigint::BigInt;
use uuid::Uuid;

use crate::cell::MAX_TIME_NANOS;
use crate::decimals::BigDecimal;
use crate::{Type, Value};

/// Returns values of an orderable type that are likely to reveal errors, in ascending [order](crate::order)
/// without equal values. The values include the minimum and the maximum, zero, neighbors of such values,
/// negative numbers, the empty value, zero bytes, and UUIDs of several versions.
///
/// # Panics
/// If `ty` is not [orderable](Type::is_orderable).
pub fn values(ty: &Type) -> Vec<Value> {
    match ty {
        Type::Ascii => ascii().into_iter().map(Value::Ascii).collect(),
        Type::Text => text().into_iter().map(Value::Text).collect(),
        Type::Blob => blobs().into_iter().map(Value::Blob).collect(),
        Type::Boolean => vec![Value::Boolean(false), Value::Boolean(true)],
        Type::TinyInt => [i8::MIN, -127, -2, -1, 0, 1, 2, 126, i8::MAX]
            .map(Value::TinyInt)
            .to_vec(),
        Type::SmallInt => [i16::MIN, -257, -256, -255, -1, 0, 1, 127, 128, 255, 256, i16::MAX]
            .map(Value::SmallInt)
            .to_vec(),
        Type::Int => [
            i32::MIN,
            i32::MIN + 1,
            -65_536,
            -256,
            -1,
            0,
            1,
            255,
            256,
            65_536,
            i32::MAX - 1,
            i32::MAX,
        ]
        .map(Value::Int)
        .to_vec(),
        Type::BigInt => longs().into_iter().map(Value::BigInt).collect(),
        Type::Timestamp => longs().into_iter().map(Value::Timestamp).collect(),
        Type::Varint => varints().into_iter().map(Value::Varint).collect(),
        Type::Decimal => decimals().into_iter().map(Value::Decimal).collect(),
        Type::Float => floats().into_iter().map(Value::Float).collect(),
        Type::Double => doubles().into_iter().map(Value::Double).collect(),
        Type::Date => dates().into_iter().map(Value::Date).collect(),
        Type::Time => [
            0,
            1,
            255,
            256,
            43_200_000_000_000,
            MAX_TIME_NANOS - 1,
            MAX_TIME_NANOS,
        ]
        .map(Value::Time)
        .to_vec(),
        Type::TimeUuid => timeuuids().into_iter().map(Value::TimeUuid).collect(),
        Type::Uuid => uuids().into_iter().map(Value::Uuid).collect(),
        Type::Inet => addresses().into_iter().map(Value::Inet).collect(),
        _ => panic!("values of type {ty} have no order"),
    }
}

fn owned<const N: usize>(values: [&str; N]) -> Vec<String> {
    values.map(str::to_owned).to_vec()
}

fn ascii() -> Vec<String> {
    owned([
        "",
        "\0",
        "\0\0",
        "\0\u{1}",
        "\0a",
        "\u{1}",
        " ",
        "A",
        "Z",
        "a",
        "a\0",
        "a\0\0",
        "a\0\u{1}",
        "a\0b",
        "a\u{1}",
        "aa",
        "ab",
        "b",
        "\u{7f}",
        "\u{7f}\u{7f}",
    ])
}

/// Returns texts in ascending byte order, with UTF-8 characters of every length. Some pairs have
/// the opposite order in UTF-16.
fn text() -> Vec<String> {
    let mut values = ascii();
    values.extend(owned([
        "\u{80}",
        "é",
        "\u{7ff}",
        "\u{800}",
        "日",
        "日本",
        "\u{fffd}",
        "\u{ffff}",
        "\u{10000}",
        "😀",
        "\u{10ffff}",
        "\u{10ffff}\0",
        "\u{10ffff}\u{10ffff}",
    ]));
    values
}

fn blobs() -> Vec<Vec<u8>> {
    let mut values: Vec<Vec<u8>> = ascii().into_iter().map(String::into_bytes).collect();
    values.push(vec![0x80]);
    values.push(vec![0xFE, 0xFF]);
    values.push(vec![0xFF]);
    values.push(vec![0xFF, 0x00]);
    values.push(vec![0xFF, 0x00, 0xFF]);
    values.push(vec![0xFF, 0xFF]);
    values.push(vec![0xFF, 0xFF, 0x00]);
    values.push(vec![0xFF; 300]);
    // Insert a run of zeros that is longer than a machine word, at its position in the ascending
    // order.
    values.insert(3, [vec![0; 40], vec![1]].concat());
    values
}

fn longs() -> Vec<i64> {
    let int_edges = [
        i64::from(i32::MIN) - 1,
        i64::from(i32::MIN),
        i64::from(i32::MAX),
        i64::from(i32::MAX) + 1,
    ];
    let mut values = vec![i64::MIN, i64::MIN + 1, -62_167_219_200_001, -62_167_219_200_000];
    values.extend(&int_edges[..2]);
    values.extend([-256, -1, 0, 1, 255, 256]);
    values.extend(&int_edges[2..]);
    values.extend([
        1_700_000_000_000,
        253_402_300_799_999,
        253_402_300_800_000,
        i64::MAX - 1,
        i64::MAX,
    ]);
    values
}

/// Returns integers near the lengths at which a varint cell, or its key, needs another byte or
/// another form.
fn varints() -> Vec<BigInt> {
    let mut values = Vec::new();
    for bits in [
        7_u32, 8, 15, 16, 31, 63, 64, 127, 128, 959, 960, 1_024, 2_048, 100_000,
    ] {
        let power = BigInt::from(1) << bits;
        for neighbour in -1..=1 {
            let number = &power + BigInt::from(neighbour);
            values.extend([-&number, number]);
        }
    }
    values.extend((-2..=2).map(BigInt::from));
    values.sort();
    values.dedup();
    values
}

fn decimals() -> Vec<BigDecimal> {
    let decimal = |unscaled: i64, scale: i32| BigDecimal::new(BigInt::from(unscaled), scale.into());
    let mut positive = vec![
        decimal(1, i32::MAX),
        decimal(11, i32::MAX),
        decimal(99, 1_000),
        decimal(1, 100),
        decimal(1, 82),
        decimal(1, 81),
        decimal(9, 81),
        decimal(1, 80),
        decimal(1, 3),
        decimal(1, 2),
        decimal(11, 3),
        decimal(99, 3),
        decimal(1, 1),
        decimal(10_001, 5),
        decimal(11, 2),
        decimal(99, 2),
        decimal(1, 0),
        decimal(1_000_001, 6),
        decimal(101, 2),
        decimal(11, 1),
        decimal(99, 1),
        decimal(10, 0),
        decimal(1_234, 2),
        decimal(12_345, 3),
        decimal(99, 0),
        decimal(1, -2),
        decimal(101, 0),
        decimal(i64::MAX, 0),
        BigDecimal::new((BigInt::from(1) << 127) - 1, 0),
        BigDecimal::new(BigInt::from(1) << 127, 0),
        decimal(1, -79),
        decimal(1, -80),
        decimal(1, -81),
        decimal(1, -1_000),
        BigDecimal::new((BigInt::from(1) << 10_000) + 1, 0),
        decimal(1, i32::MIN + 1),
        decimal(1, i32::MIN),
        decimal(10, i32::MIN),
        decimal(12, i32::MIN),
        BigDecimal::new(BigInt::from(10).pow(50), i32::MIN.into()),
    ];
    let mut values: Vec<BigDecimal> = positive.iter().rev().map(|value| -value.clone()).collect();
    values.push(decimal(0, 0));
    values.append(&mut positive);
    values
}

fn floats() -> Vec<f32> {
    let mut values: Vec<f32> = vec![0.0, f32::from_bits(1), f32::from_bits(2)];
    values.extend([f32::MIN_POSITIVE.next_down(), f32::MIN_POSITIVE]);
    values.extend([
        0.1,
        1.0_f32.next_down(),
        1.0,
        1.0_f32.next_up(),
        16_777_216.0,
        f32::MAX,
        f32::INFINITY,
    ]);
    let negative: Vec<f32> = values.iter().rev().map(|value| -value).collect();
    [negative, values, vec![f32::NAN]].concat()
}

fn doubles() -> Vec<f64> {
    let mut values: Vec<f64> = vec![0.0, f64::from_bits(1), f64::from_bits(2)];
    values.extend([f64::MIN_POSITIVE.next_down(), f64::MIN_POSITIVE]);
    values.extend([
        0.1,
        1.0_f64.next_down(),
        1.0,
        1.0_f64.next_up(),
        1e22,
        f64::MAX,
        f64::INFINITY,
    ]);
    let negative: Vec<f64> = values.iter().rev().map(|value| -value).collect();
    [negative, values, vec![f64::NAN]].concat()
}

/// Returns dates near 0000-01-01, 1970-01-01 and 9999-12-31, in days since 1970-01-01.
fn dates() -> Vec<i32> {
    let mut values = vec![
        i32::MIN,
        i32::MIN + 1,
        -719_529,
        -719_528,
        -256,
        -1,
        0,
        1,
        255,
        256,
        11_016,
    ];
    values.extend([2_932_896, 2_932_897, i32::MAX - 1, i32::MAX]);
    values
}

fn parse<const N: usize>(texts: [&str; N]) -> Vec<Uuid> {
    texts
        .map(|text| Uuid::try_parse(text).expect("the literals of this file are UUIDs"))
        .to_vec()
}

/// Returns time UUIDs in ascending order. UUIDs of equal time are compared by their remaining bytes
/// as signed numbers: 80 is the minimum, 7f the maximum.
fn timeuuids() -> Vec<Uuid> {
    parse([
        "00000000-0000-1000-8080-808080808080",
        "00000000-0000-1000-8080-80808080807f",
        "00000000-0000-1000-80ff-ffffffffffff",
        "00000000-0000-1000-8000-000000000000",
        "00000000-0000-1000-807f-7f7f7f7f7f7f",
        "00000000-0000-1000-ff80-808080808080",
        "00000000-0000-1000-0080-000000000000",
        "00000000-0000-1000-7f7f-7f7f7f7f7f7f",
        "00000001-0000-1000-8080-808080808080",
        "ffffffff-0000-1000-8080-808080808080",
        "00000000-0001-1000-8080-808080808080",
        "ffffffff-ffff-1000-8080-808080808080",
        "00000000-0000-1001-8080-808080808080",
        "00000000-d8dc-11e6-a2de-cf8ecd4cf053",
        "2a92d750-d8dc-11e6-a2de-cf8ecd4cf053",
        "2a92d751-d8dc-11e6-80de-cf8ecd4cf053",
        "ffffffff-ffff-1fff-7f7f-7f7f7f7f7f7f",
    ])
}

/// Returns UUIDs in ascending order. The version is compared first. UUIDs of version 1 are then
/// compared by time and by unsigned bytes.
fn uuids() -> Vec<Uuid> {
    parse([
        "00000000-0000-0000-0000-000000000000",
        "00000000-0000-0000-0000-000000000001",
        "ffffffff-ffff-0fff-ffff-ffffffffffff",
        "00000000-0000-1000-0080-000000000000",
        "00000000-0000-1000-8000-000000000000",
        "00000000-0000-1000-8080-808080808080",
        "00000000-0000-1000-80ff-ffffffffffff",
        "ffffffff-0000-1000-8000-000000000000",
        "00000000-ffff-1000-8000-000000000000",
        "2a92d750-d8dc-11e6-a2de-cf8ecd4cf053",
        "00000000-0000-1fff-8000-000000000000",
        "00000000-0000-3000-8000-000000000000",
        "6fa459ea-ee8a-3ca4-894e-db77e160355e",
        "00000000-0000-4000-8000-000000000000",
        "cc520882-9507-44fb-8fc9-b349ecdee658",
        "cc520882-9507-44fc-8fc9-b349ecdee658",
        "cc520882-9508-4000-8fc9-b349ecdee658",
        "ffffffff-ffff-4fff-bfff-ffffffffffff",
        "886313e1-3b8a-5372-9b90-0c9aee199e5d",
        "018f3f2a-0000-7000-8000-000000000000",
        "018f3f2b-7c4d-7abc-8def-0123456789ab",
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
    ])
}

/// Returns IP addresses in ascending order. An IPv4 address is directly before the IPv6 addresses
/// that begin with its four bytes.
fn addresses() -> Vec<IpAddr> {
    let v6 = |segments: [u16; 8]| IpAddr::V6(Ipv6Addr::from(segments));
    let v4 = |octets: [u8; 4]| IpAddr::V4(Ipv4Addr::from(octets));
    vec![
        v4([0, 0, 0, 0]),
        v6([0; 8]),
        v6([0, 0, 0, 0, 0, 0, 0, 1]),
        v6([0, 0, 0, 0, 0, 0xFFFF, 0x0102, 0x0304]),
        v4([0, 0, 0, 1]),
        v6([0, 1, 0, 0, 0, 0, 0, 0]),
        v4([1, 2, 3, 4]),
        v6([0x0102, 0x0304, 0, 0, 0, 0, 0, 0]),
        v6([0x0102, 0x0304, 0xFFFF, 0, 0, 0, 0, 0]),
        v4([1, 2, 3, 5]),
        v4([10, 0, 0, 1]),
        v6([0x2001, 0x0DB8, 0, 0, 0, 0, 0, 1]),
        v6([0x2001, 0x0DB8, 0, 0, 1, 0, 0, 0]),
        v4([127, 255, 255, 255]),
        v4([128, 0, 0, 0]),
        v4([192, 0, 2, 1]),
        v6([0xFE80, 0, 0, 0, 0, 0, 0, 1]),
        v4([255, 255, 255, 255]),
        v6([0xFFFF; 8]),
    ]
}
