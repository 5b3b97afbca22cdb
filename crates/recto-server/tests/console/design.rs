//! Checks the page that proposes views for the queries of a collection.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use recto_server::access::{Access, Grant, Right};

use crate::fixture::Fixture;

const DESIGN: &str = "/collections/people/design";

/// Returns the body of a form whose field `queries` has the given text.
fn typed(text: &str) -> String {
    let bytes = text.bytes().map(|byte| format!("%{byte:02x}"));
    format!("queries={}", bytes.collect::<String>())
}

#[tokio::test]
async fn queries_that_are_typed_in_are_designed_for() {
    let fixture = Fixture::new().await;
    let client = fixture.client(Access::all());
    let views = client.get("/collections/people/views").await;
    let nothing = client.follow(&views, DESIGN).await;
    assert!(
        nothing.html.contains("This server has received no queries"),
        "{}",
        nothing.main()
    );
    let queries = "[[query]]\nname = \"of an age\"\nfilter = 'age = ?'\norder_by = '-name'\n\n\
                   [[query]]\nname = \"of a <city>\"\nfilter = 'city = ?'\norder_by = 'name'\n";
    let designed = client.post(DESIGN, &typed(queries)).await;
    assert_eq!(designed.status, StatusCode::OK);
    insta::assert_snapshot!("design", designed.main());
}

#[tokio::test]
async fn redisplays_invalid_queries_with_their_errors() {
    let fixture = Fixture::new().await;
    let client = fixture.client(Access::all());
    let mut asked = Vec::new();
    for text in [
        "[[query]]\nfilter = 'shoe = ?'",
        "[[query]\n",
        "[[query]]\nper_day = -1",
    ] {
        let refused = client.post(DESIGN, &typed(text)).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{text}");
        assert!(refused.html.contains("No views serve the queries"));
        assert!(
            refused.html.contains(text.lines().next().unwrap()),
            "it stays: {text}"
        );
        asked.push(refused.main());
    }
    assert!(asked[0].contains("shoe"), "{}", asked[0]);
}

#[tokio::test]
async fn it_is_for_who_may_read_all_there_is() {
    let fixture = Fixture::new().await;
    for (rows, rights, status) in [
        ("", &[Right::Read][..], StatusCode::OK),
        ("city = \"Bern\"", &[Right::Read], StatusCode::FORBIDDEN),
        ("", &[Right::Write], StatusCode::FORBIDDEN),
    ] {
        let grant = Grant {
            rights: rights.to_vec(),
            rows: rows.to_owned(),
        };
        let access = Access::granted("somebody", BTreeMap::from([("people".to_owned(), grant)]));
        let client = fixture.client(access);
        assert_eq!(client.get(DESIGN).await.status, status, "{rows}");
        assert_eq!(client.post(DESIGN, "queries=").await.status, status, "{rows}");
        let other = client.get("/collections/places/design").await;
        assert_eq!(other.status, StatusCode::NOT_FOUND);
        let views = client.get("/collections/people/views").await;
        assert_eq!(views.html.contains("/design"), status == StatusCode::OK, "{rows}");
    }
}
