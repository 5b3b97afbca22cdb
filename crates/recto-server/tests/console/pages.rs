//! Checks the pages of records without scripts: their content, and the targets of their links.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use recto_server::access::{Access, Grant, Right};

use crate::fixture::Fixture;

const UNITED: &str = "/collections/flights?filter=carrier%20%3D%20%22UA%22";

#[tokio::test]
async fn the_collections_are_listed() {
    let fixture = Fixture::new().await;
    let home = fixture.client(Access::all()).get("/").await;
    assert_eq!(home.status, StatusCode::OK);
    let main = home.main();
    let (before, rest) = main.split_once(" in <b>").unwrap();
    insta::assert_snapshot!("home", format!("{before}{}", rest.split_once("</b>").unwrap().1));
}

#[tokio::test]
async fn asks_for_missing_partition_fields() {
    let fixture = Fixture::new().await;
    let client = fixture.client(Access::all());
    let asked = client.get("/collections/flights").await;
    assert_eq!(asked.status, StatusCode::OK);
    insta::assert_snapshot!("pin", asked.main());
    let answered = client.get("/collections/flights?filter=&is.carrier=UA").await;
    assert_eq!(answered.status, StatusCode::SEE_OTHER);
    assert_eq!(answered.location.as_deref(), Some(UNITED));
    let example = client.follow(&asked, "UA").await;
    assert_eq!(example.rows().len(), 50);
}

#[tokio::test]
async fn a_partition_is_found_by_a_part_of_its_name() {
    let fixture = Fixture::new().await;
    let client = fixture.client(Access::all());
    let found = client
        .get("/collections/flights?filter=&is.carrier=u&find=true")
        .await;
    assert_eq!(found.status, StatusCode::OK);
    assert!(
        found.html.contains(">UA</a>") && !found.html.contains(">AA</a>"),
        "{}",
        found.html
    );
    assert!(found.html.contains("One match"), "{}", found.html);
    assert!(
        found
            .html
            .contains(r#"name="is.carrier" id="pin-carrier" value="u""#),
        "{}",
        found.html
    );
    let none = client
        .get("/collections/flights?filter=&is.carrier=zz&find=true")
        .await;
    assert!(none.html.contains("No matches"), "{}", none.html);
    let empty = client.get("/collections/flights_by_dest").await;
    assert!(
        empty.html.contains("The collection has no records yet"),
        "{}",
        empty.html
    );
}

#[tokio::test]
async fn a_page_has_rows_controls_and_its_plan() {
    let fixture = Fixture::new().await;
    let page = fixture
        .client(Access::all())
        .get(&format!("{UNITED}&page_size=2"))
        .await;
    assert_eq!(page.status, StatusCode::OK);
    insta::assert_snapshot!("page", page.main());
}

#[tokio::test]
async fn a_page_shows_its_position_and_the_number_of_rows() {
    let fixture = Fixture::new().await;
    let client = fixture.client(Access::all());
    let page = client.get(&format!("{UNITED}&page_size=50")).await;
    assert!(page.html.contains("rows 1 to 50 of 1,000"), "{}", page.main());
    let next = client.follow(&page, "data-key=\"n\"").await;
    assert!(next.html.contains("rows 51 to 100 of 1,000"), "{}", next.main());
}

#[tokio::test]
async fn an_unknown_number_of_rows_is_loaded_after_the_page() {
    let fixture = Fixture::new().await;
    let client = fixture.client(Access::all());
    let query = "carrier%20%3D%20%22UA%22%20AND%20dest%20%3D%20%22LAX%22";
    let list = format!("/collections/flights?filter={query}&allow_filter_scan=true");
    let page = client.get(&format!("{list}&page_size=5&fields=dest")).await;
    let path = page
        .html
        .split("hx-get=\"")
        .nth(1)
        .and_then(|rest| rest.split('"').next());
    let path = path.unwrap().replace("&amp;", "&");
    assert_eq!(
        path,
        list.replace('?', "/count?"),
        "each page of the list has the same address"
    );
    let whole = client.get(&format!("{list}&page_size=1000")).await;
    let rows = whole.rows().len();
    assert!(!whole.html.contains("/count") && rows > 5, "{}", whole.main());
    assert_eq!(client.get(&path).await.html, format!("{rows} rows"));
    // A token with a row filter gets no count, which would depend on hidden rows.
    let granted = BTreeMap::from([("flights".to_owned(), grant("dest = \"LAX\""))]);
    let restricted = fixture.client(Access::granted("somebody", granted));
    assert_eq!(restricted.get(&path).await.status, StatusCode::NO_CONTENT);
}

fn grant(rows: &str) -> Grant {
    Grant {
        rights: vec![Right::Read],
        rows: rows.to_owned(),
    }
}

#[tokio::test]
async fn pages_turn_both_ways_and_end() {
    let fixture = Fixture::new().await;
    let client = fixture.client(Access::all());
    let first = client.get(&format!("{UNITED}&page_size=400")).await;
    assert!(first.html.contains(r#"id="turn-p" aria-disabled="true""#));
    let second = client.follow(&first, "data-key=\"n\"").await;
    let third = client.follow(&second, "data-key=\"n\"").await;
    assert!(third.html.contains(r#"id="turn-n" aria-disabled="true""#));
    let all: Vec<_> = [&first, &second, &third]
        .iter()
        .flat_map(|page| page.rows())
        .collect();
    assert_eq!(all.len(), crate::fixture::FLIGHTS);
    assert!(all.windows(2).all(|pair| pair[0][0] >= pair[1][0]));
    let back = client
        .follow(&client.follow(&third, "data-key=\"p\"").await, "data-key=\"p\"")
        .await;
    assert_eq!(back.rows(), first.rows());
    let last = client.follow(&first, "data-key=\"l\"").await;
    assert_eq!(last.rows().last(), all.last());
    assert_eq!(client.follow(&last, "data-key=\"f\"").await.rows(), first.rows());
}

#[tokio::test]
async fn forms_change_the_filter_the_columns_and_the_place() {
    let fixture = Fixture::new().await;
    let client = fixture.client(Access::all());
    let location = |path: String| {
        let client = &client;
        async move { client.get(&path).await.location.unwrap() }
    };
    let to = location(format!(
        "{UNITED}&is.carrier=&is.time_hour=2013-02-01&op.time_hour=%3E%3D"
    ))
    .await;
    let narrowed = client.get(&to).await;
    assert!(narrowed.html.contains("time_hour ≥"), "{}", narrowed.html);
    assert!(
        to.ends_with("carrier%20%3D%20%22UA%22%20AND%20time_hour%20%3E%3D%20%222013-02-01T00%3A00%3A00Z%22"),
        "{to}"
    );
    let to = location(format!("{UNITED}&jump_field=time_hour&jump=2013-01-05%2012:00")).await;
    assert_eq!(client.get(&to).await.rows()[0][0], "2013-01-05 12:00:00");
    let to = location(format!("{UNITED}&is.dest=LAX&filter_scan.dest=true")).await;
    assert!(to.ends_with("&allow_filter_scan=true"), "{to}");
    assert!(client.get(&to).await.rows().iter().all(|row| row[3] == "LAX"));
    // The order descends, so a jump to a day must start at the end of the day.
    let page = client.get(UNITED).await;
    assert!(page.html.contains(r#"name="jump_descends""#));
    let to = location(format!(
        "{UNITED}&jump_field=time_hour&jump_descends=true&jump=2013-01-05"
    ))
    .await;
    let day = client.get(&to).await;
    assert_eq!(day.rows()[0][0], "2013-01-05 23:00:00");
    assert!(
        day.html.contains(r#"id="jump" value="2013-01-05""#),
        "{}",
        day.html
    );
    let narrow = client.get(&format!("{UNITED}&fields=flight&fields=dest")).await;
    assert!(narrow.rows().iter().all(|row| row.len() == 2));
}

#[tokio::test]
async fn a_header_sorts_or_names_the_view_that_would() {
    let fixture = Fixture::new().await;
    let client = fixture.client(Access::all());
    let page = client.get(UNITED).await;
    let oldest = client.follow(&page, "Sort by time_hour").await;
    assert_eq!(oldest.rows()[0][0], "2013-01-01 00:00:00");
    assert!(oldest.html.contains(r#"aria-sort="ascending""#));
    let newest = client.follow(&oldest, "Sort by time_hour").await;
    assert_eq!(newest.rows(), page.rows());
    let unserved = client.follow(&page, "No view sorts by dep_delay").await;
    assert_eq!(unserved.status, StatusCode::BAD_REQUEST);
    assert_eq!(unserved.rows(), page.rows(), "the page stays below");
    assert!(
        !unserved.html.contains("Check rows one by one"),
        "a sort is not served that way"
    );
    insta::assert_snapshot!("unserved-sort", unserved.main());
}

#[tokio::test]
async fn shows_errors_above_the_previous_page() {
    let fixture = Fixture::new().await;
    let client = fixture.client(Access::all());
    let page = client.get(&format!("{UNITED}&page_size=20")).await;
    let second = client.follow(&page, "data-key=\"n\"").await;
    let was = second.html.split("name=\"was\" value=\"").nth(1).unwrap();
    let was = was.split('"').next().unwrap().replace("&amp;", "&");
    let was = percent_encoding::utf8_percent_encode(&was, percent_encoding::NON_ALPHANUMERIC).to_string();
    let filter = "filter=carrier%20%3D%20%22UA%22%20AND%20flihgt%20%3D%201";
    let wrong = client
        .get(&format!("/collections/flights?{filter}&was={was}"))
        .await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
    assert_eq!(wrong.rows(), second.rows(), "not even the place is lost");
    assert!(wrong.html.contains("<mark>flihgt</mark>"), "{}", wrong.html);
    assert!(
        wrong.html.contains("flihgt = 1\" autocomplete"),
        "what was typed stays: {}",
        wrong.html
    );
    let place = |what: &str| wrong.html.find(what).unwrap();
    assert!(place("role=\"alert\"") < place("<table"));
    let back = client.follow(&wrong, "page_size=20&amp;page_token=").await;
    assert_eq!(back.rows(), second.rows());

    let jumped = format!("{UNITED}&jump_field=time_hour&jump_descends=true&jump=noon&was={was}");
    let jumped = client.get(&jumped).await;
    assert_eq!(jumped.status, StatusCode::BAD_REQUEST);
    assert_eq!(jumped.rows(), second.rows());
    assert!(
        jumped.html.contains(r#"id="jump" value="noon""#),
        "{}",
        jumped.html
    );
    assert!(jumped.html.contains("time_hour") && !jumped.html.contains("JSON array"));

    let right = client
        .get(&format!(
            "{UNITED}&jump_field=time_hour&jump=2013-01-05&was={was}"
        ))
        .await;
    assert_eq!(right.status, StatusCode::SEE_OTHER);
    let right = right.location.unwrap();
    assert!(!right.contains("was="), "{right}");
    assert!(!right.contains("page_token"), "{right}");
}

#[tokio::test]
async fn a_query_that_is_not_served_names_what_serves_it() {
    let fixture = Fixture::new().await;
    let client = fixture.client(Access::all());
    let page = client
        .get(&format!("{UNITED}%20AND%20dest%20%3D%20%22LAX%22"))
        .await;
    assert_eq!(page.status, StatusCode::BAD_REQUEST);
    let filter_scan = client.follow(&page, "allow_filter_scan=true").await;
    assert!(filter_scan.rows().iter().all(|row| row[3] == "LAX"));
    let other = client
        .get("/collections/flights?filter=dest%20%3D%20%22LAX%22&order_by=time_hour")
        .await;
    assert!(
        !other.html.contains("Which carrier?"),
        "a carrier does not help: {}",
        other.html
    );
    let serving = client.follow(&other, "/collections/flights_by_dest?").await;
    assert_eq!(serving.status, StatusCode::OK, "{}", serving.html);
}

#[tokio::test]
async fn marks_the_invalid_part_of_a_request() {
    let fixture = Fixture::new().await;
    let client = fixture.client(Access::all());
    let wrong = client
        .get("/collections/flights?filter=carrier%20%3D%20%22UA%22%20AND%20flihgt%20%3D%201")
        .await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
    assert!(
        wrong.html.contains("AND <mark>flihgt</mark> = 1"),
        "{}",
        wrong.html
    );
    assert!(wrong.html.contains("flight"), "the nearest name is there");
    for (path, status) in [
        (format!("{UNITED}&page_token=made-up"), StatusCode::BAD_REQUEST),
        (format!("{UNITED}&page_size=many"), StatusCode::BAD_REQUEST),
        (format!("{UNITED}&page_size=-1"), StatusCode::BAD_REQUEST),
        (format!("{UNITED}&fields=none"), StatusCode::BAD_REQUEST),
        (format!("{UNITED}&from=%5B"), StatusCode::BAD_REQUEST),
        ("/collections/none".to_owned(), StatusCode::NOT_FOUND),
        (
            "/collections/places/record?key=CH&key=None".to_owned(),
            StatusCode::NOT_FOUND,
        ),
        (
            "/collections/places/record?key=CH".to_owned(),
            StatusCode::BAD_REQUEST,
        ),
        (
            "/collections/flights?filter=%00%ff%22".to_owned(),
            StatusCode::BAD_REQUEST,
        ),
    ] {
        let answer = client.get(&path).await;
        assert_eq!(answer.status, status, "{path}");
        assert!(answer.html.contains(r#"role="alert""#), "{path}");
    }
}

#[tokio::test]
async fn explains_an_empty_result() {
    let fixture = Fixture::new().await;
    let client = fixture.client(Access::all());
    let none = client
        .get("/collections/flights?filter=carrier%20%3D%20%22ZZ%22")
        .await;
    assert_eq!(none.status, StatusCode::OK);
    assert!(none.html.contains("No rows match"));
    let beyond = client
        .get(&format!("{UNITED}&from=%5B%221999-01-01T00:00:00Z%22%5D"))
        .await;
    assert!(
        beyond.html.contains("No rows follow this position"),
        "{}",
        beyond.html
    );
}

#[tokio::test]
async fn exports_the_shown_list_completely_and_in_order() {
    let fixture = Fixture::new().await;
    let client = fixture.client(Access::all());
    let page = client
        .get(&format!("{UNITED}&order_by=time_hour&fields=flight"))
        .await;
    let export = client.follow(&page, "download=").await;
    assert_eq!(export.status, StatusCode::OK);
    let lines: Vec<&str> = export.html.lines().collect();
    assert_eq!(lines.len(), crate::fixture::FLIGHTS);
    assert_eq!(lines[0], r#"{"flight":0}"#);
    assert_eq!(lines[999], r#"{"flight":1993}"#);
    let all = client.get("/collections/flights").await.href("download=");
    assert_eq!(all, "/v1/collections/flights/records:export");
    let wrong = client.get("/collections/flights/export?filter=none").await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn values_are_escaped_and_one_record_is_shown_in_full() {
    let fixture = Fixture::new().await;
    let client = fixture.client(Access::all());
    let page = client
        .get("/collections/places?filter=country%20%3D%20%22CH%22")
        .await;
    assert!(!page.html.contains("<b>old</b>"));
    let bern = client.follow(&page, "key=Bern").await;
    assert_eq!(bern.status, StatusCode::OK);
    insta::assert_snapshot!("record", bern.main());
    assert_eq!(client.follow(&bern, "data-key=\"u\"").await.rows(), page.rows());
    let odd = client.follow(&page, "key=Z%C3%BCrich%20%26%20%22more%22").await;
    assert!(odd.html.contains("Zürich &amp; &quot;more&quot;"));
}

#[tokio::test]
async fn nothing_is_inline() {
    let fixture = Fixture::new().await;
    let client = fixture.client(Access::all());
    for path in ["/", UNITED, "/collections/flights", "/collections/places/new"] {
        let page = client.get(path).await;
        for tag in page
            .html
            .split('<')
            .filter_map(|part| part.split_once('>'))
            .map(|(tag, _)| tag)
        {
            // Keep the names of attributes only: remove their values, which are between quotes.
            let names: String = tag.split('"').step_by(2).collect();
            for name in names.split_whitespace().skip(1) {
                assert!(
                    name != "style=" && !name.starts_with("on") && !name.starts_with("hx-on"),
                    "{path}: {tag}"
                );
            }
        }
        assert!(
            page.html
                .split("<script")
                .skip(1)
                .all(|script| script.starts_with(" src=\"/assets/")),
            "{path}"
        );
        for asset in page.html.split("\"/assets/").skip(1) {
            let path = format!("/assets/{}", asset.split('"').next().unwrap());
            assert_eq!(client.get(&path).await.status, StatusCode::OK, "{path}");
        }
    }
    assert_eq!(
        client.get("/assets/console.rs").await.status,
        StatusCode::NOT_FOUND
    );
}
