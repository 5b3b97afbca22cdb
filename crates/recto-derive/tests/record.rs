//! Tests of the derive macros: a struct declares the same schema as TOML, and records are read as
//! they were written.
#![allow(clippy::unwrap_used)]
#![allow(clippy::struct_field_names)] // a flight's number is called flight, as in the data

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use recto_derive::Record;
use recto_model::Cells;
use recto_model::native::{Ascii, Blob, CqlDuration, Date, Time, TimeUuid, Timestamp};
use recto_model::record::{NO_COLUMN, Record, RecordError};
use recto_model::schema::Schema;
use uuid::Uuid;

/// Replacement for the crate `recto`, which these tests cannot use because `recto` depends on the
/// macro.
mod renamed {
    pub(crate) mod __private {
        pub(crate) use recto_model as model;
    }
}

#[derive(Record, Debug, Clone, PartialEq)]
#[record(
    collection = "flights_by_carrier",
    key = ["time_hour", "carrier", "flight"],
    partition = ["carrier"],
    order = ["-time_hour"],
    writes = "append"
)]
#[record(crate = "renamed")]
struct Flight {
    time_hour: Timestamp,
    carrier: String,
    flight: i32,
    #[record(name = "destination")]
    dest: Option<String>,
    r#type: Option<i8>,
}

/// Tuple of six values, the maximum number in a tuple field.
type Six = (Uuid, bool, i8, i16, i32, f64);

/// Record with every field type.
#[derive(Record, Debug, Clone, PartialEq)]
#[record(collection = "everything", key = ["id"], writes = "overwrite", crate = "crate::renamed")]
struct Everything {
    id: Uuid,
    a: bool,
    b: i8,
    c: i16,
    d: i64,
    e: f32,
    f: f64,
    g: Ascii,
    h: Blob,
    i: num_bigint::BigInt,
    j: bigdecimal::BigDecimal,
    k: TimeUuid,
    l: IpAddr,
    m: Date,
    n: Time,
    o: CqlDuration,
    p: jiff::civil::Date,
    q: jiff::civil::Time,
    r: jiff::Timestamp,
    s: Vec<String>,
    t: BTreeSet<i32>,
    u: BTreeMap<String, Vec<i64>>,
    v: (i32, Option<String>),
    w: [f32; 3],
    x: Option<Vec<Six>>,
}

fn flight() -> Flight {
    Flight {
        time_hour: Timestamp(1_357_034_400_000),
        carrier: "UA".into(),
        flight: 1545,
        dest: Some("IAH".into()),
        r#type: None,
    }
}

/// Returns the record as stored: one cell (encoded value) for each field, in the order of the
/// fields.
fn cells<T: Record>(record: &T) -> Cells {
    let mut cells = Cells::new();
    for field in 0..T::field_names().len() {
        let mut bytes = Vec::new();
        let value = record.write(field, &mut bytes).unwrap();
        cells.push(value.then_some(&bytes));
    }
    cells
}

fn columns<T: Record>() -> Vec<u16> {
    (0..).take(T::field_names().len()).collect()
}

#[test]
fn the_derive_declares_what_toml_declares() {
    let schema = Schema::parse(
        r#"
        [collection.flights_by_carrier]
        fields = { time_hour = "timestamp", carrier = "text", flight = "int", destination = "text", type = "tinyint" }
        key = ["time_hour", "carrier", "flight"]
        partition = ["carrier"]
        order = ["-time_hour"]
        writes = "append"

        [collection.everything]
        key = ["id"]
        writes = "overwrite"
        [collection.everything.fields]
        id = "uuid"
        a = "boolean"
        b = "tinyint"
        c = "smallint"
        d = "bigint"
        e = "float"
        f = "double"
        g = "ascii"
        h = "blob"
        i = "varint"
        j = "decimal"
        k = "timeuuid"
        l = "inet"
        m = "date"
        n = "time"
        o = "duration"
        p = "date"
        q = "time"
        r = "timestamp"
        s = "list<text>"
        t = "set<int>"
        u = "map<text, list<bigint>>"
        v = "tuple<int, text>"
        w = "vector<float, 3>"
        x = "list<tuple<uuid, boolean, tinyint, smallint, int, double>>"
        "#,
    )
    .unwrap();
    assert_eq!(*schema.collections[0], Flight::collection());
    assert_eq!(*schema.collections[1], Everything::collection());
    assert_eq!(
        Flight::field_names(),
        ["time_hour", "carrier", "flight", "destination", "type"]
    );
}

/// Record with every option of a collection whose records can be updated.
#[derive(Record)]
#[record(
    collection = "members",
    key = ["id"],
    writes = "update",
    partition = ["team"],
    order = ["-joined", "name"],
    bucket(target = "10MB", shards = 4),
    nulls = "last",
    collate(name = "de"),
    rounding(joined = "1 day"),
    verify = false,
    unique = ["email", ["team", "name"]],
    crate = "renamed"
)]
#[record(view(name = "by_name", order = ["name", "joined"], bucket(rows = 1000), fields = ["email"], collate = "de"))]
#[record(view(name = "by_email", partition = ["email"], nulls = "skip", rounding = "1 month", order = ["joined"]))]
#[allow(dead_code)]
struct Member {
    id: i64,
    team: String,
    name: Option<String>,
    email: Option<String>,
    joined: Option<jiff::Timestamp>,
}

/// Record with every option of a collection whose records are only appended.
#[derive(Record)]
#[record(
    collection = "alarms",
    key = ["at", "id"],
    partition = [],
    order = ["-at"],
    writes = "append",
    bucket(time = "at", width = "1 month", keep = "1 year"),
    crate = "renamed"
)]
#[record(view(name = "by_kind", partition = ["kind"], order = ["-at"], bucket(target = "10MB", keep = "90 days")))]
#[allow(dead_code)]
struct Alarm {
    at: Timestamp,
    id: Uuid,
    kind: Option<String>,
}

#[derive(Record)]
#[record(collection = "orders", key = ["id"], attached = "shop.orders", crate = "renamed")]
#[record(view(name = "orders_by_day", partition = ["day"], order = ["-id"], nulls = "skip"))]
#[allow(dead_code)]
struct Order {
    id: i64,
    day: Date,
}

#[test]
fn the_derive_declares_all_that_toml_declares() {
    let schema = Schema::parse(
        r#"
        [collection.members]
        fields = { id = "bigint", team = "text", name = "text", email = "text", joined = "timestamp" }
        key = ["id"]
        writes = "update"
        partition = ["team"]
        order = ["-joined", "name"]
        bucket = { target = "10MB", shards = 4 }
        nulls = "last"
        collate = { name = "de" }
        rounding = { joined = "1 day" }
        verify = false
        unique = ["email", ["team", "name"]]

        [collection.members.view.by_name]
        order = ["name", "joined"]
        bucket = { rows = 1000 }
        fields = ["email"]
        collate = "de"

        [collection.members.view.by_email]
        partition = ["email"]
        nulls = "skip"
        rounding = "1 month"
        order = ["joined"]

        [collection.alarms]
        fields = { at = "timestamp", id = "uuid", kind = "text" }
        key = ["at", "id"]
        partition = []
        order = ["-at"]
        writes = "append"
        bucket = { time = "at", width = "1 month", keep = "1 year" }

        [collection.alarms.view.by_kind]
        partition = ["kind"]
        order = ["-at"]
        bucket = { target = "10MB", keep = "90 days" }

        [collection.orders]
        fields = { id = "bigint", day = "date" }
        key = ["id"]
        attached = "shop.orders"

        [collection.orders.view.orders_by_day]
        partition = ["day"]
        order = ["-id"]
        nulls = "skip"
        "#,
    )
    .unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(*schema.collections[0], Member::collection());
    assert_eq!(*schema.collections[1], Alarm::collection());
    assert_eq!(*schema.collections[2], Order::collection());
}

/// Record whose option `collate` needs a text field, but whose order field is an integer. The macro
/// accepts the struct, because it does not know types.
#[derive(Record)]
#[record(collection = "points", key = ["id"], order = ["score"], partition = ["id"], collate = "de", crate = "renamed")]
#[allow(dead_code)]
struct Point {
    id: i64,
    score: i64,
}

#[test]
#[should_panic(expected = "`collate` applies to order fields that are text or ascii")]
fn a_rule_about_types_holds_when_the_collection_is_asked_for() {
    let _ = Point::collection();
}

#[test]
fn cells_are_checked_by_the_types_of_fields() {
    let name = |name: &str| Flight::field_names().iter().position(|one| *one == name).unwrap();
    let (carrier, flight, destination) = (name("carrier"), name("flight"), name("destination"));
    Flight::check_cell(flight, Some(&[0, 0, 0, 1])).unwrap();
    Flight::check_cell(destination, None).unwrap();
    let error = Flight::check_cell(carrier, None).unwrap_err();
    assert_eq!(error, RecordError::Missing { field: "carrier" });
    let error = Flight::check_cell(flight, Some(&[0])).unwrap_err();
    assert_eq!(error.field(), "flight");
}

#[test]
fn fields_have_the_names_of_the_collection() {
    assert_eq!(Flight::FIELDS.dest.name(), "destination");
    assert_eq!(String::from(Flight::FIELDS.r#type), "type");
}

#[test]
fn records_come_back_as_they_were_written() {
    let flight = flight();
    let row = cells(&flight);
    assert_eq!(Flight::read(row.as_row(), &columns::<Flight>()).unwrap(), flight);
    let everything = Everything {
        id: Uuid::from_u128(7),
        a: true,
        b: i8::MIN,
        c: i16::MAX,
        d: i64::MIN,
        e: -0.0,
        f: f64::INFINITY,
        g: "plain".try_into().unwrap(),
        h: vec![0, 255].into(),
        i: num_bigint::BigInt::from(-129),
        j: "1.230".parse().unwrap(),
        k: Uuid::from_u128(0x0000_0000_0000_1000_8000_0000_0000_0000)
            .try_into()
            .unwrap(),
        l: "::1".parse().unwrap(),
        m: Date(i32::MIN),
        n: Time(86_399_999_999_999),
        o: CqlDuration {
            months: -1,
            days: 0,
            nanoseconds: -5,
        },
        p: jiff::civil::Date::MIN,
        q: jiff::civil::Time::MAX,
        r: "2013-01-01T10:00:00.123Z".parse().unwrap(),
        s: vec![String::new(), "ü".into()],
        t: [3, -1].into(),
        u: [("k".to_owned(), vec![1])].into(),
        v: (1, None),
        w: [1.0, 2.0, f32::MIN],
        x: Some(vec![(Uuid::nil(), false, 1, 2, 3, 4.0)]),
    };
    let row = cells(&everything);
    assert_eq!(
        Everything::read(row.as_row(), &columns::<Everything>()).unwrap(),
        everything
    );
    // Check that every cell has the type that the collection declares.
    for (cell, field) in row.iter().zip(&Everything::collection().fields) {
        recto_model::cell::validate(&field.ty, cell.unwrap()).unwrap();
    }
}

#[test]
fn fields_are_found_by_their_columns() {
    let flight = flight();
    let mut row = Cells::new();
    let written = cells(&flight);
    for index in [2, 1, 0] {
        row.push(written.get(index));
    }
    let read = Flight::read(row.as_row(), &[2, 1, 0, NO_COLUMN, NO_COLUMN]).unwrap();
    assert_eq!(read, Flight { dest: None, ..flight });
}

#[test]
fn names_fields_that_cannot_be_read() {
    let written = cells(&flight());
    let missing = Flight::read(written.as_row(), &[0, NO_COLUMN, 2, 3, 4]).unwrap_err();
    assert_eq!(missing, RecordError::Missing { field: "carrier" });
    let null = Flight::read(written.as_row(), &[0, 4, 2, 3, 4]).unwrap_err();
    assert_eq!(null, RecordError::Missing { field: "carrier" });
    let malformed = Flight::read(written.as_row(), &[0, 1, 3, 3, 4]).unwrap_err();
    assert_eq!(
        malformed.to_string(),
        "field `flight`: not an int: 3 bytes, not 4"
    );
}

/// Checks the error messages of the compiler for wrong attributes and types.
#[test]
#[ignore = "slow: builds crates of its own, a minute"]
fn reports_compile_errors_at_their_position() {
    trybuild::TestCases::new().compile_fail("tests/fail/*.rs");
}
