//! Tests of record JSON: how values are written, which forms are accepted, and the errors for other
//! forms.

use crate::values;

use std::str::FromStr as _;

use bigdecimal::BigDecimal;
use num_bigint::BigInt;
use proptest::prelude::*;
use recto_model::json::{
    JsonError, MAX_NUMBER_CHARS, from_json, from_json_text, from_text, to_json, to_text, write_cell,
};
use recto_model::{Type, Value, extremes};
use serde_json::{Value as Json, json};
use values::{all_types, any_type, cell_of, value};

fn udt() -> Type {
    use recto_model::types::UdtType;
    Type::Udt(std::sync::Arc::new(UdtType {
        name: "address".to_owned(),
        fields: vec![
            ("street".to_owned(), Type::Text),
            ("number".to_owned(), Type::Int),
        ],
    }))
}

fn boxed(ty: Type) -> Box<Type> {
    Box::new(ty)
}

/// Checks that each accepted JSON is read, and that the value is written in the expected JSON.
#[test]
fn values_look_as_they_should() {
    let cases: Vec<(Type, Json, Json)> = vec![
        (Type::Boolean, json!(true), json!(true)),
        (Type::TinyInt, json!(-128), json!(-128)),
        (Type::Int, json!(5.0), json!(5)),
        (Type::Float, json!(0.1), json!(0.1)),
        (Type::Float, json!(1), json!(1.0)),
        (Type::Float, json!("NaN"), json!("NaN")),
        (Type::Double, json!("-Infinity"), json!("-Infinity")),
        (Type::Double, json!(-0.0), json!(-0.0)),
        (Type::BigInt, json!(i64::MIN), json!("-9223372036854775808")),
        (Type::BigInt, json!("42"), json!("42")),
        (Type::Varint, json!(u64::MAX), json!("18446744073709551615")),
        (Type::Varint, json!("-0012"), json!("-12")),
        (Type::Decimal, json!("12.50"), json!("12.50")),
        (Type::Decimal, json!(12.5), json!("12.5")),
        (Type::Decimal, json!(3.0), json!("3.0")),
        (Type::Decimal, json!(1e-7), json!("1E-7")),
        (Type::Decimal, json!("1e3"), json!("1E+3")),
        (Type::Decimal, json!("-0.000001"), json!("-0.000001")),
        (Type::Decimal, json!("0.00"), json!("0.00")),
        (Type::Decimal, json!("123e-2147483647"), json!("1.23E-2147483645")),
        (Type::Date, json!("2000-02-29"), json!("2000-02-29")),
        (Type::Date, json!("-0044-03-15"), json!("-0044-03-15")),
        (Type::Time, json!("10:00:01"), json!("10:00:01.000000000")),
        (Type::Time, json!("23:59:59.5"), json!("23:59:59.500000000")),
        (
            Type::Timestamp,
            json!("2013-01-01T10:00:00Z"),
            json!("2013-01-01T10:00:00.000Z"),
        ),
        (
            Type::Timestamp,
            json!("2013-01-01T01:00:00.5+02:00"),
            json!("2012-12-31T23:00:00.500Z"),
        ),
        (
            Type::Timestamp,
            json!("2013-01-01t01:00:00.120000-00:30"),
            json!("2013-01-01T01:30:00.120Z"),
        ),
        (
            Type::Timestamp,
            json!("9999-12-31T23:59:59.999-01:00"),
            json!("+10000-01-01T00:59:59.999Z"),
        ),
        (
            Type::Uuid,
            json!("CC520882-9507-44FB-8FC9-B349ECDEE658"),
            json!("cc520882-9507-44fb-8fc9-b349ecdee658"),
        ),
        (Type::Inet, json!("2001:DB8:0:0:0:0:0:1"), json!("2001:db8::1")),
        (Type::Inet, json!("::ffff:1.2.3.4"), json!("::ffff:1.2.3.4")),
        (Type::Blob, json!("3q2+7w=="), json!("3q2+7w==")),
        (Type::Blob, json!(""), json!("")),
        (Type::Blob, json!("\\xDEadbeef"), json!("3q2+7w==")),
        (Type::Blob, json!("\\x"), json!("")),
        // Text with `0x` is valid base64, and Recto may write a blob in this way, so read it as
        // base64.
        (Type::Blob, json!("0xff"), json!("0xff")),
        (Type::Duration, json!("P14M"), json!("P1Y2M")),
        (Type::Duration, json!("-P2WT90M0.5S"), json!("-P14DT1H30M0.5S")),
        (Type::Duration, json!("PT0S"), json!("PT0S")),
        (Type::Set(boxed(Type::Int)), json!([2, 1, 2]), json!([1, 2])),
        (
            Type::Map(boxed(Type::Text), boxed(Type::BigInt)),
            json!([["b", "1"], ["a", 2]]),
            json!([["a", "2"], ["b", "1"]]),
        ),
        (
            Type::Map(boxed(Type::Text), boxed(Type::BigInt)),
            json!({"b": "1", "a": 2}),
            json!([["a", "2"], ["b", "1"]]),
        ),
        (
            Type::Map(boxed(Type::Ascii), boxed(Type::List(boxed(Type::Int)))),
            json!({"": []}),
            json!([["", []]]),
        ),
        (
            Type::Tuple(vec![Type::Int, Type::Text]),
            json!([1, null]),
            json!([1, null]),
        ),
        (udt(), json!({"number": 3}), json!({"street": null, "number": 3})),
        (
            Type::Vector(boxed(Type::Float), 2),
            json!([1.5, 2]),
            json!([1.5, 2.0]),
        ),
    ];
    for (ty, read, written) in cases {
        let value = from_json_text(&ty, &read.to_string()).unwrap().unwrap();
        assert_eq!(to_json(&ty, &value), written, "{ty} {read}");
        check_round_trip(&ty, &value);
    }
    for ty in all_types() {
        assert_eq!(from_json(&ty, &Json::Null), Ok(None));
        assert_eq!(from_json_text(&ty, " null "), Ok(None));
    }
}

/// Cases of rejected JSON: the type, the JSON, and texts that the error must contain about the
/// expected and the found form.
type Refusals = Vec<(Type, Json, &'static str, &'static str)>;

fn check_refusals(cases: Refusals) {
    for (ty, read, expected, found) in cases {
        let by_text = from_json_text(&ty, &read.to_string()).unwrap_err();
        for error in [by_text, from_json(&ty, &read).unwrap_err()] {
            assert!(error.expected.contains(expected), "{ty} {read}: {error}");
            assert!(error.found.contains(found), "{ty} {read}: {error}");
        }
    }
}

#[test]
fn numbers_that_are_refused_are_told() {
    check_refusals(vec![
        (Type::TinyInt, json!(128), "from -128 to 127", "128"),
        (Type::Int, json!("5"), "whole number", "\"5\""),
        (Type::Int, json!(1.5), "whole number", "1.5"),
        (Type::Int, json!(2_147_483_648_i64), "2147483647", "2147483648"),
        (Type::BigInt, json!(u64::MAX), "64 bits", "18446744073709551615"),
        (Type::BigInt, json!(1e19), "64 bits", "1e+19"),
        (Type::Varint, json!("1_000"), "whole number", "1_000"),
        (Type::Varint, json!(""), "whole number", "\"\""),
        (Type::Decimal, json!("1."), "decimal", "1."),
        (Type::Decimal, json!("1e99999999999"), "decimal", "1e9"),
        (Type::Decimal, json!("NaN"), "decimal", "NaN"),
        (Type::Float, json!(1e39), "float", "1e+39"),
        (Type::Text, json!(1), "text", "1"),
        (Type::Float, json!("1.5"), "float", "1.5"),
        (Type::Boolean, json!("true"), "true or false", "\"true\""),
        (Type::Ascii, json!("é"), "ASCII", "é"),
    ]);
}

#[test]
fn dates_and_times_that_are_refused_are_told() {
    check_refusals(vec![
        (Type::Date, json!("2001-02-29"), "date", "2001-02-29"),
        (Type::Date, json!("10000-01-01"), "date", "10000"),
        (Type::Date, json!("-0000-01-01"), "date", "-0000"),
        (Type::Date, json!("+5881580-07-12"), "date", "+5881580"),
        (Type::Time, json!("24:00:00"), "time", "24:00:00"),
        (Type::Time, json!("10:00:00.1234567890"), "time", "10:00"),
        (
            Type::Timestamp,
            json!("2013-01-01"),
            "not a date alone",
            "2013-01-01",
        ),
        (Type::Timestamp, json!("2013-01-01T10:00:00"), "offset", "2013"),
        (
            Type::Timestamp,
            json!("2013-01-01T10:00:00.0001Z"),
            "whole milliseconds",
            "00.0001Z",
        ),
        (
            Type::Timestamp,
            json!("2013-01-01T10:00:60Z"),
            "timestamp",
            ":60Z",
        ),
        (
            Type::Timestamp,
            json!("+292278994-08-17T07:12:55.808Z"),
            "292278994",
            ".808Z",
        ),
        (Type::Timestamp, json!(1_700_000_000), "timestamp", "1700000000"),
    ]);
}

#[test]
fn other_scalars_that_are_refused_are_told() {
    check_refusals(vec![
        (
            Type::TimeUuid,
            json!("cc520882-9507-44fb-8fc9-b349ecdee658"),
            "version 1",
            "cc52",
        ),
        (
            Type::Uuid,
            json!("{cc520882-9507-44fb-8fc9-b349ecdee658}"),
            "UUID",
            "{cc52",
        ),
        (Type::Inet, json!("1.2.3"), "address", "1.2.3"),
        (Type::Blob, json!("3q2-7w=="), "base64", "3q2-"),
        (Type::Blob, json!("0xffff"), "hex such as", "0xffff"),
        (Type::Blob, json!("\\xabc"), "hex such as", "xabc"),
        (Type::Blob, json!("\\x+1"), "hex such as", "x+1"),
        (Type::Duration, json!("P1YT"), "duration", "P1YT"),
        (Type::Duration, json!("P1D1M"), "duration", "P1D1M"),
        (Type::Duration, json!("P99999999999D"), "duration", "P999"),
    ]);
}

#[test]
fn nested_values_that_are_refused_are_told() {
    let text_list = Type::List(boxed(udt()));
    check_refusals(vec![
        (
            Type::Tuple(vec![Type::Int]),
            json!([1, 2]),
            "array of 1",
            "array of 2",
        ),
        (
            Type::Vector(boxed(Type::Int), 2),
            json!([1, null]),
            "type int",
            "null at [1]",
        ),
        (
            text_list.clone(),
            json!([{}, {"number": "x"}]),
            "whole number",
            "\"x\" at [1].number",
        ),
        (text_list, json!([{"zip": 1}]), "street, number", "\"zip\" at [0]"),
        (
            Type::Map(boxed(Type::Decimal), boxed(Type::Int)),
            json!([["1.0", 1], ["1.00", 2]]),
            "twice",
            "an array of 2",
        ),
        (
            Type::Map(boxed(Type::Int), boxed(Type::Int)),
            json!([[1, "x"]]),
            "whole number",
            "\"x\" at [0][1]",
        ),
        (
            Type::Map(boxed(Type::Int), boxed(Type::Int)),
            json!({"1": 1}),
            "an array of [key, value]",
            "an object",
        ),
        (
            Type::Map(boxed(Type::Text), boxed(Type::Int)),
            json!("a"),
            "an object, or an array of [key, value]",
            "\"a\"",
        ),
        (
            Type::Map(boxed(Type::Text), boxed(Type::Int)),
            json!({"a": {"b": 1}}),
            "whole number",
            "an object at .a",
        ),
        (
            Type::Map(boxed(Type::Ascii), boxed(Type::Int)),
            json!({"é": 1}),
            "ASCII",
            "\"é\" at .é",
        ),
    ]);
}

/// Checks that a number in JSON text is read exactly as written, or rejected.
#[test]
fn numbers_are_what_is_written_or_refused() {
    let read = |ty: Type, text: &str| {
        let value = from_json_text(&ty, text).ok().flatten();
        value.map(|value| to_text(&ty, &value))
    };
    for (ty, text, expected) in [
        (Type::BigInt, "9007199254740993", Some("9007199254740993")),
        (Type::BigInt, "9007199254740993.0", Some("9007199254740993")),
        (Type::BigInt, "-9223372036854775808", Some("-9223372036854775808")),
        (Type::BigInt, "9223372036854775808", None),
        (Type::BigInt, "1e18", Some("1000000000000000000")),
        (Type::BigInt, "1.5e1", Some("15")),
        (Type::BigInt, "1.55e1", None),
        (Type::BigInt, "1000e-3", Some("1")),
        (Type::BigInt, "1e-1", None),
        (Type::BigInt, "0e99999", Some("0")),
        (Type::BigInt, "-0.000", Some("0")),
        (Type::BigInt, "1e99999999999999999999", None),
        (Type::Int, "5.0", Some("5")),
        (Type::Int, "5e0", Some("5")),
        (Type::Int, "2147483647.0000001", None),
        (Type::TinyInt, "1.28e2", None),
        (Type::Varint, "18446744073709551616", Some("18446744073709551616")),
        (Type::Varint, "1.000000000000000000000000000000001", None),
        (
            Type::Decimal,
            "1000000000000000000.1",
            Some("1000000000000000000.1"),
        ),
        (
            Type::Decimal,
            "999999999999999999.99",
            Some("999999999999999999.99"),
        ),
        (
            Type::Decimal,
            "0.1000000000000000055511151231257827",
            Some("0.1000000000000000055511151231257827"),
        ),
        (Type::Decimal, "4.35000000000000001", Some("4.35000000000000001")),
        (Type::Decimal, "1.10", Some("1.10")),
        (Type::Decimal, "1e400", Some("1E+400")),
        // A float or double is the nearest value that the type can express.
        (Type::Double, "0.1000000000000000055511151231257827", Some("0.1")),
        (Type::Double, "9007199254740993", Some("9007199254740992.0")),
        (Type::Double, "1e400", None),
        // A conversion through a double would round twice, and give 16777216.
        (Type::Float, "16777217.000000001", Some("16777218.0")),
    ] {
        assert_eq!(read(ty.clone(), text).as_deref(), expected, "{ty} {text}");
        let list = Type::List(boxed(ty.clone()));
        assert_eq!(
            read(list, &format!("[{text}]")).is_some(),
            expected.is_some(),
            "{ty} [{text}]"
        );
    }
}

/// Checks that an integer with an exponent has at most 309 digits, so that a short text cannot
/// require much memory.
#[test]
fn exponents_of_whole_numbers_have_a_limit() {
    let digits = |text: &str| {
        let value = from_json_text(&Type::Varint, text).ok().flatten()?;
        Some(to_text(&Type::Varint, &value).len())
    };
    assert_eq!(digits("1e308"), Some(309));
    assert_eq!(digits("1e309"), None);
    assert_eq!(digits("1e199999"), None);
    assert_eq!(digits("1e-199999"), None);
    assert_eq!(digits(&"1".repeat(1_000)), Some(1_000));
}

/// Checks that only float and double accept numbers that `serde_json` already parsed as doubles.
/// Their original text is unknown: 0.1 may have been written as 0.1000000000000000055.
#[test]
fn doubles_in_memory_are_for_doubles_only() {
    for ty in [Type::Int, Type::BigInt, Type::Varint, Type::Decimal] {
        for number in [json!(5.0), json!(1.5), json!(1e300)] {
            let error = from_json(&ty, &number).unwrap_err();
            assert!(error.expected.contains("use a string"), "{ty} {number}: {error}");
        }
        assert!(from_json(&ty, &json!(5)).unwrap().is_some());
    }
    assert_eq!(
        from_json(&Type::Double, &json!(0.1)),
        Ok(Some(Value::Double(0.1)))
    );
    assert_eq!(from_json(&Type::Float, &json!(0.1)), Ok(Some(Value::Float(0.1))));
}

#[test]
fn text_that_is_not_json_is_told_in_words() {
    let told = |text: &str| {
        from_json_text(&Type::List(boxed(Type::Int)), text)
            .unwrap_err()
            .found
    };
    for (text, words) in [
        ("[1", "it ends inside an array"),
        ("[nope]", "a word other than true, false or null"),
        ("[1 2]", "a comma or ] is expected here"),
        ("[1,]", "a value is expected here"),
        ("{\"a\": 1,}", "a name in double quotes is expected here"),
        ("[01]", "a number has a form that JSON does not allow"),
        ("[1] 2", "characters follow its end"),
        ("", "it ends where a value is expected"),
        ("'a'", "a value is expected here; put text in double quotes"),
    ] {
        assert!(told(text).contains(words), "{text}: {}", told(text));
    }
    let address = |text: &str| from_json_text(&udt(), text).unwrap_err();
    assert_eq!(
        address(r#"{"number": 1, "number": 2}"#).found,
        "an object with \"number\" twice"
    );
    let half: JsonError = address(r#"{"street": "\ud800"}"#);
    assert_eq!(half.found, "a string with an unpaired surrogate at .street");
}

#[test]
fn shortens_and_escapes_values_in_errors() {
    let error = from_json(&Type::Int, &json!("é\u{1b}[31m".repeat(50))).unwrap_err();
    assert!(error.found.len() < 400 && error.found.ends_with("…\""), "{error}");
    assert!(!error.found.contains('\u{1b}'));
    let long = "1".repeat(MAX_NUMBER_CHARS + 1);
    for ty in [Type::Varint, Type::Decimal] {
        from_text(&ty, &long).unwrap_err();
        from_text(&ty, &long[1..]).unwrap();
    }
}

/// Checks that text in a CSV cell or a filter literal is read like JSON without quotes, and is
/// never null.
#[test]
fn text_is_json_without_quotes() {
    for (ty, text, value) in [
        (Type::Int, "-5", Value::Int(-5)),
        (Type::Boolean, "false", Value::Boolean(false)),
        (Type::Float, "1e-3", Value::Float(0.001)),
        (Type::Double, "Infinity", Value::Double(f64::INFINITY)),
        (Type::Text, "null", Value::Text("null".into())),
        (
            Type::List(boxed(Type::Int)),
            " [1, 2]",
            Value::List(vec![Value::Int(1), Value::Int(2)]),
        ),
    ] {
        assert_eq!(from_text(&ty, text).unwrap(), value);
    }
    for (ty, text) in [
        (Type::Int, ""),
        (Type::Int, "5.0"),
        (Type::Boolean, "True"),
        (Type::Double, "inf"),
        (Type::Double, ".5"),
        (Type::Double, "1e999"),
        (Type::List(boxed(Type::Int)), "null"),
        (Type::List(boxed(Type::Int)), "[1"),
        (Type::List(boxed(Type::Int)), &"[".repeat(100_000)),
    ] {
        from_text(&ty, text).unwrap_err();
    }
}

#[test]
fn the_ends_of_time_have_their_text() {
    for (millis, text) in [
        (i64::MIN, "-292275055-05-16T16:47:04.192Z"),
        (i64::MAX, "+292278994-08-17T07:12:55.807Z"),
        (-62_167_219_200_000, "0000-01-01T00:00:00.000Z"),
        (-62_167_219_200_001, "-0001-12-31T23:59:59.999Z"),
        (253_402_300_800_000, "+10000-01-01T00:00:00.000Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
    ] {
        assert_eq!(to_text(&Type::Timestamp, &Value::Timestamp(millis)), text);
        assert_eq!(from_text(&Type::Timestamp, text), Ok(Value::Timestamp(millis)));
    }
}

fn check_round_trip(ty: &Type, value: &Value) {
    let cell = cell_of(ty, value);
    let written = to_json(ty, value);
    // Convert the JSON to text and back, as a transfer between processes does.
    let wire: Json = serde_json::from_str(&written.to_string()).unwrap();
    let read = from_json(ty, &wire).unwrap().unwrap();
    assert_eq!(cell_of(ty, &read), cell, "{ty} {written}");
    let mut written = Vec::new();
    write_cell(ty, &cell, &mut written).unwrap();
    let written = String::from_utf8(written).unwrap();
    assert_eq!(written, to_json(ty, value).to_string(), "{ty}");
    let text = to_text(ty, value);
    assert_eq!(cell_of(ty, &from_text(ty, &text).unwrap()), cell, "{ty} {text}");
}

#[test]
fn extremes_round_trip() {
    for ty in &Type::ORDERABLE {
        for value in extremes::values(ty) {
            check_round_trip(ty, &value);
        }
    }
}

fn any_json() -> impl Strategy<Value = Json> {
    let scalar = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        (-3_i64..3).prop_map(Json::from),
        any::<f64>().prop_map(Json::from),
        "[-+]?[0-9.eE:TZPYMDHSW-]{0,20}".prop_map(Json::from),
        any::<String>().prop_map(Json::from),
    ];
    scalar.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Json::from),
            proptest::collection::hash_map("street|numbers|x", inner, 0..3)
                .prop_map(|entries| Json::Object(entries.into_iter().collect())),
        ]
    })
}

/// Returns a strategy for texts of numbers, in usual and unusual forms.
fn number_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "-?(0|[1-9][0-9]{0,24})",
        "-?(0|[1-9][0-9]{0,24})\\.[0-9]{1,24}",
        "-?(0|[1-9][0-9]{0,3}0{0,20})(\\.[0-9]{1,3}0{0,20})?[eE][+-]?[0-9]{1,2}",
        // Numbers near the limits of doubles and integer types.
        (
            prop::sample::select(vec![
                "127",
                "32768",
                "2147483647",
                "9007199254740992",
                "9007199254740993",
                "9223372036854775807",
                "9223372036854775808",
                "18446744073709551616",
            ]),
            "(\\.0{0,20}[01])?(e0)?",
            any::<bool>(),
        )
            .prop_map(|(whole, rest, negative)| format!("{}{whole}{rest}", if negative { "-" } else { "" })),
        any::<f64>()
            .prop_filter("JSON has no such number", |number| number.is_finite())
            .prop_map(|number| format!("{number:e}")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    /// Checks that a number in JSON is read exactly or rejected. The crate `bigdecimal` gives the
    /// expected result.
    #[test]
    fn a_number_is_exact_or_refused(text in number_text()) {
        let written = BigDecimal::from_str(&text).unwrap();
        let whole = written.is_integer().then(|| written.with_scale(0).into_bigint_and_scale().0);
        let within = |bits: u32| {
            let limit = BigInt::from(1) << (bits - 1);
            whole.as_ref().is_some_and(|whole| *whole >= -limit.clone() && *whole < limit)
        };
        let read = |ty: &Type| from_json_text(ty, &text).ok().flatten().map(|value| to_text(ty, &value));
        let as_whole = whole.as_ref().map(ToString::to_string);
        for (ty, bits) in [(Type::TinyInt, 8), (Type::SmallInt, 16), (Type::Int, 32), (Type::BigInt, 64)] {
            let expected = within(bits).then(|| as_whole.clone().unwrap());
            prop_assert_eq!(read(&ty), expected, "{} {}", ty, &text);
        }
        if text.len() < 300 && written.digits() < 300 && !text.contains(['e', 'E']) {
            prop_assert_eq!(read(&Type::Varint), as_whole.clone(), "varint {}", &text);
        } else if let Some(read) = read(&Type::Varint) {
            prop_assert_eq!(Some(read), as_whole.clone(), "varint {}", &text);
        }
        let decimal = from_json_text(&Type::Decimal, &text).unwrap();
        let Some(Value::Decimal(decimal)) = decimal else { panic!("{decimal:?}") };
        prop_assert_eq!(&decimal, &written);
        prop_assert_eq!(decimal.as_bigint_and_scale().1, written.as_bigint_and_scale().1);
        let double: f64 = text.parse().unwrap();
        let expected = double.is_finite().then_some(Value::Double(double));
        prop_assert_eq!(from_json_text(&Type::Double, &text).ok().flatten(), expected);
        let float: f32 = text.parse().unwrap();
        let expected = float.is_finite().then_some(Value::Float(float));
        prop_assert_eq!(from_json_text(&Type::Float, &text).ok().flatten(), expected);
        // If the number was already parsed by `serde_json`, the result must be the same, or a
        // rejection.
        let Ok(json) = serde_json::from_str::<Json>(&text) else { return Ok(()) };
        for ty in [Type::Int, Type::BigInt, Type::Varint, Type::Decimal, Type::Double] {
            if let Ok(value) = from_json(&ty, &json) {
                prop_assert_eq!(&value, &from_json_text(&ty, &text).unwrap(), "{} {}", ty, &text);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn values_round_trip((ty, value) in any_type().prop_flat_map(|ty| (Just(ty.clone()), value(&ty)))) {
        check_round_trip(&ty, &value);
    }

    #[test]
    fn every_millisecond_round_trips(millis in any::<i64>(), shift in 0..63_u32) {
        check_round_trip(&Type::Timestamp, &Value::Timestamp(millis >> shift));
        check_round_trip(&Type::Date, &Value::Date((millis >> 32 >> (shift / 2)) as i32));
    }

    #[test]
    fn every_float_round_trips(bits in any::<u32>()) {
        check_round_trip(&Type::Float, &Value::Float(f32::from_bits(bits)));
    }

    #[test]
    fn garbage_does_not_panic(ty in any_type(), json in any_json()) {
        if let Ok(Some(value)) = from_json(&ty, &json) {
            check_round_trip(&ty, &value);
        }
        if let Json::String(text) = &json {
            let _ = from_text(&ty, text);
        }
    }
}
