//! Checks access rights: the console neither shows nor changes anything that the token does not
//! allow.

use recto::session::Records as _;
use std::collections::BTreeMap;

use axum::http::StatusCode;
use recto_server::access::{Access, Grant, Right};

use crate::fixture::Fixture;

fn granted(collection: &str, rights: &[Right], rows: &str) -> Access {
    let grant = Grant {
        rights: rights.to_vec(),
        rows: rows.to_owned(),
    };
    Access::granted("somebody", BTreeMap::from([(collection.to_owned(), grant)]))
}

#[tokio::test]
async fn collections_and_buttons_that_are_not_allowed_are_not_there() {
    let fixture = Fixture::new().await;
    let client = fixture.client(granted("places", &[Right::Read], ""));
    let home = client.get("/").await;
    assert!(home.html.contains("places") && !home.html.contains("flights"));
    let store = |html: &str| html.contains("1 collection in <b>") || html.contains("collections in <b>");
    assert!(
        !store(&home.html),
        "the path on the server is not shown: {}",
        home.html
    );
    assert!(store(&fixture.client(Access::all()).get("/").await.html));
    assert_eq!(
        client.get("/collections/flights").await.status,
        StatusCode::NOT_FOUND
    );
    let page = client
        .get("/collections/places?filter=country%20%3D%20%22CH%22")
        .await;
    let record = client.get("/collections/places/record?key=CH&key=Bern").await;
    for button in [
        "Export",
        "Add record",
        "Add a similar record",
        ">Edit<",
        ">Delete<",
    ] {
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
async fn shows_the_token_and_its_grants_to_a_signed_in_user() {
    let fixture = Fixture::new().await;
    let rows = "carrier = \"UA\"";
    let signed_in = granted("flights", &[Right::Read], rows).by_token("1f0c7a52d9e4b683");
    let client = fixture.client(signed_in);
    for path in [
        "/",
        "/collections/flights",
        "/collections/none",
        "/collections/flights/new",
    ] {
        let page = client.get(path).await;
        assert!(page.html.contains("class=\"who\" href=\"/access\""), "{path}");
    }
    let access = client.get("/access").await;
    assert_eq!(access.status, StatusCode::OK);
    for said in [
        "somebody",
        "1f0c7a52d9e4b683",
        "flights",
        "read",
        "carrier = &quot;UA&quot;",
        "/sign-out",
    ] {
        assert!(access.html.contains(said), "{said}: {}", access.html);
    }
    // `/sign-out` rejects every token, because browsers forget a token that is rejected.
    assert_eq!(client.get("/sign-out").await.status, StatusCode::UNAUTHORIZED);
    let anyone = fixture.client(Access::all());
    assert!(!anyone.get("/").await.html.contains("class=\"who\""));
    assert!(anyone.get("/access").await.html.contains("has no tokens"));
}

#[tokio::test]
async fn lists_partitions_only_for_filters_on_partition_fields() {
    let fixture = Fixture::new().await;
    let client = |rows: &str| fixture.client(granted("flights", &[Right::Read], rows));
    let asked = client("carrier >= \"T\"").get("/collections/flights").await;
    assert!(
        asked.html.contains(">UA</a>") && !asked.html.contains(">AA</a>"),
        "{}",
        asked.html
    );
    let asked = client("time_hour >= \"2013-02-01T00:00:00Z\"");
    let asked = asked.get("/collections/flights").await;
    assert!(!asked.html.contains(">UA</a>"), "{}", asked.html);
    assert!(asked.html.contains("cannot be listed"), "{}", asked.html);
    // No view can serve the token's row filter, whatever the carrier. So the page does not ask for
    // a carrier.
    let asked = client("dest = \"LAX\"").get("/collections/flights").await;
    assert!(!asked.html.contains("Which carrier?"), "{}", asked.html);
    assert!(asked.html.contains("flights.view.by_dest"), "{}", asked.html);
}

#[tokio::test]
async fn rows_outside_of_the_row_filter_are_nowhere() {
    let fixture = Fixture::new().await;
    let all = [Right::Read, Right::Write, Right::Delete];
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

/// Checks a token that may write but not read: its response must not reveal whether a record
/// exists.
#[tokio::test]
async fn hides_the_existence_of_records_from_write_only_tokens() {
    let fixture = Fixture::new().await;
    let client = fixture.client(granted("places", &[Right::Write], ""));
    let mut answers = Vec::new();
    for name in ["Bern", "Nowhere"] {
        let sent = format!("value.country=CH&value.name={name}");
        let added = client.post("/collections/places/new", &sent).await;
        assert_eq!(added.status, StatusCode::SEE_OTHER, "{}", added.html);
        answers.push((added.location, added.html));
    }
    assert_eq!(answers[0], answers[1]);
    let next = client.get(answers[0].0.as_deref().unwrap()).await;
    assert!(next.html.contains("The record was written."), "{}", next.html);
}
