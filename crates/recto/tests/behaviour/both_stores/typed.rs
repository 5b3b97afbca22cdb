//! Checks that collections with a Rust record type behave like dynamic collections.

use std::collections::{HashMap, HashSet};

use bigdecimal::BigDecimal;
use futures::TryStreamExt;
use recto::filter::{Literal, field};
use recto::types::{Json, Timestamp};
use recto::{Collection, DynamicRecord, ErrorKind, FieldType, KeyText, Record, Recto, schema_of};
use serde_json::json;

use crate::common::stores::{kind_of, parse};
use crate::common::{Fresh, Subject};

#[derive(Debug, Clone, PartialEq, Record)]
#[record(collection = "readings", key = ["sensor", "slot"], partition = ["sensor"], order = ["slot"], writes = "overwrite")]
struct Reading {
    sensor: String,
    slot: i32,
    value: Option<f64>,
    unit: Option<String>,
}

/// Record type that does not match the collection: one field has another type, and one field does
/// not exist in the collection.
#[derive(Debug, Record)]
#[record(collection = "readings", key = ["sensor", "slot"], partition = ["sensor"], order = ["slot"], writes = "overwrite")]
struct Misread {
    sensor: String,
    slot: i32,
    value: Option<f32>,
    unit: Option<String>,
    colour: Option<String>,
}

pub(crate) async fn records_are_the_dynamic_ones(recto: Recto) {
    let readings = recto.collection::<Reading>().unwrap();
    let mut dynamic = Subject::new(&recto, "readings");
    let reading = |slot: i32| Reading {
        sensor: "typed".into(),
        slot,
        value: (slot % 2 == 0).then_some(f64::from(slot) / 2.0),
        unit: (slot % 3 == 0).then(|| "m".to_owned()),
    };
    readings
        .put_all(&[reading(0), reading(1), reading(2)])
        .await
        .unwrap();
    dynamic
        .put([
            json!({ "sensor": "typed", "slot": 3, "unit": "m" }),
            json!({ "sensor": "typed", "slot": 4, "value": 2 }),
        ])
        .await;

    // A typed query must decode records that a dynamic collection wrote, and continue from cursors
    // of a dynamic query. The reverse must also work.
    let filter = r#"sensor = "typed""#;
    let typed_page = readings.query().filter(filter).first(2).await.unwrap();
    assert_eq!(typed_page.items(), [reading(0), reading(1)]);
    let dynamic_page = dynamic
        .text(filter, "")
        .first(2)
        .after(typed_page.next_cursor().unwrap())
        .await
        .unwrap();
    assert_eq!(
        dynamic_page.items()[0].to_json(),
        *json!({ "sensor": "typed", "slot": 2, "value": 1.0 })
            .as_object()
            .unwrap()
    );
    let rest = readings
        .query()
        .filter(filter)
        .page_size(1)
        .page_token(dynamic_page.next_cursor().unwrap());
    let rest: Vec<Reading> = rest.stream().try_collect().await.unwrap();
    assert_eq!(rest, [reading(4)]);

    assert_eq!(
        readings.get(("typed".to_owned(), 3)).await.unwrap(),
        Some(reading(3))
    );
    readings.delete(("typed".to_owned(), 3)).await.unwrap();
    assert_eq!(readings.get(("typed".to_owned(), 3)).await.unwrap(), None);
}

pub(crate) async fn a_type_that_differs_is_refused(recto: Recto) {
    let error = recto.collection::<Misread>().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SchemaMismatch);
    for part in ["value", "colour"] {
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[derive(Debug, Clone, Copy, PartialEq, FieldType)]
enum Status {
    #[record(name = "typed open")]
    Open,
    Sent,
}

#[derive(Debug, Clone, Copy, PartialEq, FieldType)]
struct OrderId(i64);

#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
struct Address {
    street: String,
    floors: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Record)]
#[record(
    collection = "orders",
    key = ["status", "created", "id", "total"],
    partition = ["status"],
    order = ["created", "id", "total"],
    writes = "overwrite"
)]
struct Order {
    status: Status,
    created: jiff::Timestamp,
    id: OrderId,
    total: BigDecimal,
    address: Option<Json<Address>>,
    tags: HashMap<String, i32>,
    seen: HashSet<i32>,
}

pub(crate) async fn accepts_field_values_as_keys_and_conditions(recto: Recto) {
    let orders = recto.collection::<Order>().unwrap();
    // Use a time finer than a millisecond, because real clocks return such times.
    let created: jiff::Timestamp = "2013-01-31T10:00:00.123456789Z".parse().unwrap();
    let total: BigDecimal = "12.50".parse().unwrap();
    let order = Order {
        status: Status::Open,
        created,
        id: OrderId(7),
        total: total.clone(),
        address: Some(Json(Address {
            street: "High".into(),
            floors: vec![1, 2],
        })),
        tags: HashMap::from([("a".into(), 1), ("b".into(), 2)]),
        seen: HashSet::from([3, 4]),
    };
    orders.put(&order).await.unwrap();
    let stored = Order {
        created: "2013-01-31T10:00:00.123Z".parse().unwrap(),
        ..order.clone()
    };

    // The record must be found by the original time, and by equivalent key values.
    let at = Timestamp::from(created);
    assert_eq!(
        orders
            .get((Status::Open, created, OrderId(7), &total_text()))
            .await
            .unwrap(),
        Some(stored.clone())
    );
    assert_eq!(
        orders.get((Status::Open, at, 7_u64, total)).await.unwrap(),
        Some(stored.clone())
    );
    let name = "typed open".to_owned();
    assert_eq!(
        orders.get((&name, Some(at), 7_usize, "12.5")).await.unwrap(),
        Some(stored.clone())
    );
    assert_eq!(orders.get((Status::Sent, at, 7, "12.5")).await.unwrap(), None);
    let error = orders
        .get((Status::Open, None::<Timestamp>, 7, "12.5"))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("null"), "{error}");

    let open = || field("status").equal_to(Status::Open);
    for filter in [
        open(),
        open().and(field("created").equal_to(created)),
        open().and(field("created").at_least(Some(at))),
        open().and(field("created").at_most(jiff::Timestamp::now())),
        open()
            .and(field("created").equal_to(at))
            .and(field("id").equal_to(OrderId(7))),
        open()
            .and(field("created").equal_to(at))
            .and(field("id").any_of([7_u64, 8])),
        field("status").equal_to(&name),
    ] {
        let found = orders.query().matching(filter.clone()).await.unwrap();
        assert_eq!(found.items(), [stored.clone()], "{filter:?}");
    }
    let from = [Literal::from(created), Literal::from(7_u32)];
    let found = orders.query().matching(open()).from(from).await.unwrap();
    assert_eq!(found.len(), 1);
    for value in [
        Literal::from(None::<Timestamp>),
        Literal::from(recto::types::Time(-1)),
    ] {
        let filter = open().and(field("created").at_least(value));
        let error = orders.query().matching(filter).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.field()),
            (ErrorKind::InvalidQuery, Some("created")),
            "{error}"
        );
    }

    // Store a status that is no variant of the enum.
    let subject = Subject::new(&recto, "orders");
    let unknown = json!({ "status": "Sent", "created": "2013-01-31T10:00:00Z", "id": 1, "total": "1",
        "address": "no json" });
    subject
        .collection
        .put(&subject.record(&subject.row(&unknown)))
        .await
        .unwrap();
    let error = orders
        .query()
        .matching(field("status").equal_to(Status::Sent))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("address"), "{error}");
}

fn total_text() -> String {
    "12.50".to_owned()
}

#[derive(Debug, Clone, PartialEq, Record)]
#[record(collection = "tickets", key = ["desk", "id"], partition = ["desk"], order = ["id"])]
struct Ticket {
    desk: String,
    id: i64,
    title: String,
    status: Status,
    address: Option<Json<Address>>,
    due: Option<jiff::Timestamp>,
    seats: Option<i32>,
}

impl Ticket {
    fn new(id: i64) -> Self {
        Self {
            desk: "a".into(),
            id,
            title: "Printer".into(),
            status: Status::Open,
            address: None,
            due: None,
            seats: None,
        }
    }
}

/// Returns a new store with a collection of tickets that has a ticket for each id in `ids`.
async fn tickets(recto: &Recto, ids: std::ops::Range<i64>) -> (Recto, Collection<Ticket>) {
    let own = Fresh::new(kind_of(recto)).open().await;
    own.apply(&schema_of([Ticket::collection()])).await.unwrap();
    let tickets = own.collection::<Ticket>().unwrap();
    for id in ids {
        tickets.put(&Ticket::new(id)).await.unwrap();
    }
    (own, tickets)
}

/// Stores a ticket as a program with another record type would, so that it may be unreadable as
/// `Ticket`.
async fn put_foreign(recto: &Recto, ticket: serde_json::Value) {
    let dynamic = recto.dynamic("tickets").unwrap();
    let record = DynamicRecord::from_json(dynamic.definition(), ticket.as_object().unwrap()).unwrap();
    dynamic.put(&record).await.unwrap();
}

pub(crate) async fn an_update_is_checked_against_the_type(recto: Recto) {
    let (own, tickets) = tickets(&recto, 1..2).await;
    let ticket = || tickets.update(("a", 1));
    let far = Timestamp(i64::MAX);
    for (update, name, reason) in [
        (ticket().set("title", 7), "title", "expected text, found 7"),
        (ticket().set("title", true), "title", "text"),
        (ticket().set("title", None::<String>), "title", "Option"),
        (
            ticket().set("status", "nonsense"),
            "status",
            "\"nonsense\" is not one of typed open, Sent",
        ),
        (ticket().set("status", Literal::Null), "status", "Option"),
        (ticket().set("address", "no json"), "address", "JSON"),
        (ticket().set("due", far), "due", "range"),
        (ticket().set("seats", "many"), "seats", "int"),
        (ticket().set("seats", 1_i64 << 40), "seats", "int"),
        (ticket().set("seat", 1), "seat", "no field"),
        (ticket().set("id", 2), "id", "key"),
    ] {
        let error = update.await.unwrap_err();
        assert_eq!(
            (error.kind(), error.field()),
            (ErrorKind::InvalidRecord, Some(name)),
            "{error}"
        );
        assert!(error.to_string().contains(reason), "{name}: {error}");
    }
    assert_eq!(tickets.get(("a", 1)).await.unwrap(), Some(Ticket::new(1)));

    // `set` accepts field names as text, and typed constants, whose values the compiler checks.
    ticket().set("status", "Sent").set("seats", 2_u8).await.unwrap();
    let due: jiff::Timestamp = "2013-01-31T10:00:00Z".parse().unwrap();
    let fields = Ticket::FIELDS;
    ticket()
        .set(fields.title, "Router")
        .set(fields.due, Some(due))
        .set(fields.address, None::<Json<Address>>)
        .await
        .unwrap();
    let stored = tickets.get(("a", 1)).await.unwrap().unwrap();
    let expected = Ticket {
        title: "Router".into(),
        status: Status::Sent,
        due: Some(due),
        seats: Some(2),
        ..Ticket::new(1)
    };
    assert_eq!(stored, expected);
    let found = tickets
        .query()
        .matching(field("desk").equal_to("a").and(field(fields.id).equal_to(1)));
    assert_eq!(found.await.unwrap().items(), [expected]);

    // The Rust type lacks the new field, so only the schema checks its value.
    let more = parse(
        &own.schema()
            .to_toml()
            .replacen("fields = {", "fields = { note = \"text\",", 1),
    );
    own.apply(&more).await.unwrap();
    ticket().set("note", "new").await.unwrap();
    let error = ticket().set("note", 7).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.field()),
        (ErrorKind::InvalidRecord, Some("note"))
    );
    // A dynamic collection has no Rust type, so only the schema checks the value.
    let dynamic = own.dynamic("tickets").unwrap();
    dynamic.update(("a", 1)).set("status", "waiting").await.unwrap();
}

pub(crate) async fn other_records_of_a_page_can_be_read(recto: Recto) {
    let (own, tickets) = tickets(&recto, 1..6).await;
    put_foreign(
        &own,
        json!({ "desk": "a", "id": 2, "title": "x", "status": "waiting" }),
    )
    .await;
    put_foreign(&own, json!({ "desk": "a", "id": 4, "status": "Sent" })).await;
    let unreadable = |error: &recto::Error, id: &str, field: &str| {
        assert_eq!(
            (error.kind(), error.field(), error.key()),
            (
                ErrorKind::Unreadable,
                Some(field),
                &["a".to_owned(), id.to_owned()][..]
            ),
            "{error}"
        );
        assert!(error.hint().unwrap().contains("each_result"), "{error}");
    };
    unreadable(&tickets.get(("a", 2)).await.unwrap_err(), "2", "status");
    unreadable(&tickets.get(("a", 4)).await.unwrap_err(), "4", "title");
    let all = tickets.query().filter(r#"desk = "a""#).first(3);
    let error = all.clone().await.unwrap_err();
    unreadable(&error, "2", "status");
    // The error contains a key with which the record can be found.
    let dynamic = own.dynamic("tickets").unwrap();
    let record = dynamic.get(KeyText(error.key())).await.unwrap().unwrap();
    assert_eq!(record.to_json()["status"], "waiting");

    let page = all.clone().each_result().await.unwrap();
    assert_eq!((page.len(), page.has_next()), (3, Some(true)));
    assert_eq!(page.items()[0].as_ref().unwrap(), &Ticket::new(1));
    unreadable(page.items()[1].as_ref().unwrap_err(), "2", "status");
    assert_eq!(page.items()[2].as_ref().unwrap(), &Ticket::new(3));
    // A record that the Rust type cannot represent must have a cursor too.
    let after = all.clone().each_result().after(page.cursor(1)).await.unwrap();
    assert_eq!(after.items()[0].as_ref().unwrap(), &Ticket::new(3));
    let before = all.before(page.cursor(1)).await.unwrap();
    assert_eq!(before.items(), [Ticket::new(1)]);

    let read = |items: Vec<Result<Ticket, recto::Error>>| {
        let mut ids: Vec<i64> = items.iter().flatten().map(|ticket| ticket.id).collect();
        ids.sort_unstable();
        (ids, items.len())
    };
    let query = tickets.query().filter(r#"desk = "a""#).page_size(2);
    let rows: Vec<_> = query.clone().each_result().stream().try_collect().await.unwrap();
    assert_eq!(read(rows), (vec![1, 3, 5], 5));
    let rows: Vec<_> = tickets.scan().each_result().stream().try_collect().await.unwrap();
    assert_eq!(read(rows), (vec![1, 3, 5], 5));
    let error = query.stream().try_collect::<Vec<_>>().await.unwrap_err();
    unreadable(&error, "2", "status");
    // After a change to a value that the Rust type can represent, the record must be readable.
    tickets.update(("a", 2)).set("status", "Sent").await.unwrap();
    assert!(tickets.get(("a", 2)).await.unwrap().is_some());
}

/// Record type for the collection that [`EVENTS`] declares. It lacks the bucket option, the view
/// and one field.
#[derive(Debug, Clone, PartialEq, Record)]
#[record(collection = "events", key = ["stream", "at"], partition = ["stream"], order = ["at"], writes = "append")]
struct Event {
    stream: String,
    at: i64,
}

const EVENTS: &str = r#"
[collection.events]
fields = { stream = "text", at = "bigint", kind = "text" }
key = ["stream", "at"]
partition = ["stream"]
order = ["at"]
writes = "append"
bucket = { rows = 1000 }

[collection.events.view.by_at]
partition = ["at"]
order = ["stream"]
"#;

pub(crate) async fn a_type_keeps_options_it_does_not_name(recto: Recto) {
    let own = Fresh::new(kind_of(&recto)).open().await;
    own.apply(&parse(EVENTS)).await.unwrap();
    let recorded = own.schema();
    let applied = own.apply(&schema_of([Event::collection()])).await.unwrap();
    assert_eq!((applied.generation, applied.changes.len()), (1, 0), "{applied:?}");
    let expected = [
        "bucket of collection events",
        "field kind of collection events",
        "view by_at of collection events",
    ];
    for kept in expected {
        assert!(applied.kept.iter().any(|one| one == kept), "{applied:?}");
    }
    assert_eq!(own.schema(), recorded);
    let events = own.collection::<Event>().unwrap();
    let event = Event {
        stream: "a".into(),
        at: 1,
    };
    events.put(&event).await.unwrap();
    assert_eq!(events.query().filter("at = 1").await.unwrap().items(), [event]);
}
