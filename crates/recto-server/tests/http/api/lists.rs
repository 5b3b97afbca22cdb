//! Checks the parameters of a list: filters (AIP-160), sort orders (AIP-132), fields, positions and
//! caching.

use hyper::Method;
use serde_json::{Value as Json, json};

use super::support::Client;
use super::support::client::notes;

async fn seed(client: &Client, tenant: &str) -> String {
    let row = |at: i32| {
        json!({ "put": { "tenant": tenant, "at": at, "id": at.to_string(), "title": format!("n{at}"),
            "done": at % 2 == 0 } })
    };
    client.write("notes", (0..6).map(row).collect()).await;
    format!("tenant = \"{tenant}\"")
}

fn ats(page: &Json) -> Vec<i64> {
    let records = page["records"].as_array().unwrap().iter();
    records.map(|record| record["at"].as_i64().unwrap()).collect()
}

pub(crate) async fn take_known_parameters_once(client: Client) {
    let base = "/v1/collections/notes/records?filter=tenant%20%3D%20%22p%22";
    for (more, parameter) in [
        ("&pagesize=1", "pagesize"),
        ("&Filter=x", "Filter"),
        ("&run=true", "run"),
        ("&page_size=1&page_size=1", "page_size"),
        ("&filter=", "filter"),
        ("&last=1", "last"),
        ("&last=True", "last"),
        ("&last", "last"),
        ("&row_page_tokens=yes", "row_page_tokens"),
        ("&allow_filter_scan=", "allow_filter_scan"),
        ("&both_edges=none", "both_edges"),
        ("&order_by=%ff", "order_by"),
        ("&order_by=%2", "order_by"),
    ] {
        let reply = client.get(&format!("{base}{more}")).await;
        let problem = reply.problem(400, "invalid-parameter");
        assert_eq!(problem["parameter"], parameter, "{more}: {problem}");
    }
    for fine in [
        "&last=false",
        "&both_edges=true",
        "&allow_filter_scan=true&row_page_tokens=false",
        "&&",
    ] {
        assert_eq!(client.get(&format!("{base}{fine}")).await.status, 200, "{fine}");
    }
}

pub(crate) async fn say_where_a_filter_is_wrong(client: Client) {
    for (filter, position, field) in [
        ("tenant = ", 10, Json::Null),
        ("tenant = \"é\" AND tenat = \"b\"", 18, "tenat".into()),
        ("tenant != \"a\"", 8, Json::Null),
        ("tenant = \"a\" AND at > \"x\"", 23, "at".into()),
        ("tenant = \"a\" at > 1", 14, Json::Null),
        ("NOT tenant = \"a\"", 1, Json::Null),
        ("tenant = \"a\" OR at = 1", 17, Json::Null),
    ] {
        let reply = client.get(&notes(&[("filter", filter)])).await;
        let problem = reply.problem(400, "invalid-query");
        assert_eq!(problem["parameter"], "filter", "{filter}: {problem}");
        assert_eq!(problem["part"], "filter", "{filter}: {problem}");
        assert_eq!(problem["position"], position, "{filter}: {problem}");
        if !field.is_null() {
            assert_eq!(problem["field"], field, "{filter}: {problem}");
        }
    }
    let long = format!("tenant = \"{}\"", "x".repeat(9_000));
    let problem = client.get(&notes(&[("filter", &long)])).await.json();
    assert_eq!(
        (problem["status"].as_i64(), &problem["parameter"]),
        (Some(400), &"filter".into())
    );
    // A filter that contradicts itself yields an empty page, not an error.
    let page = client
        .notes(&[("filter", "tenant = \"a\" AND tenant = \"b\"")])
        .await;
    assert_eq!(page["records"], json!([]));
}

pub(crate) async fn say_where_a_sort_is_wrong(client: Client) {
    for (sort, position) in [("at down", 4), ("at, att", 5), ("at desc,", 9), ("at, at", 5)] {
        let target = notes(&[("filter", "tenant = \"a\""), ("order_by", sort)]);
        let problem = client.get(&target).await.problem(400, "invalid-query");
        assert_eq!(problem["parameter"], "order_by", "{sort}: {problem}");
        assert_eq!(problem["part"], "sort", "{sort}: {problem}");
        assert_eq!(problem["position"], position, "{sort}: {problem}");
    }
    let filter = seed(&client, "sorted").await;
    for (sort, expected) in [
        ("at desc", [5, 4, 3, 2, 1, 0]),
        ("at", [0, 1, 2, 3, 4, 5]),
        ("at asc , id desc", [0, 1, 2, 3, 4, 5]),
        ("tenant, at desc, id", [5, 4, 3, 2, 1, 0]),
    ] {
        let page = client.notes(&[("filter", &filter), ("order_by", sort)]).await;
        assert_eq!(ats(&page), expected, "{sort}");
    }
}

pub(crate) async fn name_the_view_that_is_missing(client: Client) {
    let filter = seed(&client, "missing").await + " AND done = true";
    let problem = client
        .get(&notes(&[("filter", &filter)]))
        .await
        .problem(400, "no-view");
    assert!(
        problem["hint"].as_str().unwrap().contains("partition"),
        "{problem}"
    );
    assert_eq!(problem.get("missing_partition_fields"), None, "{problem}");
    let page = client
        .notes(&[("filter", &filter), ("allow_filter_scan", "true")])
        .await;
    assert_eq!(ats(&page), [4, 2, 0]);
    let problem = client.get(&notes(&[("filter", "at > 1")])).await;
    let problem = problem.problem(400, "no-view");
    assert_eq!(
        problem["missing_partition_fields"],
        json!(["tenant"]),
        "{problem}"
    );
}

pub(crate) async fn hold_the_fields_asked_for(client: Client) {
    let filter = seed(&client, "fields").await;
    let page = client
        .notes(&[
            ("filter", &filter),
            ("fields", "title, at,title"),
            ("page_size", "1"),
        ])
        .await;
    assert_eq!(page["records"], json!([{ "at": 5, "title": "n5" }]));
    let all = client
        .notes(&[("filter", &filter), ("fields", ""), ("page_size", "1")])
        .await;
    assert_eq!(all["records"][0].as_object().unwrap().len(), 5);
    for (bad, kind) in [
        ("titel", "invalid-query"),
        ("at,,title", "invalid-parameter"),
        ("*", "invalid-query"),
    ] {
        let problem = client
            .get(&notes(&[("filter", &filter), ("fields", bad)]))
            .await
            .problem(400, kind);
        assert_eq!(problem["parameter"], "fields", "{problem}");
    }
}

pub(crate) async fn know_their_views(client: Client) {
    let filter = seed(&client, "views").await;
    let page = client.notes(&[("filter", &filter), ("view", "primary")]).await;
    assert_eq!(ats(&page).len(), 6);
    let target = notes(&[("filter", &filter), ("view", "by_title")]);
    let problem = client.get(&target).await.problem(400, "invalid-parameter");
    assert_eq!(problem["parameter"], "view");
    assert_eq!(problem["hint"], "its views are primary");
}

pub(crate) async fn start_where_asked(client: Client) {
    let filter = seed(&client, "places2").await;
    for (place, expected) in [
        (("from", "[3]"), vec![3, 2]),
        (("from", "[3, \"4\"]"), vec![2, 1]),
        (("from", "[]"), vec![5, 4]),
        (("last", "true"), vec![1, 0]),
    ] {
        let page = client
            .notes(&[("filter", filter.as_str()), ("page_size", "2"), place])
            .await;
        assert_eq!(ats(&page), expected, "{place:?}");
    }
    for bad in ["", "3", "[\"x\"]", "[1, 2, 3]", "[1"] {
        let target = notes(&[("filter", &filter), ("from", bad)]);
        let problem = client.get(&target).await.problem(400, "invalid-query");
        assert_eq!(problem["parameter"], "from", "{bad}: {problem}");
    }
    // With `both_edges`, the server checks whether a previous page exists. The test's page has
    // none.
    let both = client
        .notes(&[("filter", &filter), ("from", "[5]"), ("both_edges", "true")])
        .await;
    assert_eq!(both["previous_page_token"], "");
}

pub(crate) async fn are_revalidated(client: Client) {
    let filter = seed(&client, "tags").await;
    let target = notes(&[("filter", &filter), ("page_size", "2")]);
    let first = client.get(&target).await;
    let tag = first.header("etag").to_owned();
    assert!(tag.starts_with("W/\""), "{tag}");
    assert_eq!(first.header("cache-control"), "private, no-cache");
    let again = client
        .send(Method::GET, &target, &[("if-none-match", &tag)], "")
        .await;
    assert_eq!((again.status, again.body.len()), (304, 0));
    assert_eq!(again.header("etag"), tag);
    let record = json!({ "title": "changed" });
    client
        .put("/v1/collections/notes/records/tags,5,5", &record)
        .await;
    let changed = client
        .send(Method::GET, &target, &[("if-none-match", &tag)], "")
        .await;
    assert_eq!(changed.status, 200);
    assert_ne!(changed.header("etag"), tag);
}

pub(crate) async fn link_to_their_neighbours(client: Client) {
    let filter = seed(&client, "links").await;
    let mut target = notes(&[("filter", &filter), ("page_size", "2"), ("order_by", "at desc")]);
    let mut seen = Vec::new();
    let mut relations = Vec::new();
    loop {
        let reply = client.get(&target).await;
        seen.extend(ats(&reply.json()));
        let links = reply.header("link");
        let named = ["first", "prev", "next"].into_iter();
        relations.push(
            named
                .filter(|name| link(links, name).is_some())
                .collect::<Vec<_>>(),
        );
        match link(links, "next") {
            Some(next) => target = next,
            None => break,
        }
    }
    assert_eq!(seen, [5, 4, 3, 2, 1, 0]);
    assert_eq!(
        relations,
        [
            vec!["first", "next"],
            vec!["first", "prev", "next"],
            vec!["first", "prev"]
        ]
    );
    let previous = link(client.get(&target).await.header("link"), "prev").unwrap();
    assert_eq!(ats(&client.get(&previous).await.json()), [3, 2]);
    let first = link(client.get(&target).await.header("link"), "first").unwrap();
    assert_eq!(ats(&client.get(&first).await.json()), [5, 4]);
}

/// Returns the target of the link with the relation `relation` in a `Link` header.
fn link(header: &str, relation: &str) -> Option<String> {
    let ending = format!(">; rel=\"{relation}\"");
    let links = header.split(", ");
    let mut found = links.filter_map(|link| link.strip_prefix('<')?.strip_suffix(ending.as_str()));
    found.next().map(|link| format!("/v1/collections/notes/{link}"))
}

/// Checks that `records:query`, with the parameters as JSON in the body, returns the same list as a
/// GET.
pub(crate) async fn are_asked_for_by_a_body_too(client: Client) {
    let note = |id: i64| json!({ "put": { "tenant": "by body", "at": id, "id": id } });
    client.write("notes", (0..7).map(note).collect()).await;
    let filter = "tenant = \"by body\"";
    let parameters = [
        ("filter", filter),
        ("page_size", "3"),
        ("from", "[5]"),
        ("fields", "id,at"),
    ];
    let by_address = client.notes(&parameters).await;
    let query = "/v1/collections/notes/records:query";
    let body = json!({ "filter": filter, "page_size": 3, "from": [5], "fields": ["id", "at"] });
    let by_body = client.post(query, &body).await;
    assert_eq!(by_body.header("cache-control"), "no-store");
    assert_eq!(by_body.header("etag"), "");
    assert!(
        by_body.header("link").contains("<records?"),
        "{}",
        by_body.header("link")
    );
    assert!(!by_body.header("recto-cost").is_empty());
    let by_body = by_body.json();
    assert_eq!(by_body["records"], by_address["records"]);
    assert_eq!(by_body["records"].as_array().unwrap().len(), 3);
    // A page token from a request by URL is valid in a request by body, and the other way round.
    let token = &by_address["next_page_token"];
    let next = client
        .post(query, &json!({ "filter": filter, "page_token": token }))
        .await
        .json();
    assert_eq!(next["records"].as_array().unwrap().len(), 3);
    let back = next["previous_page_token"].as_str().unwrap();
    let back = client
        .notes(&[("filter", filter), ("page_token", back), ("page_size", "3")])
        .await;
    assert_eq!(back["records"][0]["id"], by_address["records"][0]["id"]);
    for (bad, parameter) in [
        (json!({ "page_size": "3" }), "page_size"),
        (json!({ "last": 1 }), "last"),
        (json!({ "limit": 3 }), "limit"),
        (json!({ "page_size": -1 }), "page_size"),
        (json!({ "last": true, "from": [1] }), "last"),
        (json!({ "page_token": "x" }), "page_token"),
    ] {
        let mut asked = bad.clone();
        asked["filter"] = filter.into();
        let reply = client.post(query, &asked).await;
        assert_eq!(reply.status, 400, "{bad}");
        assert_eq!(reply.json()["parameter"], parameter, "{bad}");
    }
    let plain = [("content-type", "text/plain")];
    let reply = client.send(Method::POST, query, &plain, "{}").await;
    reply.problem(415, "unsupported-media-type");
    client.get(query).await.problem(405, "method-not-allowed");
}

/// Checks keys of many kilobytes, whose page tokens are too long for a URL. The next page can be
/// requested with the token in the body.
pub(crate) async fn turn_at_keys_too_long_for_an_address(client: Client) {
    use base64::Engine as _;
    let row = |index: u8| {
        let bytes = base64::engine::general_purpose::STANDARD.encode(vec![index; 60_000]);
        json!({ "put": {
            "name": "long", "flag": true, "price": "1.5", "ratio": 0.5, "at": "2026-01-01T00:00:00Z",
            "code": "00000000-0000-4000-8000-000000000000", "bytes": bytes, "tiny": index,
        } })
    };
    for index in 0..3 {
        client.write("everything", vec![row(index)]).await;
    }
    let query = "/v1/collections/everything/records:query";
    let mut token = String::new();
    let mut found = Vec::new();
    loop {
        let body = json!({
            "filter": "name = \"long\"", "page_size": 1, "fields": ["tiny"], "page_token": token,
        });
        let reply = client.post(query, &body).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        // The reply has no link to the next page, because the server would reject a URL of that
        // length.
        assert!(!reply.header("link").contains("next"));
        let page = reply.json();
        found.push(page["records"][0]["tiny"].clone());
        page["next_page_token"].as_str().unwrap().clone_into(&mut token);
        if token.is_empty() {
            break;
        }
        assert!(token.len() > 80_000, "{}", token.len());
    }
    assert_eq!(found, [0, 1, 2]);
}
