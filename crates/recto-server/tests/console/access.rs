//! What an access does not allow is neither shown nor done.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use recto::Session as _;
use recto_server::access::{Access, Grant, Operation};

use crate::fixture::Fixture;

fn granted(collection: &str, operations: &[Operation], rows: &str) -> Access {
    let grant = Grant {
        operations: operations.to_vec(),
        rows: rows.to_owned(),
    };
    Access::granted("somebody", BTreeMap::from([(collection.to_owned(), grant)]))
}

#[tokio::test]
async fn collections_and_buttons_that_are_not_allowed_are_not_there() {
    let fixture = Fixture::new().await;
    let client = fixture.client(granted("places", &[Operation::Read], ""));
    let home = client.get("/").await;
    assert!(home.html.contains("places") && !home.html.contains("flights"));
    assert_eq!(
        client.get("/collections/flights").await.status,
        StatusCode::NOT_FOUND
    );
    let page = client
        .get("/collections/places?filter=country%20%3D%20%22CH%22")
        .await;
    let record = client.get("/collections/places/record?key=CH&key=Bern").await;
    for button in ["Export", "Add record", "Add one like it", ">Edit<", ">Delete<"] {
        assert!(
            !page.html.contains(button) && !record.html.contains(button),
            "{button}"
        );
    }
    for action in ["new", "edit", "delete"] {
        let path = format!("/collections/places/{action}?key=CH&key=Bern");
        assert_eq!(client.get(&path).await.status, StatusCode::FORBIDDEN, "{action}");
        assert_eq!(
            client.post(&path, "").await.status,
            StatusCode::FORBIDDEN,
            "{action}"
        );
    }
    let export = client
        .get("/collections/places/export?filter=country%20%3D%20%22CH%22")
        .await;
    assert_eq!(export.status, StatusCode::FORBIDDEN);
    let bern = ["CH".to_owned(), "Bern".to_owned()];
    assert!(fixture.session.get("places", &bern).await.unwrap().is_some());
}

#[tokio::test]
async fn rows_outside_of_the_row_filter_are_nowhere() {
    let fixture = Fixture::new().await;
    let all = [Operation::Read, Operation::Write, Operation::Delete];
    let client = fixture.client(granted("flights", &all, "carrier = \"UA\""));
    let asked = client.get("/collections/flights").await;
    assert!(!asked.html.contains(">AA<"), "{}", asked.html);
    let other = client
        .get("/collections/flights?filter=carrier%20%3D%20%22AA%22")
        .await;
    assert!(other.rows().is_empty());
    let record = "key=2013-01-01T00:00:00Z&key=AA&key=0";
    for action in ["record", "delete"] {
        let answer = client
            .get(&format!("/collections/flights/{action}?{record}"))
            .await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{action}");
    }
    let deleted = client
        .post(&format!("/collections/flights/delete?{record}"), "")
        .await;
    assert_ne!(deleted.status, StatusCode::SEE_OTHER);
    let key = ["2013-01-01T00:00:00Z".to_owned(), "AA".to_owned(), "0".to_owned()];
    assert!(fixture.session.get("flights", &key).await.unwrap().is_some());
}
