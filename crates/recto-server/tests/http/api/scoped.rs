//! Checks what a token with limited rights can see and change. `serve/tokens.rs` tests attacks on
//! row filters.

use std::collections::BTreeMap;

use hyper::Method;
use recto_server::access::{Access, Grant, Right};
use serde_json::{Value as Json, json};

use super::support::Client;
use super::support::client::{listed, notes};

const ALL: [Right; 4] = [Right::Read, Right::Export, Right::Write, Right::Delete];

async fn granted<const N: usize>(client: &Client, grants: [(&str, &[Right], &str); N]) -> Client {
    let grants = grants.into_iter().map(|(collection, rights, rows)| {
        let grant = Grant {
            rights: rights.to_vec(),
            rows: rows.to_owned(),
        };
        (collection.to_owned(), grant)
    });
    let access = Access::granted("somebody", grants.collect::<BTreeMap<_, _>>());
    Client::with_access(client.kind, access).await
}

fn note(tenant: &str) -> Json {
    json!({ "tenant": tenant, "at": 1, "id": 1 })
}

pub(crate) async fn rows_of_others_are_not_seen(client: Client) {
    client
        .write(
            "notes",
            vec![json!({ "put": note("mine") }), json!({ "put": note("theirs") })],
        )
        .await;
    let scoped = granted(&client, [("notes", &ALL, "tenant = \"mine\"")]).await;
    let mine = scoped.notes(&[]).await;
    assert_eq!(mine["records"].as_array().unwrap().len(), 1);
    let theirs = scoped.notes(&[("filter", "tenant = \"theirs\"")]).await;
    assert_eq!(theirs["records"], json!([]));
    let target = "/v1/collections/notes/records/theirs,1,1";
    scoped.get(target).await.problem(404, "not-found");
    scoped.delete(target).await.problem(403, "forbidden");
    scoped.put(target, &json!({})).await.problem(403, "forbidden");
    let exported = scoped.get("/v1/collections/notes/records:export").await;
    assert!(
        exported.text().lines().all(|line| line.contains("\"mine\"")),
        "{}",
        exported.text()
    );
    // The reply has only the collection that the token may read.
    let told = scoped.get("/v1/schema").await.json();
    let schema = recto::schema::Schema::parse(told["toml"].as_str().unwrap()).unwrap();
    let names: Vec<&str> = schema.collections.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["notes"]);
    // Exports with encrypted resume tokens must show no other records either.
    let exported = scoped
        .get("/v1/collections/notes/records:export?resume_tokens=true")
        .await;
    let records = exported
        .text()
        .lines()
        .filter(|line| line.contains("\"record\""))
        .count();
    assert_eq!(records, 1, "{}", exported.text());
    assert!(!exported.text().contains("theirs"));
    // A row filter must also restrict a request with a body.
    for verb in ["query", "export"] {
        let target = format!("/v1/collections/notes/records:{verb}");
        let asked = scoped
            .post(&target, &json!({ "filter": "tenant = \"theirs\"" }))
            .await;
        assert_eq!(asked.status, 200);
        assert!(!asked.text().contains("\"tenant\""), "{}", asked.text());
    }
    assert_eq!(client.get(target).await.status, 200);
}

/// Checks a row filter on fields outside the key, which allows only reads. No write may move a row
/// into or out of the filter, or change a hidden row. Responses must not show whether a hidden row
/// exists.
pub(crate) async fn filters_outside_the_key_are_for_reading(client: Client) {
    let row = |id: i64, title: &str| json!({ "tenant": "titled", "at": 1, "id": id, "title": title });
    client
        .write(
            "notes",
            vec![
                json!({ "put": row(1, "mine") }),
                json!({ "put": row(2, "theirs") }),
            ],
        )
        .await;
    let scoped = granted(&client, [("notes", &ALL, "title = \"mine\"")]).await;
    let of = |id: i64| format!("/v1/collections/notes/records/titled,1,{id}");
    assert_eq!(scoped.get(&of(1)).await.status, 200);
    scoped.get(&of(2)).await.problem(404, "not-found");
    let mut answers = Vec::new();
    for (id, title) in [
        (1, "mine"),
        (1, "theirs"),
        (2, "mine"),
        (2, "theirs"),
        (3, "mine"),
    ] {
        let changes = [
            json!({ "put": row(id, title) }),
            json!({ "delete": ["titled", 1, id] }),
        ];
        let batch = |change: &Json| {
            let (scoped, body) = (scoped.clone(), json!({ "changes": [change] }));
            async move {
                scoped
                    .post("/v1/collections/notes/records:batchWrite", &body)
                    .await
            }
        };
        answers.push(scoped.put(&of(id), &row(id, title)).await);
        answers.push(scoped.delete(&of(id)).await);
        answers.push(batch(&changes[0]).await);
        answers.push(batch(&changes[1]).await);
    }
    let first = answers[0].problem(403, "forbidden");
    assert!(first["detail"].as_str().unwrap().contains("title"), "{first}");
    assert!(
        first["hint"].as_str().unwrap().contains("tenant, at, id"),
        "{first}"
    );
    assert!(!first.to_string().contains("mine"), "{first}");
    for answer in &answers {
        assert_eq!(answer.problem(403, "forbidden"), first);
    }
    for (id, title) in [(1, "mine"), (2, "theirs")] {
        assert_eq!(client.get(&of(id)).await.json()["title"], title);
    }
    assert_eq!(client.get(&of(3)).await.status, 404);
}

pub(crate) async fn batches_reach_no_further_than_their_parts(client: Client) {
    let grants = [
        ("notes", ALL.as_slice(), "tenant = \"part\""),
        ("log", &[Right::Write], "stream = \"part\""),
    ];
    let scoped = granted(&client, grants).await;
    let post = |address: &'static str, changes: Json| {
        let scoped = scoped.clone();
        async move {
            let target = format!("/v1/collections/{address}/records:batchWrite");
            scoped.post(&target, &json!({ "changes": changes })).await
        }
    };
    let line = |stream: &str| json!({ "collection": "log", "put": { "stream": stream, "seq": 1 } });
    let fine = json!([{ "put": note("part") }, line("part")]);
    assert_eq!(post("notes", fine).await.status, 200);
    for (address, changes) in [
        ("notes", json!([{ "put": note("part") }, line("theirs")])),
        ("log", json!([{ "collection": "notes", "put": note("theirs") }])),
        ("notes", json!([{ "delete": ["theirs", 1, 1] }])),
        ("notes", json!([{ "collection": "log", "delete": ["part", 1] }])),
    ] {
        post(address, changes).await.problem(403, "forbidden");
    }
    let hidden = json!([{ "collection": "exported", "put": { "part": 1, "number": 1 } }]);
    post("notes", hidden).await.problem(404, "not-found");
}

pub(crate) async fn rights_not_granted_are_refused(client: Client) {
    let reader = granted(&client, [("notes", &[Right::Read], "")]).await;
    let record = "/v1/collections/notes/records/reader,1,1";
    let listed = reader.get(&notes(&[("filter", "tenant = \"a\"")])).await;
    assert_eq!(listed.status, 200);
    for verb in ["query", "explain"] {
        let target = format!("/v1/collections/notes/records:{verb}");
        let asked = reader.post(&target, &json!({ "filter": "tenant = \"a\"" })).await;
        assert_eq!(asked.status, 200, "{verb}");
    }
    let by_body = reader
        .post("/v1/collections/notes/records:export", &json!({}))
        .await;
    by_body.problem(403, "forbidden");
    reader.put(record, &json!({})).await.problem(403, "forbidden");
    reader.delete(record).await.problem(403, "forbidden");
    reader
        .get("/v1/collections/notes/records:export")
        .await
        .problem(403, "forbidden");
    reader
        .get("/v1/collections/log/records?filter=stream%3D%22a%22")
        .await
        .problem(404, "not-found");
    let writer = granted(&client, [("notes", &[Right::Write], "")]).await;
    writer.get(record).await.problem(403, "forbidden");
}

pub(crate) async fn descriptions_hold_what_is_seen(client: Client) {
    let reader = granted(&client, [("notes", &[Right::Read], "")]).await;
    let listed = reader.get("/v1/collections").await.json();
    assert_eq!(listed["collections"].as_array().unwrap().len(), 1);
    reader.get("/v1/collections/log").await.problem(404, "not-found");
    let document = reader.get("/openapi.json").await;
    assert!(!document.text().contains("everything"), "{}", document.text());
    let paths = document.json()["paths"].clone();
    let paths = paths.as_object().unwrap();
    let named: Vec<&String> = paths.keys().collect();
    let mut of_log = named
        .iter()
        .filter(|path| path.contains("/log") || path.contains("export"));
    assert!(of_log.next().is_none(), "{named:?}");
    assert!(paths.contains_key("/v1/collections/notes/records"), "{named:?}");
    assert!(!reader.get("/docs").await.text().contains("everything"));
    let nobody = granted(&client, []).await;
    let paths = nobody.get("/openapi.json").await.json()["paths"].clone();
    let mut named = paths.as_object().unwrap().keys();
    let is_of_none =
        |path: &String| path == "/v1/collections/-/views" || !path.starts_with("/v1/collections/");
    assert!(named.all(is_of_none), "{paths}");
}

/// Returns the parts of a response that could reveal hidden rows: status, headers and body. Removes
/// the requested bounds, to make responses for different ranges comparable.
async fn shown(
    client: &Client,
    (method, target, body): (Method, String, String),
    bounds: [i64; 2],
) -> String {
    let headers = [("content-type", "application/json")];
    let mut reply = client.send(method, &target, &headers, body).await;
    reply.headers.remove("date");
    let mut text = format!("{} {:?} {}", reply.status, reply.headers, reply.text());
    if let Ok(json) = serde_json::from_slice::<Json>(&reply.body) {
        // Replace parts that always differ: tokens, which are encrypted with new randomness, and
        // requests to the store, which contain the bounds as bytes.
        let sealed = ["next_page_token", "previous_page_token"].map(|name| &json[name]);
        let requests = &json["sources"][0]["requests"][0];
        for varying in sealed.into_iter().chain([requests]).filter_map(Json::as_str) {
            if !varying.is_empty() {
                text = text.replace(varying, "ASKED");
            }
        }
    }
    let [low, high] = bounds.map(|bound| bound.to_string());
    text.replace(&low, "LOW").replace(&high, "HIGH")
}

/// Checks that a client cannot find hidden rows by bisection: a range with hidden rows must have
/// the response of an empty range.
pub(crate) async fn hidden_rows_are_not_found_by_bisecting(client: Client) {
    const FIRST: i64 = 1_000_000;
    let row = |at: i64, title: &str| json!({ "put": { "tenant": "hidden", "at": FIRST + at, "id": 1, "title": title } });
    client
        .write(
            "notes",
            vec![row(21, "theirs"), row(22, "theirs"), row(100, "mine")],
        )
        .await;
    let reads = [Right::Read, Right::Export];
    let scoped = granted(&client, [("notes", &reads, "title = \"mine\"")]).await;
    let requests = |low: i64, high: i64| {
        let filter = format!("tenant = \"hidden\" AND at >= {low} AND at < {high}");
        let records = "/v1/collections/notes/records";
        let list = listed(
            records,
            &[
                ("filter", &filter),
                ("allow_filter_scan", "true"),
                ("both_edges", "true"),
            ],
        );
        let explain = listed(
            &format!("{records}:explain"),
            &[
                ("filter", &filter),
                ("allow_filter_scan", "true"),
                ("run", "true"),
            ],
        );
        let from = listed(
            records,
            &[
                ("filter", &filter),
                ("allow_filter_scan", "true"),
                ("from", &format!("[{high}]")),
            ],
        );
        let body = json!({ "filter": filter, "allow_filter_scan": true, "page_size": 1 }).to_string();
        [
            (Method::GET, list.clone(), String::new()),
            (Method::HEAD, list, String::new()),
            (Method::GET, from, String::new()),
            (Method::POST, format!("{records}:query"), body),
            (Method::GET, explain, String::new()),
            (
                Method::GET,
                listed(&format!("{records}:export"), &[("filter", &filter)]),
                String::new(),
            ),
            (Method::GET, format!("{records}/hidden,{low},1"), String::new()),
        ]
    };
    let (mut low, mut high) = (FIRST, FIRST + 64);
    while high - low > 1 {
        let middle = i64::midpoint(low, high);
        let halves = requests(low, middle).into_iter().zip(requests(middle, high));
        for (one, other) in halves {
            let what = format!("{} {}", one.0, one.1);
            let one = shown(&scoped, one, [low, middle]).await;
            let other = shown(&scoped, other, [middle, high]).await;
            assert_eq!(one, other, "{what}");
            assert!(!one.contains("recto-cost") && !one.contains("actual"), "{one}");
        }
        (low, high) = if FIRST + 21 < middle {
            (low, middle)
        } else {
            (middle, high)
        };
    }
    assert_eq!(low, FIRST + 21, "the way led to a hidden row");
    // If a view serves the row filter, the server reads no hidden rows. So the response may have
    // the cost.
    let pinned = granted(&client, [("notes", &reads, "tenant = \"hidden\"")]).await;
    let page = pinned.get(&notes(&[("page_size", "2")])).await;
    assert!(
        page.header("recto-cost").starts_with("rows_read=3"),
        "{:?}",
        page.headers
    );
}

/// Checks a list that is rejected because of the token's row filter: the response says so and names
/// the parameter that would help.
pub(crate) async fn lists_that_a_filter_needs_more_for_say_so(client: Client) {
    let scoped = granted(&client, [("notes", &[Right::Read], "title = \"mine\"")]).await;
    let target = notes(&[("filter", "tenant = \"told\"")]);
    let problem = scoped.get(&target).await.problem(400, "no-view");
    assert!(
        problem["detail"].as_str().unwrap().contains("uses title"),
        "{problem}"
    );
    assert!(
        problem["hint"]
            .as_str()
            .unwrap()
            .contains("allow_filter_scan=true"),
        "{problem}"
    );
    assert!(!problem.to_string().contains("mine"), "{problem}");
}
