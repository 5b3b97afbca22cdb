//! Tests of the example clients of queues, with a running server. The command line checks the effects.

use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use super::{Client, python, typescript};
use crate::support::guide::is_shown;
use crate::support::{Server, recto};

/// Maximum wait for an event that must happen.
const PATIENCE: Duration = Duration::from_secs(60);
/// Maximum time until a worker ends after a signal to stop. The worker's wait for messages is
/// longer, so the signal must interrupt the wait.
const STOPPING: Duration = Duration::from_secs(10);

/// Running server, and the example client of its queues.
struct Mails {
    client: &'static Client,
    folder: tempfile::TempDir,
    server: Server,
}

impl Mails {
    fn start(client: &'static Client) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // `queue create` creates the store that the server then opens.
        recto(folder.path(), &["queue", "create", "other"]).done();
        let server = Server::start(folder.path(), &[]);
        Self {
            client,
            folder,
            server,
        }
    }

    /// Checks that the client prints the text that the guide shows.
    fn says(&self, command: &str, shown: &str) {
        let said = self.client.run("queues", &self.server.url, command);
        assert!(
            is_shown(shown, &said),
            "{command} is to say\n{shown}and says\n{said}"
        );
    }

    /// Runs `recto queue` through the server, and returns its JSON output.
    fn ask(&self, line: &[&str]) -> Json {
        let line = [&["queue", "--store", &self.server.url], line, &["--json"]].concat();
        serde_json::from_str(&recto(self.folder.path(), &line).done()).unwrap()
    }

    /// Returns the messages of a queue with their current states.
    fn messages(&self, queue: &str) -> Vec<Json> {
        self.ask(&["peek", queue])["messages"].as_array().unwrap().clone()
    }

    /// Returns whether a queue has the given numbers of messages and of messages in flight.
    fn has(&self, queue: &str, messages: u64, in_flight: u64) -> bool {
        let status = self.ask(&["describe", queue]);
        (&status["messages"], &status["in_flight"]) == (&messages.into(), &in_flight.into())
    }

    fn waits_until_it_has(&self, queue: &str, messages: u64, in_flight: u64) {
        let begun = Instant::now();
        while !self.has(queue, messages, in_flight) {
            assert!(begun.elapsed() < PATIENCE, "{:?}", self.messages(queue));
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn worker(&self) -> Worker {
        let mut worker = self.client.command("queues");
        let worker = worker.args([&self.server.url, "work"]);
        Worker(
            worker
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap(),
        )
    }
}

/// Client that runs as a worker until it gets a signal to stop.
struct Worker(Child);

impl Worker {
    /// Stops the worker by a signal. It must exit without an error. Returns its standard output and
    /// error.
    fn stopped(self) -> (String, String) {
        let id = self.0.id().to_string();
        let killed = Command::new("kill").args(["-s", "TERM", &id]).status();
        assert!(killed.unwrap().success());
        let begun = Instant::now();
        let Output {
            status,
            stdout,
            stderr,
        } = self.0.wait_with_output().unwrap();
        let (out, err) = (
            String::from_utf8(stdout).unwrap(),
            String::from_utf8(stderr).unwrap(),
        );
        assert!(status.success(), "{out}{err}");
        assert!(begun.elapsed() < STOPPING, "{:?}", begun.elapsed());
        (out, err)
    }
}

fn sends_and_receives(client: &'static Client) {
    client.tells_its_usage("queues");
    let mails = Mails::start(client);
    let what = "invalid-argument in messages[6].deduplication_id: deduplication_id: …\nhint: …\n";
    mails.says(
        "send",
        &format!("sent\nsent\nsent\nsent before\nsent\nsent\n{what}"),
    );
    let sent = mails.messages("mails");
    let sent: Vec<_> = sent.iter().map(body_and_state).collect();
    let expected = [
        (json!("ada@example.com"), json!("ready")),
        (json!("alan@example.com"), json!("ready")),
        (json!("avZyZ0BleGFtcGxlLmNvbQ=="), json!("ready")),
        (json!("nobody"), json!("ready")),
        // The delayed message is listed after the ready messages, although it was sent second.
        (json!("grace@example.com"), json!("delayed")),
    ];
    assert_eq!(sent, expected);
    assert_eq!(mails.messages("mails")[0]["attributes"], json!({ "lang": "en" }));
    mails.says("problem", "invalid-argument in wait_seconds: …\nhint: …\n");

    let begun = Instant::now();
    let received = "4 messages are kept for ten minutes\n1 given back for a second\nada@example.com is done\n\
                    alan@example.com is done\nj\u{fffd}rg@example.com is done\nnobody is not done\n\
                    attempt 2 of nobody\n";
    mails.says("receive", received);
    assert!(begun.elapsed() >= Duration::from_secs(1));
    assert!(mails.has("mails", 1, 0), "{:?}", mails.messages("mails"));
    let dead = json!({ "recto.attempts": "2", "recto.error": "still no address" });
    assert_eq!(mails.messages("mails-dead")[0]["attributes"], dead);
    mails.says(
        "redrive",
        "nobody failed 2 times: still no address\n1 moved back\n",
    );
    assert!(mails.has("mails", 2, 0) && mails.has("mails-dead", 0, 0));
    let moved = mails
        .messages("mails")
        .iter()
        .map(body_and_state)
        .collect::<Vec<_>>();
    assert!(moved.contains(&(json!("nobody"), json!("ready"))), "{moved:?}");

    mails.says("groups", "ada's first, bob's first\nada's second\n");
    let gone = "mails: 2 messages, 0 after the purge\nmails-dead: 0 messages, 0 after the purge\n\
                orders.fifo: 0 messages, 0 after the purge\n";
    mails.says("delete", gone);
    let left = mails.ask(&["list"]);
    let left: Vec<_> = left["queues"].as_array().unwrap().iter().collect();
    assert_eq!((left.len(), &left[0]["name"]), (1, &json!("other")));
}

/// Returns the body of a message (in base64 if it is not text), and the state of the message.
fn body_and_state(message: &Json) -> (Json, Json) {
    let body = message.get("body").unwrap_or(&message["body_base64"]);
    (body.clone(), message["state"].clone())
}

/// Outcome of the message that the stopped worker was handling.
enum Stopped {
    Done,
    GivenBack,
}

fn works(client: &'static Client, stopped: &Stopped) {
    let mut mails = Mails::start(client);
    mails.says("problem", "…\n…\n");
    let send = |mails: &Mails, body: &str, seconds: &str| {
        let seconds = format!("seconds={seconds}");
        mails.ask(&["send", "mails", body, "--attribute", &seconds])
    };
    // Handling takes longer than the visibility timeout. The worker must extend the timeout,
    // because another worker waits for the message.
    send(&mails, "slow@example.com", "8");
    send(&mails, "nobody", "0");
    let workers = [mails.worker(), mails.worker()];
    mails.waits_until_it_has("mails", 0, 0);
    let dead = mails.messages("mails-dead");
    assert_eq!((dead.len(), &dead[0]["body"]), (1, &json!("nobody")));
    let why = json!({ "recto.attempts": "2", "recto.error": "no address: nobody", "seconds": "0" });
    assert_eq!(dead[0]["attributes"], why);

    mails.server.restart();
    send(&mails, "late@example.com", "0");
    mails.waits_until_it_has("mails", 0, 0);
    let said = workers.map(Worker::stopped);
    let mut done: Vec<_> = said.iter().flat_map(|(out, _)| out.lines()).collect();
    done.sort_unstable();
    assert_eq!(done, ["a mail to late@example.com", "a mail to slow@example.com"]);
    for (_, err) in &said {
        assert!(
            err.lines().count() >= 1 && err.lines().all(|line| line.starts_with("goes on in 1 s: ")),
            "{err}"
        );
    }

    send(&mails, "last@example.com", "4");
    let worker = mails.worker();
    mails.waits_until_it_has("mails", 1, 1);
    let (out, err) = worker.stopped();
    let left: Vec<_> = mails
        .messages("mails")
        .iter()
        .map(|left| left["attempts"].clone())
        .collect();
    match stopped {
        Stopped::Done => assert_eq!((out.as_str(), left), ("a mail to last@example.com\n", vec![])),
        // The worker gives the message back at once, so the attempt does not count.
        Stopped::GivenBack => assert_eq!((out.as_str(), left), ("", vec![json!(0)])),
    }
    assert!(
        err.is_empty() && mails.has("mails", u64::from(out.is_empty()), 0),
        "{err}"
    );
}

#[test]
fn the_python_client_sends_and_receives() {
    sends_and_receives(python());
}

#[test]
fn the_typescript_client_sends_and_receives() {
    sends_and_receives(typescript());
}

#[test]
fn the_python_client_works() {
    works(python(), &Stopped::GivenBack);
}

#[test]
fn the_typescript_client_works() {
    works(typescript(), &Stopped::Done);
}
