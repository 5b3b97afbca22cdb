//! Checks exports, which return all records as a stream.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value as Json, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;

use recto_server::access::{Access, Grant, Right};

use super::support::client::listed;
use super::support::{Client, Kind};

const EXPORT: &str = "/v1/collections/exported/records:export";
const PARTS: i32 = 10;
const ROWS_PER_PART: i32 = 400;

/// Fills the exported collection, once for each kind of store.
async fn seed(client: &Client) {
    static EMBEDDED: OnceCell<()> = OnceCell::const_new();
    static CASSANDRA: OnceCell<()> = OnceCell::const_new();
    let cell = match client.kind {
        Kind::Embedded => &EMBEDDED,
        Kind::Cassandra => &CASSANDRA,
    };
    let fill = || async {
        for part in 0..PARTS {
            let row = |number| json!({ "put": { "part": part, "number": number, "text": "x".repeat(40) } });
            client
                .write("exported", (0..ROWS_PER_PART).map(row).collect())
                .await;
        }
    };
    cell.get_or_init(fill).await;
}

fn keys<'a>(records: impl IntoIterator<Item = &'a Json>) -> Vec<(i64, i64)> {
    let key = |record: &Json| {
        (
            record["part"].as_i64().unwrap(),
            record["number"].as_i64().unwrap(),
        )
    };
    records.into_iter().map(key).collect()
}

fn lines(text: &str) -> Vec<Json> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn assert_all(found: &[(i64, i64)]) {
    let distinct: BTreeSet<_> = found.iter().collect();
    assert_eq!(found.len(), (PARTS * ROWS_PER_PART) as usize);
    assert_eq!(distinct.len(), found.len());
}

pub(crate) async fn hold_every_record_once(client: Client) {
    seed(&client).await;
    let reply = client.get(EXPORT).await;
    assert_eq!(reply.header("content-type"), "application/x-ndjson");
    assert_eq!(reply.header("cache-control"), "no-store");
    let records = lines(&reply.text());
    assert_all(&keys(&records));
    assert_eq!(records[0].as_object().unwrap().len(), 3);
}

pub(crate) async fn hold_the_fields_asked_for(client: Client) {
    seed(&client).await;
    let reply = client.get(&format!("{EXPORT}?fields=number,part")).await;
    let records = lines(&reply.text());
    assert_all(&keys(&records));
    assert!(
        records
            .iter()
            .all(|record| record.as_object().unwrap().len() == 2)
    );
    for (bad, parameter) in [
        ("fields=x", "fields"),
        ("filter=a", "filter"),
        ("filter=x%20%3D%201", "filter"),
        ("resume_tokens=1", "resume_tokens"),
        ("order_by=part", "order_by"),
    ] {
        let reply = client.get(&format!("{EXPORT}?{bad}")).await;
        assert_eq!(reply.status, 400, "{bad}");
        assert_eq!(reply.json()["parameter"], parameter, "{bad}");
    }
}

pub(crate) async fn go_on_after_a_cut(client: Client) {
    seed(&client).await;
    let (found, requests) = cut_again_and_again(&client, "").await;
    assert!(requests > 1);
    assert_all(&found);
}

/// Exports with many requests: interrupts each request after two resume tokens, and continues with
/// the next. Returns the exported keys and the number of requests.
async fn cut_again_and_again(client: &Client, filter: &str) -> (Vec<(i64, i64)>, usize) {
    let mut found = Vec::new();
    let mut token = String::new();
    let mut requests = 0;
    loop {
        requests += 1;
        let mut parameters = vec![("resume_tokens", "true"), ("filter", filter)];
        let mut body = json!({ "resume_tokens": true, "filter": filter });
        if !token.is_empty() {
            parameters.push(("resume_token", &*token));
            body["resume_token"] = token.clone().into();
        }
        // Send the parameters in the URL and in the body in turn. A resume token of one form is
        // valid in the other.
        let reply = if requests % 2 == 1 {
            client.get(&listed(EXPORT, &parameters)).await
        } else {
            client.post(EXPORT, &body).await
        };
        assert_eq!(reply.status, 200, "{}", reply.text());
        let lines = lines(&reply.text());
        // Cut the export after its second token, in the middle of the lines that follow. Keep the
        // last part whole.
        let tokens = lines.iter().enumerate();
        let tokens: Vec<usize> = tokens
            .filter(|(_, line)| line.get("resume_token").is_some())
            .map(|(index, _)| index)
            .collect();
        let until = tokens[tokens.len().min(2) - 1];
        found.extend(keys(lines[..until].iter().filter_map(|line| line.get("record"))));
        lines[until]["resume_token"]
            .as_str()
            .unwrap()
            .clone_into(&mut token);
        if token.is_empty() {
            assert_eq!(until, lines.len() - 1, "the empty token is the last line");
            break;
        }
    }
    (found, requests)
}

/// Checks that an export returns the records of a filter: if a view serves the filter, and if each
/// row is checked. The parameters may be in the URL or in the body.
pub(crate) async fn hold_what_a_filter_asks_for(client: Client) {
    seed(&client).await;
    for (filter, expected) in [
        ("part = 3", 400),
        ("part = 3 AND number >= 390", 10),
        ("part = 3 OR part = 4", 800),
        ("number < 5", 50),
        ("text = \"nothing\"", 0),
        ("part = 3 AND part = 4", 0),
    ] {
        let by_address = client
            .get(&listed(EXPORT, &[("filter", filter), ("fields", "number,part")]))
            .await;
        let records = lines(&by_address.text());
        let distinct: BTreeSet<_> = keys(&records).into_iter().collect();
        assert_eq!((records.len(), distinct.len()), (expected, expected), "{filter}");
        let body = json!({ "filter": filter, "fields": ["part", "number"] });
        let by_body = client.post(EXPORT, &body).await;
        assert_eq!(lines(&by_body.text()).len(), expected, "{filter}");
        let (found, _) = cut_again_and_again(&client, filter).await;
        assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), distinct, "{filter}");
    }
    for bad in [
        json!({ "filter": 1 }),
        json!({ "fields": "part" }),
        json!({ "resume_tokens": "true" }),
        json!([]),
    ] {
        assert_eq!(client.post(EXPORT, &bad).await.status, 400, "{bad}");
    }
    let twice = client.post(&format!("{EXPORT}?filter=x"), &json!({})).await;
    twice.problem(400, "invalid-parameter");
}

/// Checks that a token with a row filter can resume its own exports, but not those of a token with
/// another row filter.
pub(crate) async fn go_on_for_whoever_sees_some_rows(client: Client) {
    seed(&client).await;
    let scoped = |rows: &'static str| {
        let grant = Grant {
            rights: vec![Right::Export],
            rows: rows.to_owned(),
        };
        let access = Access::granted("somebody", [("exported".to_owned(), grant)].into());
        Client::with_access(client.kind, access)
    };
    let (low, high) = (scoped("number < 300").await, scoped("number >= 300").await);
    let part = scoped("part = 7").await;
    for (client, filter, expected) in [
        (&low, "", 3_000),
        (&low, "number >= 250", 500),
        (&high, "part = 2", 100),
        (&part, "", 400),
        (&part, "part = 8", 0),
    ] {
        let (found, _) = cut_again_and_again(client, filter).await;
        let distinct: BTreeSet<_> = found.iter().collect();
        assert_eq!((found.len(), distinct.len()), (expected, expected), "{filter}");
    }
    let of = |client: Client, filter: &'static str| async move {
        let reply = client
            .get(&listed(EXPORT, &[("resume_tokens", "true"), ("filter", filter)]))
            .await;
        let lines = lines(&reply.text());
        let token = lines.iter().find_map(|line| line["resume_token"].as_str());
        token.unwrap().to_owned()
    };
    let tokens = [
        of(client.clone(), "").await,
        of(high.clone(), "").await,
        of(client.clone(), "number >= 1").await,
    ];
    for token in tokens {
        let reply = low.get(&listed(EXPORT, &[("resume_token", &*token)])).await;
        let problem = reply.problem(400, "invalid-page-token");
        assert_eq!(problem["parameter"], "resume_token");
    }
    // The server must also reject a resume token whose request had another filter.
    let token = of(client.clone(), "number >= 1").await;
    let reply = client
        .get(&listed(
            EXPORT,
            &[("resume_token", &*token), ("filter", "number >= 2")],
        ))
        .await;
    assert!(
        reply.problem(400, "invalid-page-token")["detail"]
            .as_str()
            .unwrap()
            .contains("filter")
    );
}

pub(crate) async fn refuse_tokens_that_are_not_theirs(client: Client) {
    seed(&client).await;
    let reply = client.get(&format!("{EXPORT}?resume_tokens=true")).await;
    let lines = lines(&reply.text());
    let mut tokens = lines.iter().filter_map(|line| line["resume_token"].as_str());
    let token = tokens.next().unwrap();
    let other = format!("/v1/collections/log/records:export?resume_token={token}");
    for target in [
        other,
        format!("{EXPORT}?resume_token={}", &token[1..]),
        format!("{EXPORT}?resume_token=x"),
    ] {
        let problem = client.get(&target).await.problem(400, "invalid-page-token");
        assert_eq!(problem["parameter"], "resume_token");
    }
}

/// Checks that the server does not read ahead of a client that does not read. The export ends when
/// the client disconnects.
pub(crate) async fn are_not_read_ahead_of_the_client(client: Client) {
    seed(&client).await;
    let mut stream = TcpStream::connect(client.address).await.unwrap();
    let request = format!("GET {EXPORT} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut start = [0; 64];
    stream.read_exact(&mut start).await.unwrap();
    assert!(
        start.starts_with(b"HTTP/1.1 200 OK"),
        "{}",
        String::from_utf8_lossy(&start)
    );
    tokio::time::sleep(Duration::from_millis(50)).await;
    drop(stream);
    assert_eq!(client.get("/v1/collections").await.status, 200);
}
