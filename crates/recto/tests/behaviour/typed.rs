//! Typed collections are the dynamic ones with a type.

use futures::TryStreamExt;
use recto::{ErrorKind, Record, Recto};
use serde_json::json;

use crate::common::Subject;

#[derive(Debug, Clone, PartialEq, Record)]
#[record(collection = "readings", key = ["sensor", "slot"], partition = ["sensor"], order = ["slot"], writes = "overwrite")]
struct Reading {
    sensor: String,
    slot: i32,
    value: Option<f64>,
    unit: Option<String>,
}

/// As `Reading`, but for a field's type and a field that is not there.
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

    // Written as one, read as the other, and page by page with one another's cursors.
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
