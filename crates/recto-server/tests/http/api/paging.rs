//! Checks the rules of AIP-158 for pages, one by one.

use serde_json::{Value as Json, json};

use super::support::Client;
use super::support::client::notes;

/// Writes `count` rows of a tenant, and returns the filter that selects them. In the list's order,
/// their field `at` falls from `count - 1` to 0.
async fn seed(client: &Client, tenant: &str, count: i32) -> String {
    let row = |at| json!({ "put": { "tenant": tenant, "at": at, "id": "7", "title": format!("n{at}") } });
    client.write("notes", (0..count).map(row).collect()).await;
    format!("tenant = \"{tenant}\"")
}

fn ats(page: &Json) -> Vec<i64> {
    let records = page["records"].as_array().unwrap().iter();
    records.map(|record| record["at"].as_i64().unwrap()).collect()
}

fn token<'a>(page: &'a Json, which: &str) -> &'a str {
    page[which].as_str().unwrap()
}

fn falling(from: i64, to: i64) -> Vec<i64> {
    (to..=from).rev().collect()
}

pub(crate) async fn size_is_the_default_if_absent_or_zero(client: Client) {
    let filter = seed(&client, "size", 60).await;
    let absent = client.notes(&[("filter", &filter)]).await;
    assert_eq!(ats(&absent), falling(59, 10));
    let zero = client.notes(&[("filter", &filter), ("page_size", "0")]).await;
    assert_eq!(ats(&zero), falling(59, 10));
}

pub(crate) async fn size_cannot_be_negative_or_no_number(client: Client) {
    for bad in ["-1", "-99999999999999999999", "ten", "", "1.5", "1e1", " 1"] {
        let target = notes(&[("filter", "tenant = \"x\""), ("page_size", bad)]);
        let problem = client.get(&target).await.problem(400, "invalid-parameter");
        assert_eq!(problem["parameter"], "page_size", "{bad}: {problem}");
    }
}

pub(crate) async fn size_is_coerced_to_the_most(client: Client) {
    let filter = seed(&client, "many", 1_003).await;
    for size in ["1001", "5000", "99999999999999999999"] {
        let page = client.notes(&[("filter", &filter), ("page_size", size)]).await;
        assert_eq!(ats(&page), falling(1_002, 3), "{size}");
        assert_ne!(token(&page, "next_page_token"), "");
    }
}

pub(crate) async fn size_changes_from_page_to_page(client: Client) {
    let filter = seed(&client, "changing", 10).await;
    let mut next = String::new();
    let mut seen = Vec::new();
    for size in ["1", "4", "2", "1000"] {
        let asked = [
            ("filter", filter.as_str()),
            ("page_size", size),
            ("page_token", &next),
        ];
        let page = client.notes(&asked).await;
        seen.extend(ats(&page));
        token(&page, "next_page_token").clone_into(&mut next);
    }
    assert_eq!(seen, falling(9, 0));
    assert_eq!(next, "");
}

pub(crate) async fn next_is_empty_only_at_the_end(client: Client) {
    let filter = seed(&client, "forwards", 12).await;
    let mut next = String::new();
    let mut sizes = Vec::new();
    let mut seen = Vec::new();
    loop {
        let page = client
            .notes(&[("filter", &filter), ("page_size", "4"), ("page_token", &next)])
            .await;
        sizes.push(ats(&page).len());
        seen.extend(ats(&page));
        token(&page, "next_page_token").clone_into(&mut next);
        if next.is_empty() {
            break;
        }
    }
    // The last page is full. It has no token, so that no empty page follows.
    assert_eq!(sizes, [4, 4, 4]);
    assert_eq!(seen, falling(11, 0));
    let nothing = client.notes(&[("filter", "tenant = \"nobody\"")]).await;
    assert_eq!(token(&nothing, "next_page_token"), "");
}

pub(crate) async fn previous_is_empty_only_at_the_beginning(client: Client) {
    let filter = seed(&client, "backwards", 10).await;
    let first = client.notes(&[("filter", &filter), ("page_size", "4")]).await;
    assert_eq!(token(&first, "previous_page_token"), "");
    let mut page = client
        .notes(&[("filter", &filter), ("page_size", "4"), ("last", "true")])
        .await;
    assert_eq!(token(&page, "next_page_token"), "");
    let mut pages = Vec::new();
    loop {
        pages.push(ats(&page));
        let previous = token(&page, "previous_page_token").to_owned();
        if previous.is_empty() {
            break;
        }
        page = client
            .notes(&[("filter", &filter), ("page_size", "4"), ("page_token", &previous)])
            .await;
        // Each page has a token of the next page, so that a client that pages backward can turn
        // around.
        assert_ne!(token(&page, "next_page_token"), "");
    }
    assert_eq!(pages, [falling(3, 0), falling(7, 4), falling(9, 8)]);
}

pub(crate) async fn a_token_goes_on_after_its_row_is_gone(client: Client) {
    let filter = seed(&client, "gone", 6).await;
    let page = client.notes(&[("filter", &filter), ("page_size", "2")]).await;
    let next = token(&page, "next_page_token");
    for at in [4, 3] {
        let reply = client
            .delete(&format!("/v1/collections/notes/records/gone,{at},7"))
            .await;
        assert_eq!(reply.status, 204);
    }
    let rest = client.notes(&[("filter", &filter), ("page_token", next)]).await;
    assert_eq!(ats(&rest), falling(2, 0));
}

pub(crate) async fn a_token_with_other_arguments_is_refused(client: Client) {
    let filter = seed(&client, "arguments", 6).await;
    let page = client.notes(&[("filter", &filter), ("page_size", "2")]).await;
    let next = token(&page, "next_page_token");
    for other in [
        vec![("filter", "tenant = \"other\"")],
        vec![("filter", "tenant = \"arguments\" AND at > 1")],
        vec![("filter", filter.as_str()), ("order_by", "at")],
    ] {
        let asked = [other, vec![("page_token", next)]].concat();
        let problem = client
            .get(&notes(&asked))
            .await
            .problem(400, "invalid-page-token");
        assert_eq!(problem["parameter"], "page_token", "{problem}");
    }
    let elsewhere = format!("/v1/collections/log/records?filter=stream%20%3D%20%22a%22&page_token={next}");
    client.get(&elsewhere).await.problem(400, "invalid-page-token");
    // Other spaces and other fields do not change the query, so the page token stays valid.
    let spaced = "  tenant=\"arguments\" ";
    let same = client
        .notes(&[
            ("filter", spaced),
            ("page_token", next),
            ("fields", "at"),
            ("page_size", "1"),
        ])
        .await;
    assert_eq!(ats(&same), [3]);
}

pub(crate) async fn a_token_that_was_altered_is_refused(client: Client) {
    let filter = seed(&client, "altered", 6).await;
    let page = client.notes(&[("filter", &filter), ("page_size", "2")]).await;
    let next = token(&page, "next_page_token");
    let middle = next.len() / 2;
    let other = if &next[middle..=middle] == "A" { "B" } else { "A" };
    let altered = format!("{}{other}{}", &next[..middle], &next[middle + 1..]);
    for bad in [altered.as_str(), &next[1..], &next[..middle], "x", "…", "AAAA"] {
        let target = notes(&[("filter", &filter), ("page_token", bad)]);
        let problem = client.get(&target).await.problem(400, "invalid-page-token");
        assert_eq!(problem["parameter"], "page_token");
        assert!(
            says(&problem, "page token") && !says(&problem, "the cursor"),
            "{problem}"
        );
        let target = notes(&[("filter", &filter), ("around", bad)]);
        let problem = client.get(&target).await.problem(400, "invalid-page-token");
        assert_eq!(problem["parameter"], "around");
        assert!(
            says(&problem, "row token") && !says(&problem, "the cursor"),
            "{problem}"
        );
    }
}

fn says(problem: &serde_json::Value, words: &str) -> bool {
    problem["detail"].as_str().unwrap().contains(words)
}

pub(crate) async fn a_wrong_start_names_its_field(client: Client) {
    let filter = seed(&client, "start", 2).await;
    let problem = client
        .get(&notes(&[("filter", &filter), ("from", "[\"soon\"]")]))
        .await
        .problem(400, "invalid-query");
    assert_eq!(problem["parameter"], "from", "{problem}");
    assert_eq!(problem["field"], "at", "{problem}");
    for from in ["[", "[1, 2, 3, 4]"] {
        let target = notes(&[("filter", &filter), ("from", from)]);
        let problem = client.get(&target).await.problem(400, "invalid-query");
        assert_eq!(problem["parameter"], "from", "{problem}");
        assert!(problem.get("field").is_none(), "{problem}");
    }
}

pub(crate) async fn a_dash_descends(client: Client) {
    let filter = seed(&client, "dash", 4).await;
    for order in ["-at", "at desc"] {
        let page = client.notes(&[("filter", &filter), ("order_by", order)]).await;
        assert_eq!(ats(&page), falling(3, 0), "{order}");
    }
}

pub(crate) async fn an_empty_token_is_the_first_page(client: Client) {
    let filter = seed(&client, "empty", 3).await;
    let page = client
        .notes(&[
            ("filter", &filter),
            ("page_token", ""),
            ("around", ""),
            ("page_size", "2"),
        ])
        .await;
    assert_eq!(ats(&page), [2, 1]);
}

pub(crate) async fn a_page_starts_at_one_place(client: Client) {
    let filter = seed(&client, "places", 3).await;
    let page = client
        .notes(&[
            ("filter", &filter),
            ("page_size", "1"),
            ("row_page_tokens", "true"),
        ])
        .await;
    let next = token(&page, "next_page_token");
    let row = page["row_page_tokens"][0].as_str().unwrap();
    let places = [
        ("page_token", next),
        ("from", "[1]"),
        ("around", row),
        ("last", "true"),
    ];
    for (index, one) in places.iter().enumerate() {
        for other in &places[index + 1..] {
            let target = notes(&[("filter", filter.as_str()), *one, *other]);
            let problem = client.get(&target).await.problem(400, "invalid-parameter");
            assert_eq!(problem["parameter"], other.0, "{problem}");
        }
    }
}

pub(crate) async fn row_page_tokens_stand_beside_records(client: Client) {
    let filter = seed(&client, "rows", 5).await;
    let page = client
        .notes(&[("filter", &filter), ("row_page_tokens", "true")])
        .await;
    let tokens = page["row_page_tokens"].as_array().unwrap();
    assert_eq!(tokens.len(), 5);
    let third = tokens[2].as_str().unwrap();
    let after = client.notes(&[("filter", &filter), ("page_token", third)]).await;
    assert_eq!(ats(&after), [1, 0]);
    let around = client
        .notes(&[("filter", &filter), ("around", third), ("page_size", "3")])
        .await;
    assert!(ats(&around).contains(&2), "{around}");
    let without = client.notes(&[("filter", &filter)]).await;
    assert!(without.get("row_page_tokens").is_none());
}
