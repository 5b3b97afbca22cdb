//! Tests of queues on Cassandra that several processes use concurrently.

use std::fmt::Write as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::support::place::Place;
use crate::support::{Ran, Server};
use serde_json::Value as Json;

/// Maximum wait for an event that must happen.
const PATIENCE: Duration = Duration::from_secs(60);
/// Maximum time until a receiver notices a message that another process sent. A receiver's own
/// polls are much rarer, so only a notification is this fast.
const HEARD: Duration = Duration::from_secs(8);
/// Time after which a started receiver is certainly waiting for messages.
const BEGUN: Duration = Duration::from_secs(3);

/// Runs `recto queue`, which must succeed. Returns its output.
fn queue(place: &Place, line: &[&str]) -> String {
    place.run(&[&["queue"], line].concat(), b"").done()
}

fn json(text: &str) -> Json {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Starts `recto queue` in the background.
fn start(place: &Place, line: &[&str]) -> Child {
    let mut command = place.command();
    command
        .arg("queue")
        .args(line)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn messages(place: &Place, name: &str) -> u64 {
    json(&queue(place, &["describe", name, "--json"]))["messages"]
        .as_u64()
        .unwrap()
}

fn handled(place: &Place, name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(place.path().join(name)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn wakes_a_receive_after_a_send_of_another_process() {
    let place = &Place::on_cassandra();
    queue(place, &["create", "dead"]);
    queue(
        place,
        &["create", "jobs", "--dead-letters", "dead", "--attempts", "9"],
    );
    // In the first round, the receiver waits at a queue that never had a message. In the second
    // round, the queue had one.
    for sends in [&["send", "jobs", "a"][..], &["send", "dead", "a"]] {
        let wait = ["receive", "jobs", "--wait-message", "20", "--json", "--ack"];
        let waiting = start(place, &wait);
        std::thread::sleep(BEGUN);
        let begun = Instant::now();
        queue(place, sends);
        if sends[1] == "dead" {
            queue(place, &["redrive", "dead"]);
        }
        let received = Ran::of(&waiting.wait_with_output().unwrap()).done();
        assert_eq!(json(&received)["body"], "a");
        assert!(begun.elapsed() < HEARD, "{:?}", begun.elapsed());
    }
}

#[test]
fn handles_every_message_despite_a_killed_worker() {
    let place = &Place::on_cassandra();
    queue(place, &["create", "jobs", "--visibility", "2"]);
    let mut input = String::new();
    for number in 0..200 {
        writeln!(input, "{number:03}").unwrap();
    }
    let sent = place.run(&["queue", "send", "jobs"], input.as_bytes());
    assert!(sent.err.contains("200 messages sent"), "{}", sent.err);
    // Ignore an empty body, which a command gets if the worker is killed before it writes the body.
    let script = "read -r body; test -z \"$body\" || echo \"$body\" >> handled; sleep 0.05";
    let work = ["work", "jobs", "--concurrency", "4", "--", "sh", "-c", script];
    let [mut dies, stays, other] = [(); 3].map(|()| start(place, &work));
    wait_until("the workers have begun", || handled(place, "handled").len() >= 40);
    dies.kill().unwrap();
    dies.wait().unwrap();
    wait_until("all is done with", || messages(place, "jobs") == 0);
    for worker in [stays, other] {
        let id = worker.id().to_string();
        let told = std::process::Command::new("kill")
            .args(["-s", "TERM", &id])
            .status();
        assert!(told.unwrap().success());
        Ran::of(&worker.wait_with_output().unwrap()).done();
    }
    let handled = handled(place, "handled");
    let mut once = handled.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.join("\n") + "\n", input);
    // Other workers repeat the messages that the killed worker had begun, which are at most four.
    assert!(handled.len() <= 204, "{handled:?}");
}

#[test]
fn a_server_and_commands_have_the_same_queues() {
    let place = &Place::on_cassandra();
    queue(place, &["create", "jobs"]);
    let store = place.store().unwrap();
    let server = Server::start(place.path(), &["--store", &store]);
    let ask = |line: &[&str]| {
        let line = [&["queue", "--store", &server.url], line].concat();
        place.run(&line, b"").done()
    };
    ask(&["send", "jobs", "by the server"]);
    queue(place, &["send", "jobs", "by a command"]);
    let script = "read -r body; echo \"$body\" >> handled";
    queue(
        place,
        &["work", "jobs", "--until-empty", "--", "sh", "-c", script],
    );
    // Sort the bodies, because the two senders may have used different shards.
    let mut bodies = handled(place, "handled");
    bodies.sort_unstable();
    assert_eq!(bodies, ["by a command", "by the server"]);
    assert_eq!(json(&ask(&["describe", "jobs", "--json"]))["messages"], 0);
    // A receiver that waits at the server must also notice messages that a command sends.
    let url = server.url.clone();
    let wait = [
        "receive",
        "jobs",
        "--wait-message",
        "20",
        "--json",
        "--ack",
        "--store",
        &url,
    ];
    let waiting = start(place, &wait);
    std::thread::sleep(BEGUN);
    let begun = Instant::now();
    queue(place, &["send", "jobs", "late"]);
    let received = Ran::of(&waiting.wait_with_output().unwrap()).done();
    assert_eq!(json(&received)["body"], "late");
    assert!(begun.elapsed() < HEARD, "{:?}", begun.elapsed());
}
