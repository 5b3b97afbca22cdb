//! Checks the forms that add, change and delete records.

use axum::http::StatusCode;
use recto::session::Records as _;
use recto_server::access::Access;
use serde_json::json;

use crate::fixture::{Answer, Fixture};

const BERN: &str = "key=CH&key=Bern";

fn key(name: &str) -> Vec<String> {
    vec!["CH".to_owned(), name.to_owned()]
}

/// Returns the version or the digest of the record from which a form was filled.
pub(crate) fn seen(form: &Answer) -> String {
    let value = form.html.split("name=\"seen\" value=\"").nth(1).unwrap();
    value.split('"').next().unwrap().to_owned()
}

#[tokio::test]
async fn a_record_is_changed_and_what_nobody_touched_stays() {
    let fixture = Fixture::new().await;
    let client = fixture.client(Access::all());
    let before = fixture
        .session
        .get("places", &key("Bern"))
        .await
        .unwrap()
        .unwrap()
        .record;
    let form = client
        .get(&format!("/collections/places/edit?{BERN}&back=page_size%3D7"))
        .await;
    assert_eq!(form.status, StatusCode::OK);
    insta::assert_snapshot!("edit", form.main());
    let sent = format!(
        "seen={}&value.population=140000&value.capital=&value.founded=1191-01-01&value.updated=2024-02-29T12:30:15.250Z\
         &value.area=51.6&value.tags=%5B%22river%22,%22bears%22%5D&value.remark=on+the+Aare%0D%0Aand+%3Cb%3Eold%3C/b%3E",
        seen(&form)
    );
    let saved = client
        .post(
            &format!("/collections/places/edit?{BERN}&back=page_size%3D7"),
            &sent,
        )
        .await;
    assert_eq!(saved.status, StatusCode::SEE_OTHER, "{}", saved.html);
    assert_eq!(
        saved.location.as_deref(),
        Some("/collections/places/record?key=CH&key=Bern&back=page_size%3D7&done=saved")
    );
    let mut expected = before;
    expected.insert("population".into(), json!("140000"));
    expected.remove("capital");
    assert_eq!(
        fixture
            .session
            .get("places", &key("Bern"))
            .await
            .unwrap()
            .unwrap()
            .record,
        expected
    );
}

#[tokio::test]
async fn a_form_that_is_out_of_date_changes_nothing() {
    let fixture = Fixture::new().await;
    let client = fixture.client(Access::all());
    let edit = format!("/collections/places/edit?{BERN}");
    let form = client.get(&edit).await;
    let first = client
        .post(&edit, &format!("seen={}&value.population=1", seen(&form)))
        .await;
    assert_eq!(first.status, StatusCode::SEE_OTHER);
    let second = client
        .post(&edit, &format!("seen={}&value.population=2", seen(&form)))
        .await;
    assert_eq!(second.status, StatusCode::CONFLICT);
    let theirs = second.html.split("class=\"theirs\"").nth(1).unwrap();
    assert!(
        theirs.contains("<span class=\"dim\">Stored: </span><span class=\"value\">1<"),
        "{theirs}"
    );
    assert!(
        second
            .html
            .contains(r#"name="value.population" id="value-population" value="2""#)
    );
    let held = fixture
        .session
        .get("places", &key("Bern"))
        .await
        .unwrap()
        .unwrap()
        .record;
    assert_eq!(held["population"], json!("1"));
    let again = client
        .post(&edit, &format!("seen={}&value.population=2", seen(&second)))
        .await;
    assert_eq!(again.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn redisplays_invalid_form_input_with_its_error() {
    let fixture = Fixture::new().await;
    let client = fixture.client(Access::all());
    let edit = format!("/collections/places/edit?{BERN}");
    let form = client.get(&edit).await;
    let refused = client
        .post(&edit, &format!("seen={}&value.population=many", seen(&form)))
        .await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    assert!(refused.html.contains(r#"value="many""#), "{}", refused.html);
    assert!(refused.html.contains(r#"aria-invalid="true""#));
    assert!(refused.html.contains("population"));
}

#[tokio::test]
async fn a_record_is_added_once() {
    let fixture = Fixture::new().await;
    let client = fixture.client(Access::all());
    let form = client.get("/collections/places/new").await;
    assert_eq!(form.status, StatusCode::OK);
    let label = form.html.split("for=\"value-country\"").nth(1).unwrap();
    assert!(
        label.starts_with(">country<span class=\"mark\">key</span>"),
        "{label}"
    );
    let sent =
        "value.country=CH&value.name=Basel&value.population=&value.remark=&null.remark=true&value.tags=";
    let added = client.post("/collections/places/new", sent).await;
    assert_eq!(added.status, StatusCode::SEE_OTHER, "{}", added.html);
    let held = fixture
        .session
        .get("places", &key("Basel"))
        .await
        .unwrap()
        .unwrap()
        .record;
    assert_eq!(
        serde_json::Value::Object(held),
        json!({ "country": "CH", "name": "Basel" })
    );
    let again = client.post("/collections/places/new", sent).await;
    assert_eq!(again.status, StatusCode::CONFLICT);
    let empty = client
        .post(
            "/collections/places/new",
            "value.country=CH&value.name=Genf&value.remark=",
        )
        .await;
    assert_eq!(empty.status, StatusCode::SEE_OTHER);
    let held = fixture
        .session
        .get("places", &key("Genf"))
        .await
        .unwrap()
        .unwrap()
        .record;
    assert_eq!(held["remark"], json!(""));
    let without_key = client
        .post("/collections/flights/new", "value.carrier=UA&value.flight=1")
        .await;
    assert_eq!(without_key.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn characters_that_no_form_can_carry_are_kept() {
    let fixture = Fixture::new().await;
    let client = fixture.client(Access::all());
    let edit = "/collections/places/edit?key=CH&key=Control";
    let form = client.get(edit).await;
    assert!(!form.html.contains("name=\"value.remark\""));
    let saved = client
        .post(edit, &format!("seen={}&value.area=1.5", seen(&form)))
        .await;
    assert_eq!(saved.status, StatusCode::SEE_OTHER);
    let held = fixture
        .session
        .get("places", &key("Control"))
        .await
        .unwrap()
        .unwrap()
        .record;
    assert_eq!(held["remark"], json!("a\u{1}b"));
    assert_eq!(held["area"], json!(1.5));
}

#[tokio::test]
async fn deleting_asks_first_and_leads_back() {
    let fixture = Fixture::new().await;
    let client = fixture.client(Access::all());
    let delete =
        format!("/collections/places/delete?{BERN}&back=filter%3Dcountry%2520%253D%2520%2522CH%2522");
    let asked = client.get(&delete).await;
    assert_eq!(asked.status, StatusCode::OK);
    assert!(
        fixture
            .session
            .get("places", &key("Bern"))
            .await
            .unwrap()
            .is_some()
    );
    let deleted = client.post(&delete, "").await;
    assert_eq!(deleted.status, StatusCode::SEE_OTHER);
    let back = client.get(deleted.location.as_deref().unwrap()).await;
    assert!(back.html.contains("The record was deleted."));
    assert_eq!(back.rows().len(), 2);
    assert!(
        fixture
            .session
            .get("places", &key("Bern"))
            .await
            .unwrap()
            .is_none()
    );
    assert_eq!(client.get(&delete).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn appended_records_are_not_changed() {
    let fixture = Fixture::new().await;
    let client = fixture.client(Access::all());
    let record = "key=2013-01-01T00:00:00Z&key=UA&key=0";
    let page = client.get(&format!("/collections/flights/record?{record}")).await;
    assert!(!page.html.contains(">Edit<"));
    assert!(page.html.contains("Add a similar record"));
    let edit = format!("/collections/flights/edit?{record}");
    assert_eq!(client.get(&edit).await.status, StatusCode::CONFLICT);
    assert_eq!(
        client.post(&edit, "value.dest=X").await.status,
        StatusCode::CONFLICT
    );
    let like = client.get(&format!("/collections/flights/new?{record}")).await;
    assert!(like.html.contains(r#"value="UA""#));
}
