//! Checks requests that wait to receive messages: how long they wait, their limits, and their end.

use std::time::{Duration, Instant};

use recto::session::{DeadLetterSettings, OutgoingMessage, QueueSettings, ReceiveRequest};
use recto::{LocalSession, OpenOptions, Recto, Session as _};
use recto_server::auth::TokenFile;
use recto_server::config::Limits;
use serde_json::{Value as Json, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::support::{
    Served, eventually, make_token, read_reply, read_to_end, serve, serve_store, serve_with_tokens,
};

const JOBS: &str = "/v1/queues/jobs";

async fn post(served: &Served, verb: &str, body: &Json) -> Json {
    let reply = served
        .ask("POST", &format!("{JOBS}/messages:{verb}"), &[], &body.to_string())
        .await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.json()
}

async fn send(served: &Served, body: &str) {
    post(served, "send", &json!({ "messages": [{ "body": body }] })).await;
}

/// Starts a server with the queue `jobs`.
async fn served(change: impl FnOnce(&mut Limits)) -> Served {
    let served = serve(|config| change(&mut config.limits)).await;
    assert_eq!(served.ask("PUT", JOBS, &[], "{}").await.status, 201);
    served
}

async fn status(served: &Served) -> Json {
    served.get(JOBS).await.json()
}

/// Starts a request that waits up to `seconds` seconds for a message. Returns when the server has
/// begun to wait.
async fn waiting(served: &Served, seconds: u32) -> TcpStream {
    let before = status(served).await["receivers_waiting"].as_u64().unwrap();
    let stream = asking(served, seconds).await;
    eventually("it waits", || async {
        status(served).await["receivers_waiting"].as_u64().unwrap() > before
    })
    .await;
    stream
}

async fn asking(served: &Served, seconds: u32) -> TcpStream {
    asking_with(served, seconds, "").await
}

/// Sends a receive request and does not read its reply. An empty `token` means no token.
async fn asking_with(served: &Served, seconds: u32, token: &str) -> TcpStream {
    let body = json!({ "wait_seconds": seconds, "visibility_seconds": 600 }).to_string();
    let mut stream = served.connect().await;
    let authorization = match token {
        "" => String::new(),
        token => format!("Authorization: Bearer {token}\r\n"),
    };
    let head = format!(
        "POST {JOBS}/messages:receive HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         {authorization}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn returns_a_message_to_a_waiting_receive() {
    let served = served(|_| {}).await;
    let mut stream = waiting(&served, 20).await;
    let began = Instant::now();
    send(&served, "a").await;
    let answer = read_reply(&mut stream).await.json();
    assert_eq!(answer["messages"][0]["body"], "a");
    assert!(began.elapsed() < Duration::from_secs(5));
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn lets_a_receive_wait_beyond_the_request_timeout() {
    let served = served(|limits| limits.request_time = Duration::from_millis(300)).await;
    let began = Instant::now();
    let answer = post(&served, "receive", &json!({ "wait_seconds": 2 })).await;
    assert_eq!(answer, json!({ "messages": [] }));
    assert!(began.elapsed() >= Duration::from_secs(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_waiting_receives_apart_from_other_requests() {
    let served = served(|limits| {
        limits.concurrent_requests = 1;
        limits.waiting_receives = 3;
    })
    .await;
    let mut streams = Vec::new();
    for _ in 0..3 {
        streams.push(waiting(&served, 20).await);
    }
    assert_eq!(served.get(JOBS).await.status, 200);
    let mut refused = asking(&served, 20).await;
    let refused = read_reply(&mut refused).await;
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    assert!((served.metric("recto_http_admitted{class=\"receive\"}").await - 3.0).abs() < 0.1);
    assert!(
        (served
            .metric("recto_http_admission_limit{class=\"receive\"}")
            .await
            - 3.0)
            .abs()
            < 0.1
    );
    drop(streams);
    eventually("the places are free", || async {
        served.metric("recto_http_admitted{class=\"receive\"}").await < 0.5
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_waiting_receives_at_once_on_shutdown() {
    let mut served = served(|_| {}).await;
    let mut streams = vec![waiting(&served, 20).await, waiting(&served, 20).await];
    let began = Instant::now();
    served.tell();
    for stream in &mut streams {
        let answer = read_to_end(stream).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.ends_with("{\"messages\":[]}"), "{answer}");
    }
    served.ended().await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn delivers_nothing_to_a_disconnected_client() {
    let served = served(|_| {}).await;
    for round in 0..5 {
        let stream = waiting(&served, 20).await;
        drop(stream);
        eventually("it waits no more", || async {
            status(&served).await["receivers_waiting"] == 0
        })
        .await;
        let body = format!("message {round}");
        send(&served, &body).await;
        let began = Instant::now();
        let received = post(&served, "receive", &json!({ "wait_seconds": 5 })).await;
        assert_eq!(received["messages"][0]["body"], body);
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
        let receipts = json!({ "receipts": [received["messages"][0]["receipt"]] });
        post(&served, "ack", &receipts).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn gives_back_messages_of_a_disconnected_client() {
    let served = served(|_| {}).await;
    // A client that disconnects while the server sends it a message may have received the message.
    // The server must return every other message to the queue.
    let mut on_their_way = 0;
    for round in 0..20 {
        let stream = waiting(&served, 20).await;
        let body = json!({ "messages": [{ "body": format!("{round}") }] }).to_string();
        let target = format!("{JOBS}/messages:send");
        let sending = served.ask("POST", &target, &[], &body);
        let (sent, ()) = tokio::join!(sending, async { drop(stream) });
        assert_eq!(sent.status, 200);
        let received = post(&served, "receive", &json!({ "wait_seconds": 2 })).await;
        match received["messages"].as_array().unwrap().first() {
            Some(message) => {
                post(&served, "ack", &json!({ "receipts": [message["receipt"]] })).await;
            }
            None => on_their_way += 1,
        }
    }
    let left = status(&served).await;
    assert_eq!(left["in_flight"], on_their_way, "{left}");
    assert!(on_their_way < 10, "{on_their_way} of 20");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_has_a_part_of_the_places_of_those_who_wait() {
    let (served, tokens) = serve_with_tokens(&["queue.*:all", "queue.jobs:receive"]).await;
    let served = served
        .again(|config| {
            config.tokens = Some(config.load_folder.as_ref().unwrap().with_file_name("tokens.toml"));
            config.limits.waiting_receives = 4;
        })
        .await;
    assert_eq!(served.with(&tokens[0], "PUT", JOBS, "{}").await.status, 201);
    let target = format!("{JOBS}/messages:receive");
    let wait = json!({ "wait_seconds": 3 }).to_string();
    let (first, second) = tokio::join!(
        served.with(&tokens[1], "POST", &target, &wait),
        served.with(&tokens[1], "POST", &target, &wait),
    );
    let mut statuses = [first.status, second.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 429]);
    assert_eq!(served.with(&tokens[0], "POST", &target, "{}").await.status, 200);
}

/// Checks that waiting receives end soon, without a message, when their token expires, or is
/// revoked or changed. Later messages go to other clients.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_taken_no_more_waits_no_more() {
    let (served, tokens) = serve_with_tokens(&["queue.*:all"]).await;
    let all = &tokens[0];
    assert_eq!(served.with(all, "PUT", JOBS, "{}").await.status, 201);
    let path = served.tokens();
    let tokens = [
        make_token(&path, "queue.jobs:receive,read", None),
        make_token(&path, "queue.jobs:receive,manage", None),
        make_token(&path, "queue.jobs:receive", Some(6)),
        make_token(&path, "queue.jobs:receive,send", None),
    ];
    let target = |verb: &str| format!("{JOBS}/messages:{verb}");
    eventually("they are taken", || async {
        served
            .with(&tokens[3], "POST", &target("receive"), "{}")
            .await
            .status
            == 200
    })
    .await;
    let began = Instant::now();
    let mut streams = Vec::new();
    for token in &tokens {
        streams.push(asking_with(&served, 20, token).await);
    }
    eventually("all wait", || async {
        let status = served.with(all, "GET", JOBS, "").await.json();
        status["receivers_waiting"] == 4
    })
    .await;
    let file = TokenFile::read(&path).unwrap();
    let revoked = file.tokens.iter().find(|token| tokens[0].contains(&token.id));
    TokenFile::revoke(&path, &revoked.unwrap().id).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let changed = text.replacen("[\"receive\", \"manage\"]", "[\"manage\"]", 1);
    assert_ne!(changed, text);
    std::fs::write(&path, changed).unwrap();
    for stream in &mut streams[..3] {
        let reply = read_reply(stream).await;
        assert_eq!((reply.status, reply.json()), (200, json!({ "messages": [] })));
    }
    assert!(began.elapsed() < Duration::from_secs(12), "{:?}", began.elapsed());
    let mut statuses = Vec::new();
    for token in &tokens[..3] {
        statuses.push(served.with(token, "POST", &target("receive"), "{}").await.status);
    }
    assert_eq!(statuses, [401, 403, 401]);
    // A receive whose token did not change continues to wait.
    let body = json!({ "messages": [{ "body": "a" }] }).to_string();
    assert_eq!(served.with(all, "POST", &target("send"), &body).await.status, 200);
    let received = read_reply(&mut streams[3]).await.json();
    assert_eq!(received["messages"][0]["body"], "a");
    assert_eq!(received["messages"][0]["attempts"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_queue_says_why_it_delivers_nothing() {
    let served = served(|_| {}).await;
    send(&served, "a").await;
    let change = async |body: Json| {
        let reply = served.ask("PATCH", JOBS, &[], &body.to_string()).await;
        assert_eq!(reply.status, 200, "{}", reply.body);
        reply.json()
    };
    let paused = change(json!({ "paused": true })).await;
    assert_eq!(paused["options"]["paused"], true);
    let receive = json!({ "visibility_seconds": 600 });
    assert_eq!(
        post(&served, "receive", &receive).await,
        json!({ "messages": [], "paused": true })
    );
    let mut stream = waiting(&served, 20).await;
    change(json!({ "paused": false })).await;
    let received = read_reply(&mut stream).await.json();
    assert_eq!(received["messages"][0]["body"], "a");
    assert_eq!(
        post(&served, "receive", &receive).await,
        json!({ "messages": [] })
    );
}

/// Checks a redrive of more messages than one request can move within its time limit. Each response
/// reports the number of moved messages, and the next request continues.
#[tokio::test(flavor = "multi_thread")]
async fn a_redrive_of_many_is_answered_in_time_and_goes_on() {
    const MESSAGES: usize = 20_000;
    let served = served(|limits| limits.request_time = Duration::from_secs(2)).await;
    let queues = served.session.queues().unwrap();
    let other = QueueSettings::default();
    queues.create_queue("others", &other).await.unwrap();
    for _ in 0..MESSAGES / 1_000 {
        let messages = vec![OutgoingMessage::of(b"a".to_vec()); 1_000];
        queues.send("jobs", messages).await.unwrap();
    }
    let (mut moved, mut requests) = (0, 0);
    loop {
        let answer = post(&served, "redrive", &json!({ "to": "others" })).await;
        moved += answer["moved"].as_u64().unwrap();
        requests += 1;
        if answer["done"] == true {
            break;
        }
        assert_eq!(
            status(&served).await["messages"],
            MESSAGES as u64 - moved,
            "nothing goes on"
        );
    }
    assert_eq!(moved, MESSAGES as u64);
    assert!(requests > 1, "{requests}");
    assert_eq!(queues.queue("others").await.unwrap().messages, moved);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_log_names_queues_and_counts_messages() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("audit.log");
    let served = serve(|config| config.audit_log = Some(log.clone())).await;
    assert_eq!(served.ask("PUT", JOBS, &[], "{}").await.status, 201);
    post(
        &served,
        "send",
        &json!({ "messages": [{ "body": "secret" }, {}] }),
    )
    .await;
    let received = post(&served, "receive", &json!({})).await;
    post(
        &served,
        "ack",
        &json!({ "receipts": [received["messages"][0]["receipt"]] }),
    )
    .await;
    assert_eq!(served.ask("DELETE", JOBS, &[], "").await.status, 204);
    served.stop().await.unwrap();
    let text = std::fs::read_to_string(log).unwrap();
    let lines: Vec<Json> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let told: Vec<_> = lines
        .iter()
        .map(|line| (&line["action"], &line["outcome"], &line["messages"]))
        .collect();
    let (none, done) = (json!(null), json!("done"));
    let (create, send, ack, delete) = (
        json!("create queue"),
        json!("send"),
        json!("ack"),
        json!("delete queue"),
    );
    let expected = [
        (&create, &done, &none),
        (&send, &json!("invalid-argument"), &json!(2)),
        (&ack, &done, &json!(1)),
        (&delete, &done, &none),
    ];
    assert_eq!(told, expected);
    assert!(lines.iter().all(|line| line["queue"] == "jobs"));
    assert!(!text.contains("secret"));
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_tell_of_queues_whoever_may_read_them_all() {
    let (served, tokens) =
        serve_with_tokens(&["*:read; queue.*:all", "*:read", "*:read; queue.jobs:read"]).await;
    let metrics = async |token: &str| served.with(token, "GET", "/metrics", "").await.body;
    assert!(
        !metrics(&tokens[0]).await.contains("recto_queue"),
        "a store without queues stays one"
    );
    assert_eq!(served.with(&tokens[0], "PUT", JOBS, "{}").await.status, 201);
    let body =
        json!({ "messages": [{ "body": "a" }, { "body": "b" }, { "body": "c", "delay_seconds": 60 }] });
    let target = |verb: &str| format!("{JOBS}/messages:{verb}");
    served
        .with(&tokens[0], "POST", &target("send"), &body.to_string())
        .await;
    let received = served
        .with(&tokens[0], "POST", &target("receive"), "{}")
        .await
        .json();
    let receipts = json!({ "receipts": [received["messages"][0]["receipt"]] });
    served
        .with(&tokens[0], "POST", &target("ack"), &receipts.to_string())
        .await;
    served.with(&tokens[0], "POST", &target("receive"), "{}").await;
    eventually("figures are looked at again", || async {
        metrics(&tokens[0]).await.contains("recto_queues 1\n")
    })
    .await;
    let text = metrics(&tokens[0]).await;
    for line in [
        "recto_queue_messages{queue=\"jobs\"} 2",
        "recto_queue_in_flight{queue=\"jobs\"} 1",
        "recto_queue_delayed{queue=\"jobs\"} 1",
        "recto_queue_sent_total{queue=\"jobs\"} 3",
        "recto_queue_received_total{queue=\"jobs\"} 2",
        "recto_queue_acked_total{queue=\"jobs\"} 1",
        "recto_queue_returned_total{queue=\"jobs\"} 0",
        "recto_queue_dead_lettered_total{queue=\"jobs\"} 0",
        "recto_queue_expired_total{queue=\"jobs\"} 0",
        "recto_queue_bodies_lost_total{queue=\"jobs\"} 0",
    ] {
        assert!(text.lines().any(|one| one == line), "{line}\n{text}");
    }
    for token in &tokens[1..] {
        let text = metrics(token).await;
        assert!(
            text.contains("recto_http_in_flight") && !text.contains("jobs"),
            "{text}"
        );
    }
}

/// Checks that the server moves dead letters even without requests for queues. The test takes as
/// long as the interval of the maintenance task.
#[tokio::test(flavor = "multi_thread")]
async fn moves_dead_letters_in_the_background() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    {
        let recto = Recto::open_with(&path, OpenOptions::new().create())
            .await
            .unwrap();
        let session = LocalSession::new(recto.clone());
        let queues = session.queues().unwrap();
        queues
            .create_queue("dead", &QueueSettings::default())
            .await
            .unwrap();
        let dying = QueueSettings {
            dead_letters: Some(Some(DeadLetterSettings {
                queue: "dead".to_owned(),
                attempts: 1,
            })),
            visibility_seconds: Some(1),
            ..QueueSettings::default()
        };
        queues.create_queue("jobs", &dying).await.unwrap();
        queues
            .send("jobs", vec![OutgoingMessage::of(b"a".to_vec())])
            .await
            .unwrap();
        queues.receive("jobs", &ReceiveRequest::default()).await.unwrap();
        recto.close().await.unwrap();
    }
    let session = LocalSession::new(Recto::open(&path).await.unwrap());
    let served = serve_store(session, folder, |_| {}).await;
    tokio::time::sleep(Duration::from_secs(34)).await;
    // Check in the first request for queues that the messages have moved. Maintenance that started
    // only with the request would not be finished.
    let dead = served.get("/v1/queues/dead").await.json();
    assert_eq!(dead["messages"], 1, "{dead}");
}
