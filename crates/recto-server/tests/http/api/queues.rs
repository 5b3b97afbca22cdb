//! Checks requests for queues: create, inspect, change and delete queues; send, receive and settle
//! messages.

use std::collections::BTreeMap;

use hyper::Method;
use recto::{OpenOptions, Recto};
use recto_server::access::{Access, Grant, Right};
use serde_json::{Value as Json, json};

use super::support::{Client, Kind, Reply, run};

const JOBS: &str = "/v1/queues/jobs";

/// Runs a test on a new store without collections.
fn on_store<F: Future<Output = ()>>(test: impl FnOnce(Recto) -> F) {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let recto = Recto::open_with(path, OpenOptions::new().create()).await.unwrap();
        test(recto).await;
    });
}

/// Runs a test on a new store with the queue `jobs`, and the queue `dead` for its dead letters. The
/// client has all rights.
fn with_jobs<F: Future<Output = ()>>(test: impl FnOnce(Client) -> F) {
    on_store(async |recto| test(jobs_of(&recto).await).await);
}

async fn jobs_of(recto: &Recto) -> Client {
    let client = Client::over(recto.clone(), Kind::Embedded, Access::all()).await;
    assert_eq!(client.put("/v1/queues/dead", &json!({})).await.status, 201);
    let settings = json!({ "dead_letters": { "queue": "dead", "attempts": 1 } });
    assert_eq!(client.put(JOBS, &settings).await.status, 201);
    client
}

async fn granted(recto: &Recto, grants: &[(&str, &[Right])]) -> Client {
    let grants = grants.iter().map(|(name, rights)| {
        let rights = rights.to_vec();
        let rows = String::new();
        ((*name).to_owned(), Grant { rights, rows })
    });
    let access = Access::granted("somebody", grants.collect::<BTreeMap<_, _>>());
    Client::over(recto.clone(), Kind::Embedded, access).await
}

async fn ask(client: &Client, verb: &str, body: Json) -> Reply {
    client.post(&format!("{JOBS}/messages:{verb}"), &body).await
}

/// Sends a request, which must succeed, and returns its reply.
async fn done(client: &Client, verb: &str, body: Json) -> Json {
    let reply = ask(client, verb, body).await;
    assert_eq!(reply.status, 200, "{verb}: {}", reply.text());
    reply.json()
}

async fn send(client: &Client, bodies: &[&str]) {
    let messages: Vec<_> = bodies.iter().map(|body| json!({ "body": body })).collect();
    let sent = done(client, "send", json!({ "messages": messages })).await;
    let results = sent["results"].as_array().unwrap();
    assert!(results.iter().all(|one| one["duplicate"] == false), "{sent}");
}

/// Receives at most `most` messages. Returns their receipts and bodies.
async fn receive(client: &Client, most: usize) -> (Vec<String>, Vec<String>) {
    let received = done(client, "receive", json!({ "max_messages": most })).await;
    let texts = |name: &str| {
        let messages = received["messages"].as_array().unwrap().iter();
        messages
            .map(|one| one[name].as_str().unwrap().to_owned())
            .collect()
    };
    (texts("receipt"), texts("body"))
}

async fn status(client: &Client) -> Json {
    client.get(JOBS).await.json()
}

#[test]
fn a_queue_is_made_once_and_found_after() {
    with_jobs(async |client| {
        let there = json!({ "dead_letters": { "queue": "dead", "attempts": 1 } });
        let reply = client.put(JOBS, &there).await;
        assert_eq!(reply.status, 200);
        let queue = reply.json();
        assert_eq!(reply.header("etag"), format!("\"{}\"", queue["version"]));
        assert_eq!((&queue["name"], &queue["messages"]), (&json!("jobs"), &json!(0)));
        assert_eq!(queue["options"]["visibility_seconds"], 30);
        let other = client.put(JOBS, &json!({})).await.problem(409, "queue-conflict");
        assert!(other["hint"].is_string());
        let headers = [("content-type", "application/json"), ("if-none-match", "*")];
        let again = client.send(Method::PUT, JOBS, &headers, there.to_string()).await;
        again.problem(412, "queue-changed");
        let listed = client.get("/v1/queues").await.json();
        let names: Vec<_> = listed["queues"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| &one["name"])
            .collect();
        assert_eq!(names, ["dead", "jobs"]);
    });
}

#[test]
fn a_queue_is_changed_as_it_was_seen() {
    with_jobs(async |client| {
        let first = client.get(JOBS).await.header("etag").to_owned();
        let changed = client
            .patch(
                JOBS,
                &[("if-match", &first)],
                &json!({ "visibility_seconds": 60 }),
            )
            .await;
        assert_eq!(changed.status, 200, "{}", changed.text());
        let second = changed.header("etag").to_owned();
        assert_ne!(first, second);
        assert_eq!(changed.json()["options"]["visibility_seconds"], 60);
        assert_eq!(changed.json()["options"]["dead_letters"]["queue"], "dead");
        let late = client
            .patch(JOBS, &[("if-match", &first)], &json!({ "delay_seconds": 1 }))
            .await;
        assert_eq!(late.header("etag"), second);
        late.problem(412, "queue-changed");
        for given in [&format!("{first}, {second}"), "*"] {
            let null = json!({ "dead_letters": null });
            let changed = client.patch(JOBS, &[("if-match", given)], &null).await;
            assert_eq!(changed.status, 200, "{}", changed.text());
            assert_eq!(changed.json()["options"]["dead_letters"], Json::Null);
        }
        let fixed = client
            .patch(JOBS, &[], &json!({ "deduplication": "group" }))
            .await;
        assert_eq!(fixed.problem(400, "invalid-argument")["field"], "deduplication");
        client
            .patch("/v1/queues/none", &[], &json!({}))
            .await
            .problem(404, "not-found");
        client
            .patch("/v1/queues/none", &[("if-match", "*")], &json!({}))
            .await
            .problem(404, "not-found");
    });
}

#[test]
fn a_queue_is_deleted_unless_it_is_needed() {
    with_jobs(async |client| {
        client
            .delete("/v1/queues/dead")
            .await
            .problem(409, "queue-conflict");
        assert_eq!(client.delete(JOBS).await.status, 204);
        client.delete(JOBS).await.problem(404, "not-found");
        assert_eq!(client.delete("/v1/queues/dead").await.status, 204);
        assert_eq!(client.get("/v1/queues").await.json(), json!({ "queues": [] }));
    });
}

#[test]
fn messages_are_received_until_they_are_done_with() {
    with_jobs(async |client| {
        send(&client, &["a", "b", "c"]).await;
        let (receipts, bodies) = receive(&client, 2).await;
        assert_eq!(bodies, ["a", "b"]);
        let now = status(&client).await;
        assert_eq!((&now["messages"], &now["in_flight"]), (&json!(3), &json!(2)));
        let kept = json!({ "receipts": receipts, "visibility_seconds": 600 });
        let both = json!({ "results": [{ "done": true }, { "done": true }] });
        assert_eq!(done(&client, "extend", kept).await, both);
        let acked = done(&client, "ack", json!({ "receipts": receipts })).await;
        assert_eq!(acked, both);
        let (receipts, bodies) = receive(&client, 10).await;
        assert_eq!(bodies, ["c"]);
        let back = json!({ "receipts": receipts, "error": "no disk" });
        assert_eq!(done(&client, "nack", back).await["results"][0]["done"], true);
        let dead = client.get("/v1/queues/dead/messages").await.json();
        assert_eq!(dead["messages"][0]["attributes"]["recto.error"], "no disk");
        assert_eq!(dead["messages"][0]["state"], "ready");
        let totals = status(&client).await["totals"].clone();
        assert_eq!((&totals["sent"], &totals["acked"]), (&json!(3), &json!(2)));
        assert_eq!(
            (&totals["received"], &totals["dead_lettered"]),
            (&json!(3), &json!(1))
        );
        assert_eq!(
            (&totals["expired"], &totals["bodies_lost"]),
            (&json!(0), &json!(0))
        );
        let moved = client.post("/v1/queues/dead/messages:redrive", &json!({})).await;
        assert_eq!(moved.json(), json!({ "moved": 1, "done": true }));
        assert_eq!(receive(&client, 10).await.1, ["c"]);
    });
}

#[test]
fn bytes_attributes_groups_and_ids_come_back() {
    with_jobs(async |client| {
        let made = client
            .put("/v1/queues/steps.fifo", &json!({ "ordered": true }))
            .await;
        assert_eq!(made.status, 201, "{}", made.text());
        let message = json!({
            "body_base64": "/wA=", "attributes": { "kind": "x" }, "group": "g", "deduplication_id": "once",
        });
        let body = json!({ "messages": [message, message] });
        let sent = client
            .post("/v1/queues/steps.fifo/messages:send", &body)
            .await
            .json();
        assert_eq!(
            (&sent["results"][0]["duplicate"], &sent["results"][1]["duplicate"]),
            (&json!(false), &json!(true))
        );
        assert_eq!(sent["results"][0]["id"], sent["results"][1]["id"]);
        let received = client
            .post("/v1/queues/steps.fifo/messages:receive", &json!({}))
            .await
            .json();
        let one = &received["messages"][0];
        assert_eq!((&one["body"], &one["body_base64"]), (&Json::Null, &json!("/wA=")));
        assert_eq!(
            (&one["group"], &one["deduplication_id"]),
            (&json!("g"), &json!("once"))
        );
        assert_eq!(
            (&one["attributes"]["kind"], &one["attempts"]),
            (&json!("x"), &json!(1))
        );
    });
}

#[test]
fn returns_utf8_bodies_as_text_with_deduplication_ids() {
    with_jobs(async |client| {
        let message = json!({ "body_base64": "w6k=", "deduplication_id": "once" });
        done(&client, "send", json!({ "messages": [message] })).await;
        let looked = client.get(&format!("{JOBS}/messages")).await.json();
        let received = done(&client, "receive", json!({})).await;
        for one in [&looked["messages"][0], &received["messages"][0]] {
            assert_eq!((&one["body"], &one["body_base64"]), (&json!("é"), &Json::Null));
            assert_eq!(one["deduplication_id"], "once");
        }
    });
}

#[test]
fn an_ordered_queue_has_any_name_and_one_delay_for_all() {
    with_jobs(async |client| {
        let ordered = |delay: u32| json!({ "ordered": true, "delay_seconds": delay });
        let made = client.put("/v1/queues/steps", &ordered(900)).await;
        assert_eq!(made.status, 201, "{}", made.text());
        for (name, settings, field) in [
            ("steps.fifo", json!({}), "ordered"),
            ("other", ordered(901), "delay_seconds"),
        ] {
            let reply = client.put(&format!("/v1/queues/{name}"), &settings).await;
            assert_eq!(reply.problem(400, "invalid-argument")["field"], field);
        }
        let messages =
            json!([{ "body": "a", "group": "g", "delay_seconds": 0 }, { "body": "b", "group": "g" }]);
        let reply = client
            .post("/v1/queues/steps/messages:send", &json!({ "messages": messages }))
            .await;
        let sent = reply.json();
        assert_eq!(
            sent["results"][0]["problem"]["field"],
            "messages[0].delay_seconds"
        );
        let queue = client.get("/v1/queues/steps").await.json();
        assert_eq!((&queue["messages"], &queue["delayed"]), (&json!(1), &json!(1)));
    });
}

#[test]
fn lists_messages_by_position_and_much_later_ones_last() {
    with_jobs(async |client| {
        send(&client, &["a"]).await;
        for (body, delay) in [("later", 3_600), ("soon", 900), ("b", 0)] {
            let message = json!({ "body": body, "delay_seconds": delay });
            done(&client, "send", json!({ "messages": [message] })).await;
        }
        let looked = client.get(&format!("{JOBS}/messages")).await.json();
        let looked = looked["messages"].as_array().unwrap();
        let texts = |name: &str| {
            looked
                .iter()
                .map(|one| one[name].as_str().unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(texts("body"), ["a", "soon", "b", "later"]);
        assert_eq!(texts("position"), ["0-1-0", "0-1-1", "0-1-2", "0-2-0"]);
        assert_eq!(texts("state"), ["ready", "delayed", "ready", "delayed"]);
    });
}

#[test]
fn reports_invalid_messages_individually() {
    with_jobs(async |client| {
        let messages = json!([
            { "body": "a" }, { "body": "b", "body_base64": "Yg==" }, { "body_base64": "?" }, {},
            { "body": "c", "group": "" }, { "body": "d" }, { "body": "e", "delay_seconds": 2_592_001 },
            { "body": "f", "attributes": { "kind": "x", "": "y" } },
        ]);
        let sent = done(&client, "send", json!({ "messages": messages })).await;
        let results = sent["results"].as_array().unwrap();
        let fields: Vec<_> = results
            .iter()
            .map(|one| one["problem"]["field"].as_str().unwrap_or("sent"))
            .collect();
        let expected = [
            "sent",
            "messages[1].body_base64",
            "messages[2].body_base64",
            "messages[3].body",
            "messages[4].group",
            "sent",
            "messages[6].delay_seconds",
            "messages[7].attributes",
        ];
        assert_eq!(fields, expected, "{sent}");
        let detail = |number: usize| results[number]["problem"]["detail"].as_str().unwrap();
        assert!(detail(6).contains("delay_seconds: 2592001 s"), "{sent}");
        assert!(detail(7).contains("\"\" is a name of 0 bytes"), "{sent}");
        assert_eq!(receive(&client, 10).await.1, ["a", "d"]);
    });
}

#[test]
fn bodies_of_another_shape_are_refused_whole_and_named() {
    with_jobs(async |client| {
        for (verb, body, field) in [
            (
                "send",
                json!({ "messages": [{ "body": "a" }, { "body": 5 }] }),
                "messages[1].body",
            ),
            (
                "send",
                json!({ "messages": [{ "body": "a", "delay": 5 }] }),
                "messages[0].delay",
            ),
            (
                "send",
                json!({ "messages": [{ "body": "a", "delay_seconds": -1 }] }),
                "messages[0].delay_seconds",
            ),
            (
                "send",
                json!({ "messages": [{ "attributes": { "a": 1 } }] }),
                "messages[0].attributes.a",
            ),
            ("send", json!({ "messages": "a" }), "messages"),
            ("receive", json!({ "max": 1 }), "max"),
            ("receive", json!({ "wait_seconds": "20" }), "wait_seconds"),
            ("ack", json!({ "receipts": [1] }), "receipts[0]"),
            (
                "nack",
                json!({ "receipts": [], "delay_seconds": 1.5 }),
                "delay_seconds",
            ),
            ("redrive", json!({ "to": 1 }), "to"),
        ] {
            let problem = ask(&client, verb, body.clone())
                .await
                .problem(400, "invalid-body");
            assert_eq!(problem["field"], field, "{verb} {body}: {problem}");
        }
        for (verb, body, field) in [
            ("receive", json!({ "max_messages": 0 }), "max_messages"),
            ("receive", json!({ "max_messages": 1001 }), "max_messages"),
            ("receive", json!({ "wait_seconds": 21 }), "wait_seconds"),
            (
                "receive",
                json!({ "visibility_seconds": 43_201 }),
                "visibility_seconds",
            ),
            (
                "nack",
                json!({ "receipts": [], "delay_seconds": 2_592_001 }),
                "delay_seconds",
            ),
            (
                "extend",
                json!({ "receipts": [], "visibility_seconds": 43_201 }),
                "visibility_seconds",
            ),
            (
                "extend",
                json!({ "receipts": [], "visibility_seconds": 0 }),
                "visibility_seconds",
            ),
        ] {
            let problem = ask(&client, verb, body).await.problem(400, "invalid-argument");
            assert_eq!(problem["field"], field, "{problem}");
            let detail = problem["detail"].as_str().unwrap();
            assert!(detail.starts_with(&format!("`{field}` is ")), "{problem}");
        }
        for (verb, body) in [
            ("send", json!([])),
            ("receive", json!([])),
            ("receive", json!([1, null, 0])),
            ("ack", json!([["x"]])),
            ("send", json!({ "messages": [["a"]] })),
            ("send", json!({})),
            ("extend", json!({ "receipts": [] })),
        ] {
            ask(&client, verb, body).await.problem(400, "invalid-body");
        }
        for settings in [
            json!({ "visibility": 5 }),
            json!({ "ordered": 1 }),
            json!({ "dead_letters": "dead" }),
            json!([]),
        ] {
            client
                .put("/v1/queues/new", &settings)
                .await
                .problem(400, "invalid-body");
        }
        assert_eq!(status(&client).await["messages"], 0);
    });
}

#[test]
fn requests_without_a_body_are_refused() {
    with_jobs(async |client| {
        for verb in ["send", "receive", "ack", "nack", "extend", "redrive"] {
            let target = format!("{JOBS}/messages:{verb}");
            let untyped = client.send(Method::POST, &target, &[], "").await;
            untyped.problem(415, "unsupported-media-type");
            let empty = client
                .send(Method::POST, &target, &[("content-type", "application/json")], "")
                .await;
            empty.problem(400, "invalid-body");
        }
        client
            .send(Method::PUT, JOBS, &[], "")
            .await
            .problem(415, "unsupported-media-type");
        let purged = client
            .send(Method::POST, &format!("{JOBS}/messages:purge"), &[], "")
            .await;
        assert_eq!(purged.status, 204);
    });
}

#[test]
fn there_is_a_limit_on_what_is_taken_at_once() {
    with_jobs(async |client| {
        let many = json!({ "messages": vec![json!({ "body": "x" }); 1_001] });
        assert_eq!(
            ask(&client, "send", many).await.problem(413, "limit-exceeded")["field"],
            "messages"
        );
        let many = json!({ "receipts": vec!["x"; 1_001] });
        assert_eq!(
            ask(&client, "ack", many).await.problem(413, "limit-exceeded")["field"],
            "receipts"
        );
        let large = json!({ "messages": [{ "body": "x".repeat(1_200_000) }] });
        let refused = done(&client, "send", large).await;
        assert_eq!(
            refused["results"][0]["problem"]["field"], "messages[0].body",
            "{refused}"
        );
        for (most, kind) in [
            ("0", "invalid-argument"),
            ("1001", "invalid-argument"),
            ("-1", "invalid-argument"),
            ("x", "invalid-parameter"),
            ("", "invalid-parameter"),
        ] {
            let target = format!("{JOBS}/messages?max_messages={most}");
            client.get(&target).await.problem(400, kind);
        }
        let all = vec![json!({ "body": "x" }); 1_000];
        let sent = done(&client, "send", json!({ "messages": all })).await;
        assert_eq!(sent["results"].as_array().unwrap().len(), 1_000);
    });
}

#[test]
fn malformed_receipts_fail_alone_and_late_ones_are_told() {
    with_jobs(async |client| {
        send(&client, &["a"]).await;
        let (receipts, _) = receive(&client, 1).await;
        let good = &receipts[0];
        let other = if good.ends_with('x') { 'y' } else { 'x' };
        let garbled = format!("{}{other}", &good[..good.len() - 1]);
        for wrong in ["", "nonsense", "é", &garbled, &"A".repeat(10_000)] {
            let shown = json!({ "receipts": [good, wrong], "visibility_seconds": 300 });
            let results = &done(&client, "extend", shown).await["results"];
            assert_eq!(results[0], json!({ "done": true }));
            let (failed, problem) = (&results[1]["done"], &results[1]["problem"]);
            assert_eq!(
                (failed, &problem["status"]),
                (&json!(false), &json!(400)),
                "{results}"
            );
            assert_eq!(problem["field"], "receipts[1]", "{problem}");
        }
        let foreign = client
            .post("/v1/queues/dead/messages:ack", &json!({ "receipts": receipts }))
            .await;
        foreign.problem(400, "invalid-argument");
        assert_eq!(status(&client).await["messages"], 1, "nothing of it was done");
        assert_eq!(
            done(&client, "ack", json!({ "receipts": receipts })).await["results"][0]["done"],
            true
        );
        let plain = "/v1/queues/plain/messages";
        client.put("/v1/queues/plain", &json!({})).await;
        let body = json!({ "messages": [{ "body": "a" }] });
        client.post(&format!("{plain}:send"), &body).await;
        let first = client.post(&format!("{plain}:receive"), &json!({})).await.json();
        let shown = json!({ "receipts": [first["messages"][0]["receipt"]] });
        client.post(&format!("{plain}:nack"), &shown).await;
        let second = client.post(&format!("{plain}:receive"), &json!({})).await.json();
        assert_eq!(second["messages"][0]["attempts"], 2);
        let late = client.post(&format!("{plain}:ack"), &shown).await.json();
        assert_eq!(late["results"][0]["done"], false);
    });
}

#[test]
fn limits_messages_in_flight() {
    on_store(async |recto| {
        let client = Client::over(recto.clone(), Kind::Embedded, Access::all()).await;
        let made = client.put(JOBS, &json!({ "max_in_flight": 1 })).await;
        assert_eq!(made.status, 201);
        assert_eq!(made.json()["options"]["max_in_flight"], 1);
        send(&client, &["a", "b"]).await;
        let (receipts, _) = receive(&client, 2).await;
        assert_eq!(receipts.len(), 1);
        let refused = ask(&client, "receive", json!({ "max_messages": 1 })).await;
        assert!(refused.problem(429, "too-many-in-flight")["hint"].is_string());
        done(&client, "ack", json!({ "receipts": receipts })).await;
        assert_eq!(receive(&client, 1).await.1, ["b"]);
    });
}

#[test]
fn messages_are_looked_at_taken_out_and_purged() {
    with_jobs(async |client| {
        send(&client, &["a", "b", "c"]).await;
        let looked = client
            .get(&format!("{JOBS}/messages?max_messages=2"))
            .await
            .json();
        let bodies: Vec<_> = looked["messages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| &one["body"])
            .collect();
        assert_eq!(bodies, ["a", "b"]);
        let position = looked["messages"][0]["position"].as_str().unwrap();
        let target = format!("{JOBS}/messages/{position}");
        assert_eq!(client.delete(&target).await.json(), json!({ "removed": true }));
        assert_eq!(client.delete(&target).await.json(), json!({ "removed": false }));
        client
            .delete(&format!("{JOBS}/messages/nowhere"))
            .await
            .problem(400, "invalid-argument");
        assert_eq!(receive(&client, 1).await.1, ["b"]);
        assert_eq!(
            client
                .post(&format!("{JOBS}/messages:purge"), &json!({}))
                .await
                .status,
            204
        );
        assert_eq!(status(&client).await["messages"], 0);
    });
}

#[test]
fn a_queue_that_is_not_there_is_not_found() {
    with_jobs(async |client| {
        for name in ["none", "no%20name", "%ff", "x.y"] {
            let queue = format!("/v1/queues/{name}");
            client.get(&queue).await.problem(404, "not-found");
            client
                .get(&format!("{queue}/messages"))
                .await
                .problem(404, "not-found");
            for (verb, body) in [
                ("send", json!({ "messages": [{ "body": "a" }] })),
                ("receive", json!({ "wait_seconds": 20 })),
                ("ack", json!({ "receipts": [] })),
                ("purge", json!({})),
                ("redrive", json!({ "to": "jobs" })),
            ] {
                let reply = client.post(&format!("{queue}/messages:{verb}"), &body).await;
                reply.problem(404, "not-found");
            }
        }
        let problem = client
            .put("/v1/queues/no%20name", &json!({}))
            .await
            .problem(400, "invalid-argument");
        assert_eq!(problem["field"], "name");
        let nowhere = json!({ "dead_letters": { "queue": "nowhere", "attempts": 1 } });
        let problem = client
            .put("/v1/queues/new", &nowhere)
            .await
            .problem(400, "invalid-argument");
        assert!(
            problem["field"].as_str().unwrap().starts_with("dead_letters"),
            "{problem}"
        );
    });
}

#[test]
fn a_token_does_what_its_grant_says_and_nothing_more() {
    on_store(async |recto| {
        let all = jobs_of(&recto).await;
        send(&all, &["a"]).await;
        let sender = granted(&recto, &[("queue.jobs", &[Right::Send])]).await;
        send(&sender, &["b"]).await;
        sender.get(JOBS).await.problem(403, "forbidden");
        ask(&sender, "receive", json!({})).await.problem(403, "forbidden");
        sender.delete(JOBS).await.problem(403, "forbidden");
        sender.get("/v1/queues").await.problem(403, "forbidden");
        let worker = granted(&recto, &[("queue.*", &[Right::Receive])]).await;
        assert_eq!(receive(&worker, 10).await.1, ["a", "b"]);
        ask(&worker, "send", json!({ "messages": [] }))
            .await
            .problem(403, "forbidden");
        let reader = granted(&recto, &[("queue.jobs", &[Right::Read])]).await;
        let listed = reader.get("/v1/queues").await.json();
        assert_eq!(listed["queues"].as_array().unwrap().len(), 1);
        assert_eq!(reader.get(&format!("{JOBS}/messages")).await.status, 200);
        ask(&reader, "purge", json!({})).await.problem(403, "forbidden");
        let document = reader.get("/openapi.json").await.json();
        assert!(document["paths"]["/v1/queues/{queue}"]["get"].is_object());
        assert!(document["paths"]["/v1/queues/{queue}"]["put"].is_null());
        assert!(document["paths"]["/v1/queues/{queue}/messages:send"].is_null());
    });
}

#[test]
fn without_a_grant_a_queue_is_as_if_it_were_not_there() {
    on_store(async |recto| {
        let all = jobs_of(&recto).await;
        send(&all, &["a"]).await;
        let everything = [Right::Read, Right::Export, Right::Write, Right::Delete];
        for grants in [
            &[("*", &everything[..])][..],
            &[("queue.other", &[Right::Read, Right::Manage])],
        ] {
            let stranger = granted(&recto, grants).await;
            for target in [
                "/v1/queues/jobs",
                "/v1/queues/jobs/messages",
                "/v1/queues/jobs/messages/1-0",
            ] {
                let method = if target.ends_with("1-0") {
                    Method::DELETE
                } else {
                    Method::GET
                };
                let there = stranger.send(method.clone(), target, &[], "").await;
                let gone = stranger
                    .send(method, &target.replace("jobs", "none"), &[], "")
                    .await;
                let (there, gone) = (there.problem(404, "not-found"), gone.problem(404, "not-found"));
                assert_eq!(there.to_string().replace("jobs", "none"), gone.to_string());
            }
            let send = json!({ "messages": [{ "body": "x" }] });
            ask(&stranger, "send", send).await.problem(404, "not-found");
            stranger.put(JOBS, &json!({})).await.problem(404, "not-found");
            let listed = stranger.get("/v1/queues").await;
            if grants[0].0 == "*" {
                listed.problem(403, "forbidden");
            } else {
                assert_eq!(listed.json(), json!({ "queues": [] }));
            }
        }
        // The server must answer equally for a queue that the token may not see and for a queue
        // that does not exist.
        let gone = all.get("/v1/queues/none").await.problem(404, "not-found");
        let stranger = granted(&recto, &[("*", &everything)]).await;
        assert_eq!(
            stranger.get("/v1/queues/none").await.problem(404, "not-found"),
            gone
        );
        let document = stranger.get("/openapi.json").await.json();
        assert!(!document.to_string().contains("/v1/queues"));
        assert_eq!(status(&all).await["messages"], 1);
    });
}

#[test]
fn requires_the_send_right_to_redrive_messages() {
    on_store(async |recto| {
        let all = jobs_of(&recto).await;
        send(&all, &["a"]).await;
        let (receipts, _) = receive(&all, 1).await;
        done(&all, "nack", json!({ "receipts": receipts })).await;
        let dead = "/v1/queues/dead/messages:redrive";
        let keeper = granted(&recto, &[("queue.dead", &[Right::Manage])]).await;
        let problem = keeper
            .post(dead, &json!({ "to": "jobs" }))
            .await
            .problem(404, "not-found");
        assert_eq!(problem["field"], "to");
        let problem = keeper.post(dead, &json!({})).await.problem(400, "invalid-body");
        assert!(!problem.to_string().contains("jobs"), "{problem}");
        let reads = granted(
            &recto,
            &[("queue.dead", &[Right::Manage]), ("queue.jobs", &[Right::Read])],
        )
        .await;
        reads.post(dead, &json!({})).await.problem(403, "forbidden");
        let jobs = json!({ "dead_letters": { "queue": "jobs", "attempts": 3 } });
        let problem = keeper
            .patch("/v1/queues/dead", &[], &jobs)
            .await
            .problem(404, "not-found");
        assert_eq!(problem["field"], "dead_letters.queue");
        let both = granted(
            &recto,
            &[("queue.dead", &[Right::Manage]), ("queue.jobs", &[Right::Send])],
        )
        .await;
        assert_eq!(
            both.post(dead, &json!({})).await.json(),
            json!({ "moved": 1, "done": true })
        );
    });
}

#[test]
fn a_work_unit_is_a_queue_that_ends() {
    with_jobs(async |client| {
        let units = format!("{JOBS}/units");
        let night = format!("{units}/night");
        client.get(&night).await.problem(404, "not-found");
        for _ in 0..2 {
            let begun = client.post(&format!("{night}:begin"), &json!({})).await;
            assert_eq!((begun.status, &begun.json()["name"]), (200, &json!("jobs/night")));
        }
        client
            .post(&format!("{units}/no%20name:begin"), &json!({}))
            .await
            .problem(400, "invalid-argument");
        client
            .post(&format!("{night}:stop"), &json!({}))
            .await
            .problem(404, "not-found");
        client
            .post(&night, &json!({}))
            .await
            .problem(405, "method-not-allowed");

        let messages = format!("{night}/messages");
        let verb = |verb: &str| format!("{messages}:{verb}");
        let sent = json!({ "messages": [{ "body": "a" }, { "body": "b" }, { "body": "c" }] });
        assert_eq!(client.post(&verb("send"), &sent).await.status, 200);
        assert_eq!(status(&client).await["messages"], 0);
        let received = client.post(&verb("receive"), &json!({})).await.json();
        let receipts = json!({ "receipts": [received["messages"][0]["receipt"]] });
        let acked = client.post(&verb("ack"), &receipts).await.json();
        assert_eq!(acked["results"][0]["done"], true);
        let position = client.get(&messages).await.json()["messages"][0]["position"].clone();
        let path = format!("{messages}/{}", position.as_str().unwrap());
        let removed = client.send(Method::DELETE, &path, &[], "").await;
        assert_eq!(removed.json()["removed"], true);
        let to = json!({ "to": "jobs" });
        assert_eq!(client.post(&verb("redrive"), &to).await.json()["moved"], 1);
        assert_eq!(status(&client).await["messages"], 1);
        let back = json!({ "to": "jobs/night" });
        assert_eq!(done(&client, "redrive", back).await["moved"], 1);
        let listed = client.get(&units).await.json();
        assert_eq!(
            (&listed["units"][0]["name"], &listed["units"][0]["messages"]),
            (&json!("jobs/night"), &json!(1))
        );
        // The path of a queue must not lead to a work unit, even with an encoded `/`.
        client
            .get("/v1/queues/jobs%2Fnight")
            .await
            .problem(404, "not-found");

        assert_eq!(client.post(&format!("{night}:end"), &json!({})).await.status, 204);
        client.get(&night).await.problem(404, "not-found");
        client
            .post(&format!("{night}:end"), &json!({}))
            .await
            .problem(404, "not-found");
    });
}

#[test]
fn the_ring_is_looked_at_and_changed() {
    with_jobs(async |client| {
        let path = "/v1/queue-tables";
        let ring = client.get(path).await.json();
        assert_eq!(
            (&ring["needed"], &ring["tables"], &ring["obstacle"]),
            (&json!(false), &json!([]), &Json::Null)
        );
        assert_eq!(ring["options"]["rotation_seconds"], 21_600);
        let changed = client
            .patch(path, &[], &json!({ "units": 1, "tables": null }))
            .await;
        let all = json!({ "rotation_seconds": 21_600, "grace_seconds": 300, "tables": 4, "units": 1 });
        assert_eq!((changed.status, &changed.json()["options"]), (200, &all));
        for (wrong, field) in [
            (json!({ "rotation_seconds": 9 }), "rotation_seconds"),
            (json!({ "units": 300 }), "units"),
            (json!({ "units": -1 }), "units"),
        ] {
            let problem = client.patch(path, &[], &wrong).await;
            assert_eq!(problem.status, 400);
            assert_eq!(problem.json()["field"], field);
        }
        let begin = |unit: &str| format!("{JOBS}/units/{unit}:begin");
        assert_eq!(client.post(&begin("one"), &json!({})).await.status, 200);
        client.post(&begin("two"), &json!({})).await.problem(409, "full");
    });
}

#[test]
fn a_manager_who_may_not_read_is_told_name_and_version() {
    on_store(async |recto| {
        let all = jobs_of(&recto).await;
        send(&all, &["a"]).await;
        let manager = granted(&recto, &[("queue.jobs", &[Right::Manage])]).await;
        manager.get(JOBS).await.problem(403, "forbidden");
        let patched = manager.patch(JOBS, &[], &json!({})).await;
        let put = manager.put(JOBS, &json!({})).await;
        let begun = manager
            .post(&format!("{JOBS}/units/night:begin"), &json!({}))
            .await;
        for reply in [&patched, &begun] {
            assert_eq!(reply.status, 200, "{}", reply.text());
            let told = reply.json();
            let names: Vec<_> = told.as_object().unwrap().keys().cloned().collect();
            assert_eq!(names, ["name", "version"], "{told}");
            assert!(!reply.header("etag").is_empty());
        }
        assert!(!put.text().contains("dead\""), "{}", put.text());
        assert!(!put.text().contains("messages"), "{}", put.text());
        let keeper = granted(&recto, &[("queue.dead", &[Right::Manage])]).await;
        let needed = keeper
            .delete("/v1/queues/dead")
            .await
            .problem(409, "queue-conflict");
        assert_eq!(
            needed["detail"],
            "another queue uses this queue as its dead-letter queue"
        );
        let needed = all.delete("/v1/queues/dead").await.problem(409, "queue-conflict");
        assert_eq!(
            needed["detail"],
            "queue jobs uses this queue as its dead-letter queue"
        );
        let both = granted(&recto, &[("queue.jobs", &[Right::Manage, Right::Read])]).await;
        let told = both.patch(JOBS, &[], &json!({})).await.json();
        assert_eq!(told["messages"], 1, "{told}");
    });
}

#[test]
fn whole_numbers_may_have_a_point() {
    with_jobs(async |client| {
        let changed = client
            .patch(JOBS, &[], &json!({ "visibility_seconds": 40.0 }))
            .await;
        assert_eq!(
            changed.json()["options"]["visibility_seconds"],
            40,
            "{}",
            changed.text()
        );
        let messages = json!({ "messages": [{ "body": "a", "delay_seconds": 0.0 }] });
        done(&client, "send", messages).await;
        let received = done(
            &client,
            "receive",
            json!({ "max_messages": 1.0, "wait_seconds": 0.0 }),
        )
        .await;
        let receipt = &received["messages"][0]["receipt"];
        let body = json!({ "receipts": [receipt], "visibility_seconds": 30.0 });
        assert_eq!(done(&client, "extend", body).await["results"][0]["done"], true);
        for (verb, body, field, detail) in [
            (
                "nack",
                json!({ "receipts": [], "delay_seconds": 2.5 }),
                "delay_seconds",
                "delay_seconds is a whole number from 0 to 4294967295, not 2.5",
            ),
            (
                "send",
                json!({ "messages": [{ "body": "a", "delay_seconds": -1.0 }] }),
                "messages[0].delay_seconds",
                "messages[0].delay_seconds is a whole number from 0 to 4294967295, not -1",
            ),
        ] {
            let problem = ask(&client, verb, body).await.problem(400, "invalid-body");
            assert_eq!(
                (&problem["field"], &problem["detail"]),
                (&json!(field), &json!(detail))
            );
        }
    });
}

#[test]
fn applies_queue_grants_to_work_units() {
    on_store(async |recto| {
        let all = jobs_of(&recto).await;
        let unit = format!("{JOBS}/units/night");
        assert_eq!(all.post(&format!("{unit}:begin"), &json!({})).await.status, 200);
        let sent = json!({ "messages": [{ "body": "a" }] });
        let send = |to: &str| format!("{to}/messages:send");
        let sender = granted(&recto, &[("queue.jobs", &[Right::Send])]).await;
        assert_eq!(sender.post(&send(&unit), &sent).await.status, 200);
        sender.get(&unit).await.problem(403, "forbidden");
        for verb in ["begin", "end"] {
            let refused = sender.post(&format!("{unit}:{verb}"), &json!({})).await;
            let refused = refused.problem(403, "forbidden");
            assert!(
                refused["hint"].to_string().contains("queue.jobs:manage"),
                "{refused}"
            );
        }
        let stranger = granted(&recto, &[("queue.dead", &[Right::Manage, Right::Read])]).await;
        stranger.get(&unit).await.problem(404, "not-found");
        stranger.post(&send(&unit), &sent).await.problem(404, "not-found");
        stranger
            .post(&format!("{unit}:end"), &json!({}))
            .await
            .problem(404, "not-found");
        // All queues share the tables of message bodies, so only a token for every queue may see
        // them.
        stranger.get("/v1/queue-tables").await.problem(403, "forbidden");
        let reader = granted(&recto, &[("queue.*", &[Right::Read])]).await;
        assert_eq!(reader.get("/v1/queue-tables").await.status, 200);
        assert_eq!(reader.get(&unit).await.json()["messages"], 1);
        let change = reader
            .patch("/v1/queue-tables", &[], &json!({ "units": 1 }))
            .await;
        change.problem(403, "forbidden");
        let document = reader.get("/openapi.json").await.json();
        assert!(document["paths"]["/v1/queue-tables"]["get"].is_object());
        assert!(document["paths"]["/v1/queue-tables"]["patch"].is_null());
        assert!(document["paths"]["/v1/queues/{queue}/units/{unit}:begin"].is_null());
    });
}
