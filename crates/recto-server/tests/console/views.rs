//! Checks the pages of views: their states, why a view was chosen, and the plans that use it.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::http::StatusCode;
use recto::Session as _;
use recto::session::{ApplyOptions, Records as _};
use recto_server::access::{Access, Grant, Right, STORE};
use serde_json::json;

use crate::fixture::Fixture;

const VIEWS: &str = "/collections/people/views";

fn granted(grants: &[(&str, &[Right], &str)]) -> Access {
    let grants = grants.iter().map(|(name, rights, rows)| {
        let grant = Grant {
            rights: rights.to_vec(),
            rows: (*rows).to_owned(),
        };
        ((*name).to_owned(), grant)
    });
    Access::granted("somebody", grants.collect::<BTreeMap<_, _>>())
}

#[tokio::test]
async fn views_are_listed_with_their_states() {
    let fixture = Fixture::new().await;
    let client = fixture.client(Access::all());
    let page = client.get("/collections/people").await;
    let views = client.follow(&page, VIEWS).await;
    insta::assert_snapshot!("views", views.main());
    assert!(!views.html.contains("hx-trigger"), "nothing is on its way");
    let none = client.get("/collections/places/views").await;
    assert!(
        none.html.contains("[collection.places.view.NAME]"),
        "{}",
        none.main()
    );
    for (path, status) in [
        ("/collections/nowhere/views", StatusCode::NOT_FOUND),
        ("/health", StatusCode::OK),
    ] {
        assert_eq!(client.get(path).await.status, status, "{path}");
    }
}

#[tokio::test]
async fn a_view_that_is_being_filled_says_how_far_it_is() {
    let fixture = Fixture::new().await;
    let client = fixture.client(Access::all());
    let declared = fixture.session.schema().await.unwrap().to_toml();
    let more = "\n[collection.people.view.of_age]\npartition = [\"age\"]\n";
    let schema = recto::schema::Schema::parse(&format!("{declared}{more}")).unwrap();
    let mut options = ApplyOptions::new();
    options.rows_per_second = Some(1);
    let tools = fixture.session.tools().unwrap();
    let told = |_| ();
    let applied = tools.apply(&schema, &options, &told);
    // The timeout interrupts `apply` while it fills the view, as a crash would.
    tokio::time::timeout(Duration::from_millis(2_500), applied)
        .await
        .expect_err("five records take five seconds");
    let views = client.get(VIEWS).await;
    assert!(views.html.contains(">building</span>"), "{}", views.main());
    assert!(views.html.contains("hx-trigger=\"every 2s\""), "{}", views.main());
    tools.apply(&schema, &ApplyOptions::new(), &told).await.unwrap();
    let views = client.get(VIEWS).await;
    assert!(!views.html.contains(">building</span>") && views.html.contains("of_age"));
}

#[tokio::test]
async fn health_page_shows_the_commit_log() {
    let fixture = Fixture::new().await;
    let client = fixture.client(Access::all());
    let health = client.get("/health").await;
    for text in [
        "<h2>Commit log</h2>",
        "Size of the log files",
        "Last checkpoint",
        "Checkpoints since the store was opened",
    ] {
        assert!(health.html.contains(text), "{text}: {}", health.main());
    }
}

#[tokio::test]
async fn shows_comparison_results_to_tokens_that_read_all() {
    let fixture = Fixture::new().await;
    let client = fixture.client(Access::all());
    assert!(client.get("/health").await.html.contains("recto verify people"));
    let verified = client.post_json("/v1/store:verify", &json!({})).await;
    assert_eq!(verified.status, StatusCode::OK, "{}", verified.html);
    for path in [VIEWS, "/health"] {
        let page = client.get(path).await;
        assert!(page.html.contains("no differences, 5 records"), "{}", page.main());
    }
    let all_but = granted(&[("*", &[Right::Read], ""), ("people", &[Right::Read], "id = 1")]);
    let reads = granted(&[("*", &[Right::Read], ""), (STORE, &[Right::Verify], "")]);
    for (access, status) in [(all_but, StatusCode::FORBIDDEN), (reads, StatusCode::OK)] {
        let client = fixture.client(access);
        assert_eq!(client.get("/health").await.status, status);
        assert_eq!(
            client.get("/").await.html.contains("href=\"/health\""),
            status == StatusCode::OK
        );
        let views = client.get(VIEWS).await;
        assert_eq!(views.status, StatusCode::OK);
        assert!(
            !views.html.contains("no differences"),
            "each server has its own memory"
        );
    }
    let writes = fixture.client(granted(&[("people", &[Right::Write], "")]));
    assert_eq!(writes.get(VIEWS).await.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn the_plan_names_the_view_taken_and_why_others_were_not() {
    let fixture = Fixture::new().await;
    let client = fixture.client(Access::all());
    let page = client
        .get("/collections/people?filter=city%20%3D%20%22Bern%22&order_by=name")
        .await;
    assert_eq!(page.rows().len(), 3);
    let plan = page.html.split("class=\"plan\"").nth(1).unwrap();
    for wanted in [
        "<dt>View</dt><dd>by_city</dd>",
        "note looked up in the base table: 1 read more for each row",
        "<dt>Rejected</dt><dd><b>",
        "by_age",
    ] {
        assert!(plan.contains(wanted), "{wanted} is not in {plan}");
    }
    let own = client.get("/collections/people?filter=id%20%3D%201").await;
    assert!(own.html.contains("<dt>View</dt><dd>base</dd>"));
}

/// Checks that the links of a page keep the view that the page's address names.
#[tokio::test]
async fn links_keep_the_named_view() {
    let fixture = Fixture::new().await;
    let client = fixture.client(Access::all());
    let page = client
        .get("/collections/people?filter=city%20%3D%20%22Bern%22&view=by_age&page_size=2")
        .await;
    assert_eq!(page.rows().len(), 2, "{}", page.main());
    assert!(page.html.contains("view <b>by_age</b>"), "{}", page.main());
    let next = client.follow(&page, "data-key=\"n\"").await;
    assert!(
        next.html.contains("<dt>View</dt><dd>by_age</dd>"),
        "{}",
        next.main()
    );
    let chosen = client.follow(&next, "Let the server choose the view").await;
    assert!(
        chosen.html.contains("<dt>View</dt><dd>by_city</dd>"),
        "{}",
        chosen.main()
    );
    let other = client
        .get("/collections/people?filter=id%20%3D%201&view=by_age")
        .await;
    assert_eq!(other.status, StatusCode::BAD_REQUEST, "{}", other.main());
}

/// Returns the preselected radio button of each field: `theirs` (the stored value) or `mine`.
fn chosen(form: &str) -> Vec<(String, String)> {
    let radios = form.split("<input type=\"radio\" name=\"take.").skip(1);
    let radios = radios.filter_map(|radio| {
        let tag = radio.split('>').next()?;
        let (field, rest) = tag.split_once('"')?;
        let value = rest.split('"').nth(1)?;
        tag.contains(" checked")
            .then(|| (field.to_owned(), value.to_owned()))
    });
    radios.collect()
}

fn hidden(form: &str, name: &str) -> String {
    let value = form.split(&format!("name=\"{name}\" value=\"")).nth(1).unwrap();
    value.split('"').next().unwrap().to_owned()
}

#[tokio::test]
async fn of_what_two_changed_each_value_is_chosen() {
    let fixture = Fixture::new().await;
    let client = fixture.client(Access::all());
    let edit = "/collections/people/edit?key=1";
    let form = client.get(edit).await.html;
    let was = |form: &str| {
        let names = ["city", "name", "age", "note"];
        let fields = names.map(|name| format!("&was.{name}={}", hidden(form, &format!("was.{name}"))));
        format!("seen={}{}", hidden(form, "seen"), fields.concat())
    };
    // Another client changes the city and the name of record 1, after the form was filled.
    let theirs = format!(
        "{}&value.city=Genf&value.name=Ada+L.&value.age=31&value.note=of+Bern",
        was(&form)
    );
    assert_eq!(client.post(edit, &theirs).await.status, StatusCode::SEE_OTHER);
    // The first client then sends its form, with another name and another note.
    let mine = "&value.city=Bern&value.name=Ida&value.age=31&value.note=of+Genf";
    let conflict = client.post(edit, &format!("{}{mine}", was(&form))).await;
    assert_eq!(conflict.status, StatusCode::CONFLICT);
    let expected = [("city", "theirs"), ("name", "mine"), ("note", "mine")];
    assert_eq!(
        chosen(&conflict.html),
        expected.map(|(field, value)| (field.to_owned(), value.to_owned()))
    );
    let take = "&take.city=theirs&take.name=theirs&take.note=mine";
    let saved = client
        .post(edit, &format!("{}{mine}{take}", was(&conflict.html)))
        .await;
    assert_eq!(saved.status, StatusCode::SEE_OTHER, "{}", saved.html);
    let held = fixture
        .session
        .get("people", &["1".to_owned()])
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        serde_json::Value::Object(held.record),
        json!({ "id": "1", "city": "Genf", "name": "Ada L.", "age": 31, "note": "of Genf" })
    );
    // The user's choice applies only to the version that the user saw. Sending it twice is
    // therefore a conflict.
    let late = client
        .post(edit, &format!("{}{mine}{take}", was(&conflict.html)))
        .await;
    assert_eq!(late.status, StatusCode::CONFLICT);
}

#[tokio::test]
async fn restores_a_record_that_was_deleted_during_an_edit() {
    let fixture = Fixture::new().await;
    let client = fixture.client(Access::all());
    let edit = "/collections/people/edit?key=2";
    let form = client.get(edit).await.html;
    fixture.session.delete("people", &["2".to_owned()]).await.unwrap();
    let sent = format!(
        "seen={}&value.city=Genf&value.name=Bo&value.age=7&value.note=",
        hidden(&form, "seen")
    );
    let gone = client.post(edit, &sent).await;
    assert_eq!(gone.status, StatusCode::CONFLICT);
    assert!(gone.html.contains("The record was deleted"), "{}", gone.main());
    for kept in [r#"name="value.id" id="value-id" value="2""#, r#"value="Bo""#] {
        assert!(gone.html.contains(kept), "{kept}: {}", gone.main());
    }
    assert_eq!(
        fixture.session.get("people", &["2".to_owned()]).await.unwrap(),
        None
    );
    let added = client
        .post("/collections/people/new", &format!("value.id=2&{sent}"))
        .await;
    assert_eq!(added.status, StatusCode::SEE_OTHER, "{}", added.html);
    let held = fixture
        .session
        .get("people", &["2".to_owned()])
        .await
        .unwrap()
        .unwrap();
    assert_eq!(held.record["name"], "Bo");
}

#[tokio::test]
async fn rejects_deletion_of_a_record_changed_meanwhile() {
    let fixture = Fixture::new().await;
    let client = fixture.client(Access::all());
    for (delete, edit, values) in [
        (
            "/collections/people/delete?key=3",
            "/collections/people/edit?key=3",
            "value.name=Cleo+B.",
        ),
        (
            "/collections/places/delete?key=CH&key=Bern",
            "/collections/places/edit?key=CH&key=Bern",
            "value.remark=Cleo+B.",
        ),
    ] {
        let asked = client.get(delete).await.html;
        let form = client.get(edit).await.html;
        let saved = client
            .post(edit, &format!("seen={}&{values}", hidden(&form, "seen")))
            .await;
        assert_eq!(saved.status, StatusCode::SEE_OTHER, "{}", saved.html);
        let late = client
            .post(delete, &format!("seen={}", hidden(&asked, "seen")))
            .await;
        assert_eq!(late.status, StatusCode::CONFLICT, "{delete}");
        assert!(
            late.html.contains("Cleo B."),
            "it is shown as it is: {}",
            late.main()
        );
        let deleted = client
            .post(delete, &format!("seen={}", hidden(&late.html, "seen")))
            .await;
        assert_eq!(deleted.status, StatusCode::SEE_OTHER, "{}", deleted.html);
        assert_eq!(client.get(delete).await.status, StatusCode::NOT_FOUND);
    }
}
