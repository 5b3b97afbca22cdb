//! Tests of Rust types as fields: they are written as the cells (encoded values) of their CQL
//! types, and read from them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use recto_model::cell;
use recto_model::native::{Ascii, Blob, CqlDuration, Date, FieldType, Time, TimeUuid, Timestamp};
use recto_model::{Type, Value};
use uuid::Uuid;

/// Checks that `native`, a Rust value, and `value`, its decoded form, have the same encoded cell,
/// and that the cell can be read as either.
fn same<T: FieldType + PartialEq + Debug>(native: &T, value: &Value) {
    let ty = T::field_type();
    let (mut bytes, mut expected) = (b"before".to_vec(), b"before".to_vec());
    assert!(native.write_cell(&mut bytes).unwrap());
    cell::encode(&ty, value, &mut expected).unwrap();
    assert_eq!(bytes, expected, "{native:?}");
    assert_eq!(&T::read_cell(Some(&bytes[6..])).unwrap(), native);
    assert_eq!(&T::from_value(Some(value.clone())).unwrap(), native);
    assert_eq!(native.to_value().unwrap().as_ref(), Some(value));
    let error = T::read_cell(None).unwrap_err().to_string();
    assert!(error.contains("null"), "{error}");
}

proptest! {
    #[test]
    fn simple_types_are_their_cells(
        bits in any::<[u8; 16]>(), text in ".*", flag in any::<bool>(), number in any::<i64>(), float in any::<f64>(),
    ) {
        same(&flag, &Value::Boolean(flag));
        same(&(number as i8), &Value::TinyInt(number as i8));
        same(&(number as i16), &Value::SmallInt(number as i16));
        same(&(number as i32), &Value::Int(number as i32));
        same(&number, &Value::BigInt(number));
        same(&float, &Value::Double(float));
        same(&(float as f32), &Value::Float(float as f32));
        same(&text, &Value::Text(text.clone()));
        same(&Blob::from(text.as_bytes()), &Value::Blob(text.clone().into_bytes()));
        same(&Date(number as i32), &Value::Date(number as i32));
        same(&Timestamp(number), &Value::Timestamp(number));
        same(&Time(number & 0xFFFF_FFFF), &Value::Time(number & 0xFFFF_FFFF));
        same(&num_bigint::BigInt::from(number), &Value::Varint(number.into()));
        same(&Uuid::from_bytes(bits), &Value::Uuid(Uuid::from_bytes(bits)));
        let mut version_1 = bits;
        version_1[6] = version_1[6] & 0x0F | 0x10;
        let uuid = Uuid::from_bytes(version_1);
        same(&TimeUuid::try_from(uuid).unwrap(), &Value::TimeUuid(uuid));
        let ascii: String = text.chars().filter(char::is_ascii).collect();
        same(&Ascii::try_from(ascii.clone()).unwrap(), &Value::Ascii(ascii));
    }

    #[test]
    fn any_bytes_read_or_are_refused_as_the_cell_is(bytes in prop::collection::vec(any::<u8>(), 0..20)) {
        fn agrees<T: FieldType>(bytes: &[u8]) {
            assert_eq!(T::read_cell(Some(bytes)).is_ok(), cell::validate(&T::field_type(), bytes).is_ok());
        }
        agrees::<bool>(&bytes);
        agrees::<i8>(&bytes);
        agrees::<i16>(&bytes);
        agrees::<i32>(&bytes);
        agrees::<i64>(&bytes);
        agrees::<f32>(&bytes);
        agrees::<f64>(&bytes);
        agrees::<String>(&bytes);
        agrees::<Blob>(&bytes);
        agrees::<Ascii>(&bytes);
        agrees::<Uuid>(&bytes);
        agrees::<TimeUuid>(&bytes);
        agrees::<Date>(&bytes);
        agrees::<Time>(&bytes);
        agrees::<Timestamp>(&bytes);
        agrees::<CqlDuration>(&bytes);
        agrees::<Vec<i32>>(&bytes);
        agrees::<(i32, Option<String>)>(&bytes);
        agrees::<[f32; 3]>(&bytes);
    }
}

#[test]
fn there_is_one_nan() {
    let odd = f64::from_bits(0xFFF8_0000_0000_0001);
    let mut bytes = Vec::new();
    odd.write_cell(&mut bytes).unwrap();
    assert_eq!(bytes, 0x7FF8_0000_0000_0000_u64.to_be_bytes());
}

#[test]
fn nested_types_are_their_cells() {
    let ints = |values: &[i32]| values.iter().map(|value| Value::Int(*value)).collect::<Vec<_>>();
    same(&vec![3, 1, 3], &Value::List(ints(&[3, 1, 3])));
    same(&BTreeSet::from([3, -1]), &Value::Set(ints(&[-1, 3])));
    same(
        &BTreeMap::from([(1, 2)]),
        &Value::Map(vec![(Value::Int(1), Value::Int(2))]),
    );
    same(&[1, 2, 3], &Value::Vector(ints(&[1, 2, 3])));
    same(
        &(1, None::<String>, true),
        &Value::Tuple(vec![Some(Value::Int(1)), None, Some(Value::Boolean(true))]),
    );
    assert_eq!(
        <Vec<BTreeMap<String, [i64; 2]>>>::field_type().to_string(),
        "list<map<text, vector<bigint, 2>>>"
    );
    let mut bytes = b"before".to_vec();
    assert!(vec![Some(1), None].write_cell(&mut bytes).is_err());
    assert_eq!(bytes, b"before");
    assert!(<[i32; 2]>::from_value(Some(Value::Vector(ints(&[1])))).is_err());
    assert!(Vec::<i32>::from_value(Some(Value::Int(1))).is_err());
}

#[test]
fn only_options_are_null() {
    let mut bytes = Vec::new();
    assert!(!None::<i32>.write_cell(&mut bytes).unwrap());
    assert!(bytes.is_empty());
    assert_eq!(Option::<i32>::read_cell(None), Ok(None));
    assert_eq!(Option::<i32>::read_cell(Some(&[0, 0, 0, 1])), Ok(Some(1)));
    assert!(Option::<i32>::read_cell(Some(&[1])).is_err());
    const { assert!(Option::<i32>::NULLABLE && !i32::NULLABLE) };
    assert_eq!(Option::<String>::field_type(), Type::Text);
}

#[test]
fn values_outside_their_domain_are_refused() {
    let mut bytes = Vec::new();
    assert!(Time(-1).write_cell(&mut bytes).is_err());
    assert!(Time(86_400_000_000_000).write_cell(&mut bytes).is_err());
    let mixed = CqlDuration {
        months: 1,
        days: -1,
        nanoseconds: 0,
    };
    assert!(mixed.write_cell(&mut bytes).is_err());
    assert!(bytes.is_empty());
    assert!(Ascii::try_from("é").is_err());
    assert!(TimeUuid::try_from(Uuid::nil()).is_err());
}

#[test]
fn times_convert_where_they_are_exact() {
    for text in [
        "1970-01-01",
        "1969-12-31",
        "2024-02-29",
        "-009999-01-01",
        "9999-12-31",
        "0000-03-01",
    ] {
        let civil: jiff::civil::Date = text.parse().unwrap();
        assert_eq!(
            jiff::civil::Date::try_from(Date::from(civil)),
            Ok(civil),
            "{text}"
        );
    }
    assert_eq!(Date::from(jiff::civil::date(1970, 1, 2)), Date(1));
    assert_eq!(Date::from(jiff::civil::date(1969, 12, 31)), Date(-1));
    assert!(jiff::civil::Date::try_from(Date(i32::MAX)).is_err());
    assert!(jiff::civil::Date::try_from(Date(i32::MIN)).is_err());
    for civil in [
        jiff::civil::Time::MIN,
        jiff::civil::Time::MAX,
        jiff::civil::time(1, 2, 3, 4),
    ] {
        assert_eq!(jiff::civil::Time::try_from(Time::from(civil)), Ok(civil));
    }
    assert!(jiff::civil::Time::try_from(Time(86_400_000_000_000)).is_err());
    assert!(jiff::civil::Time::try_from(Time(-1)).is_err());

    let before: jiff::Timestamp = "1969-12-31T23:59:59.9999Z".parse().unwrap();
    assert_eq!(Timestamp::from(before), Timestamp(-1));
    assert_eq!(
        jiff::Timestamp::try_from(Timestamp(-1)).map(Timestamp::from),
        Ok(Timestamp(-1))
    );
    assert!(jiff::Timestamp::try_from(Timestamp(i64::MAX)).is_err());
    for milliseconds in [0, 1, -1, 1_357_034_400_123, -62_135_596_800_000] {
        let system = SystemTime::try_from(Timestamp(milliseconds)).unwrap();
        assert_eq!(Timestamp::try_from(system), Ok(Timestamp(milliseconds)));
    }
    let just_before = SystemTime::UNIX_EPOCH - Duration::from_nanos(1);
    assert_eq!(Timestamp::try_from(just_before), Ok(Timestamp(-1)));
}
