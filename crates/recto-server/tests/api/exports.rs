//! All records, streamed.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value as Json, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;

use crate::support::{Client, Kind};

const EXPORT: &str = "/v1/collections/exported/records:export";
const PARTS: i32 = 10;
const ROWS_PER_PART: i32 = 400;

/// The collection, filled once for each store.
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
    for bad in ["fields=x", "filter=a", "resume_tokens=1"] {
        assert_eq!(client.get(&format!("{EXPORT}?{bad}")).await.status, 400, "{bad}");
    }
}

pub(crate) async fn go_on_after_a_cut(client: Client) {
    seed(&client).await;
    let mut found = Vec::new();
    let mut token = String::new();
    let mut requests = 0;
    loop {
        requests += 1;
        let reply = client
            .get(&format!("{EXPORT}?resume_tokens=true&resume_token={token}"))
            .await;
        let lines = lines(&reply.text());
        // Cut after the second token, in the middle of what follows it; the last part comes whole.
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
    assert!(requests > 1);
    assert_all(&found);
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

/// A client that does not read is not written to without end, and cutting it off ends the export.
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
