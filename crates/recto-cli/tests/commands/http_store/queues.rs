//! Tests of queues through a server and on a folder: equal requests have equal responses.

use std::sync::Arc;

use recto::session::{
    DeadLetterSettings, OutgoingMessage, QueueSettings, QueueStatus, QueueTableSettings, Queues,
    REDRIVE_TIME, ReceiveRequest, Settling,
};
use recto::{Error, OpenOptions, Session, StoreAddress};
use recto_remote::HttpSession;
use serde_json::{Value as Json, json};

use crate::support::{Server, recto};

/// Responses of one session as text, without the parts that differ between stores, to compare two
/// sessions.
#[derive(Default)]
struct Transcript(Vec<String>);

impl Transcript {
    fn tell(&mut self, what: &str, of: impl std::fmt::Debug) {
        self.0.push(format!("{what}: {of:?}"));
    }

    fn error(&mut self, what: &str, error: &Error) {
        let place = (error.change(), error.field());
        self.tell(what, (error.kind(), place, error.message(), error.hint()));
    }

    fn result<T: std::fmt::Debug>(&mut self, what: &str, result: recto::Result<T>) {
        match result {
            Ok(value) => self.tell(what, value),
            Err(error) => self.error(what, &error),
        }
    }

    fn status(&mut self, what: &str, status: recto::Result<QueueStatus>) {
        self.result(
            what,
            status.map(|mut queue| {
                queue.age_seconds = queue.age_seconds.map(|_| 0.0);
                queue
            }),
        );
    }
}

fn messages(bodies: &[&str]) -> Vec<OutgoingMessage> {
    let of = |body: &&str| OutgoingMessage::of(body.as_bytes().to_vec());
    bodies.iter().map(of).collect()
}

/// Receives at most `most` messages, and adds the response to the transcript. Returns the receipts.
async fn receive(queues: &dyn Queues, told: &mut Transcript, queue: &str, most: u32) -> Vec<String> {
    let request = ReceiveRequest {
        max_messages: Some(most),
        wait_seconds: Some(1),
        ..ReceiveRequest::default()
    };
    let mut received = queues.receive(queue, &request).await.unwrap().messages;
    let receipts = received.iter().map(|one| one.receipt.clone()).collect();
    for message in &mut received {
        assert_eq!(message.id.len(), 32);
        (message.id, message.receipt) = (String::new(), String::new());
        (message.sent_at, message.first_received_at) = (String::new(), String::new());
        message
            .attributes
            .retain(|name, _| !name.starts_with("recto.sent"));
    }
    told.tell("received", received);
    receipts
}

async fn make(queues: &dyn Queues, told: &mut Transcript) {
    told.result("none", queues.queue("jobs").await.map(drop));
    told.result(
        "no name",
        queues.create_queue("no name", &QueueSettings::default()).await,
    );
    let mut settings = QueueSettings {
        dead_letters: Some(Some(DeadLetterSettings {
            queue: "dead".into(),
            attempts: 1,
        })),
        ..QueueSettings::default()
    };
    told.result("no dead letters", queues.create_queue("jobs", &settings).await);
    told.result(
        "made",
        queues.create_queue("dead", &QueueSettings::default()).await,
    );
    told.result("made", queues.create_queue("jobs", &settings).await);
    told.result("there", queues.create_queue("jobs", &settings).await);
    settings.delay_seconds = Some(5);
    told.result("other", queues.create_queue("jobs", &settings).await);
    let version = queues.queue("jobs").await.unwrap().version;
    let longer = QueueSettings {
        visibility_seconds: Some(60),
        ..QueueSettings::default()
    };
    told.result(
        "changed",
        queues.change_queue("jobs", &longer, Some(version)).await,
    );
    told.result("late", queues.change_queue("jobs", &longer, Some(version)).await);
    let wrong = QueueSettings {
        visibility_seconds: Some(0),
        ..QueueSettings::default()
    };
    told.result("wrong", queues.change_queue("jobs", &wrong, None).await);
    told.result("needed", queues.delete_queue("dead").await);
}

async fn send(queues: &dyn Queues, told: &mut Transcript) {
    let mut all = messages(&["a", "b", "c", "d"]);
    all[1].group = Some(String::new());
    all[2].deduplication_id = Some("once".into());
    all[2].attributes.insert("kind".into(), "x".into());
    all.push(OutgoingMessage::of(vec![0xff, 0]));
    all.push(OutgoingMessage::default());
    for one in queues.send("jobs", all).await.unwrap() {
        told.result("sent", one.map(|sent| sent.duplicate));
    }
    let mut again = messages(&["c"]);
    again[0].deduplication_id = Some("once".into());
    let again = queues.send("jobs", again).await.unwrap();
    told.tell("again", again[0].as_ref().unwrap().duplicate);
    told.result(
        "nowhere",
        queues.send("nowhere", messages(&["a"])).await.map(drop),
    );
    told.tell("nothing", queues.send("jobs", Vec::new()).await.unwrap().len());
    told.status("full", queues.queue("jobs").await);
}

async fn settle(queues: &dyn Queues, told: &mut Transcript) {
    let receipts = receive(queues, told, "jobs", 2).await;
    let keep = Settling::Extend {
        visibility_seconds: 90,
    };
    told.result("kept", queues.settle("jobs", &receipts, &keep).await);
    let shown = [receipts[0].clone(), "nonsense".into()];
    told.result("garbled", queues.settle("jobs", &shown, &Settling::Ack).await);
    told.result("acked", queues.settle("jobs", &receipts, &Settling::Ack).await);
    told.result("none", queues.settle("jobs", &[], &Settling::Ack).await);
    let receipts = receive(queues, told, "jobs", 1).await;
    let back = Settling::Nack {
        delay_seconds: 0,
        error: "no disk".into(),
    };
    told.result("back", queues.settle("jobs", &receipts, &back).await);
    for (most, wait) in [(0, 0), (1_001, 0), (1, 21)] {
        let request = ReceiveRequest {
            max_messages: Some(most),
            wait_seconds: Some(wait),
            ..ReceiveRequest::default()
        };
        told.result("wrong", queues.receive("jobs", &request).await);
    }
    let mut dead = queues.peek("dead", 10).await.unwrap();
    for message in &mut dead {
        (message.id, message.sent_at) = (String::new(), String::new());
    }
    told.tell("dead", dead);
    told.result("too many", queues.peek("dead", 1_001).await);
    told.result("moved", queues.redrive("dead", None, Some(5), REDRIVE_TIME).await);
    told.result(
        "nowhere",
        queues.redrive("dead", Some("nowhere"), None, REDRIVE_TIME).await,
    );
    told.result(
        "itself",
        queues.redrive("dead", Some("dead"), None, REDRIVE_TIME).await,
    );
    told.result(
        "no source",
        queues.redrive("jobs", None, None, REDRIVE_TIME).await,
    );
}

async fn unite(queues: &dyn Queues, told: &mut Transcript) {
    told.result("no name", queues.begin_unit("jobs", "no name").await.map(drop));
    told.result("nowhere", queues.begin_unit("nowhere", "night").await.map(drop));
    told.status("begun", queues.begin_unit("jobs", "night").await);
    for one in queues.send("jobs/night", messages(&["n", "o"])).await.unwrap() {
        told.result("sent", one.map(|sent| sent.duplicate));
    }
    let receipts = receive(queues, told, "jobs/night", 1).await;
    told.result(
        "acked",
        queues.settle("jobs/night", &receipts, &Settling::Ack).await,
    );
    told.status("unit", queues.queue("jobs/night").await);
    told.tell("units", queues.units("jobs").await.unwrap().len());
    let looked = queues.peek("jobs/night", 10).await.unwrap();
    told.result(
        "removed",
        queues.remove_message("jobs/night", &looked[0].position).await,
    );
    told.result("ended", queues.end_unit("jobs", "night").await);
    told.result("ended", queues.end_unit("jobs", "night").await);
    told.result("tables", queues.tables().await);
    let fewer = |units| QueueTableSettings {
        units: Some(units),
        ..QueueTableSettings::default()
    };
    told.result("changed", queues.change_tables(&fewer(2)).await);
    told.result("too many", queues.change_tables(&fewer(47)).await);
}

async fn clear(queues: &dyn Queues, told: &mut Transcript) {
    let looked = queues.peek("jobs", 10).await.unwrap();
    let position = &looked[0].position;
    told.tell("position", position);
    told.result("removed", queues.remove_message("jobs", position).await);
    told.result("removed", queues.remove_message("jobs", position).await);
    told.result("no position", queues.remove_message("jobs", "a/b %é").await);
    told.status("before", queues.queue("jobs").await);
    told.result("purged", queues.purge("jobs").await);
    told.status("after", queues.queue("jobs").await);
    assert!(receive(queues, told, "jobs", 1).await.is_empty());
    told.result("deleted", queues.delete_queue("jobs").await);
    told.result("deleted", queues.delete_queue("jobs").await);
    told.result("all", queues.queues().await);
}

async fn told_of(session: &dyn Session) -> Vec<String> {
    let queues = session.queues().unwrap();
    let mut told = Transcript::default();
    make(queues, &mut told).await;
    send(queues, &mut told).await;
    settle(queues, &mut told).await;
    unite(queues, &mut told).await;
    clear(queues, &mut told).await;
    told.0
}

async fn local(folder: &std::path::Path) -> Arc<dyn Session> {
    let address = StoreAddress::Embedded(folder.to_owned());
    recto::open(&address, OpenOptions::new().create()).await.unwrap()
}

fn http(server: &Server) -> HttpSession {
    match server.url.parse().unwrap() {
        StoreAddress::Http(address) => HttpSession::new(&address).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn run<F: Future>(test: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.unwrap().block_on(test)
}

/// Creates a folder with a store, and starts a server for the store.
fn served() -> (tempfile::TempDir, Server) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("recto.toml"), super::SCHEMA).unwrap();
    recto(folder.path(), &["apply", "--yes", "--store", "served"]).done();
    let server = Server::start(folder.path(), &["--store", "served"]);
    (folder, server)
}

#[test]
fn the_same_is_done_and_told() {
    let (folder, server) = served();
    run(async {
        let of_server = told_of(&http(&server)).await;
        let of_folder = told_of(&*local(&folder.path().join("local")).await).await;
        for (server, folder) in of_server.iter().zip(&of_folder) {
            assert_eq!(server, folder);
        }
        assert_eq!(of_server.len(), of_folder.len());
    });
}

#[test]
fn many_messages_go_with_several_requests_in_their_order() {
    let (_folder, server) = served();
    run(async {
        let session: &dyn Session = &http(&server);
        let queues = session.queues().unwrap();
        queues
            .create_queue("jobs", &QueueSettings::default())
            .await
            .unwrap();
        let mut many: Vec<_> = (0..2_500)
            .map(|number| OutgoingMessage::of(format!("{number}").into_bytes()))
            .collect();
        many[1_700].group = Some(String::new());
        let sent = queues.send("jobs", many).await.unwrap();
        assert_eq!(sent.len(), 2_500);
        let refused: Vec<_> = sent
            .iter()
            .filter_map(|one| one.as_ref().err()?.change())
            .collect();
        assert_eq!(refused, [1_700]);
        let request = ReceiveRequest {
            max_messages: Some(1_000),
            ..ReceiveRequest::default()
        };
        let mut bodies = Vec::new();
        while bodies.len() < 2_499 {
            let mut receipts = Vec::new();
            for message in queues.receive("jobs", &request).await.unwrap().messages {
                bodies.push(message.body.unwrap().parse::<u32>().unwrap());
                receipts.push(message.receipt);
            }
            let acked = queues.settle("jobs", &receipts, &Settling::Ack).await.unwrap();
            assert!(acked.len() == receipts.len() && acked.into_iter().all(|acked| acked));
        }
        let expected: Vec<u32> = (0..2_500).filter(|number| *number != 1_700).collect();
        assert!(
            bodies == expected,
            "in their order, but for the one that was refused"
        );
        let left: Json = json!(queues.queue("jobs").await.unwrap());
        assert_eq!(
            (&left["messages"], &left["totals"]["acked"]),
            (&json!(0), &json!(2_499))
        );
    });
}
