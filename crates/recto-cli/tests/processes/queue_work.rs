//! Tests of `recto queue work`, which runs a command for each message.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Ran, command, recto, recto_with};
use serde_json::Value as Json;

/// Maximum wait for an event that must happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs `recto queue` in a folder. The command waits while another process has the store open.
fn queue(folder: &Path, line: &[&str]) -> Ran {
    let line: Vec<&str> = ["--wait", "20", "queue"].iter().chain(line).copied().collect();
    recto(folder, &line)
}

/// Creates a folder with the queue `jobs`, whose messages become dead letters after `attempts`
/// attempts.
fn with_queue(attempts: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    queue(folder.path(), &["create", "dead"]).done();
    let line = ["create", "jobs", "--dead-letters", "dead", "--attempts", attempts];
    queue(folder.path(), &line).done();
    folder
}

/// Returns two numbers of a queue: all messages, and those in flight.
fn amount(folder: &Path, name: &str) -> (u64, u64) {
    let status = queue(folder, &["describe", name, "--json"]).done();
    let status: Json = serde_json::from_str(&status).unwrap();
    (
        status["messages"].as_u64().unwrap(),
        status["in_flight"].as_u64().unwrap(),
    )
}

fn read(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).unwrap_or_default()
}

/// Waits until the last line of a file is complete, and returns the content of the file.
fn wait_for(folder: &Path, name: &str) -> String {
    let begun = Instant::now();
    loop {
        let text = read(folder, name);
        if text.ends_with('\n') {
            return text;
        }
        assert!(begun.elapsed() < PATIENCE, "{name} is not there");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// `recto queue work` as a process in the background.
struct Worker(Child);

impl Worker {
    fn start(folder: &Path, line: &[&str]) -> Self {
        let mut command = command(folder);
        command.args(["queue", "work", "jobs"]).args(line);
        Self(
            command
                .stdin(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap(),
        )
    }

    fn signal(&self, name: &str) {
        let id = self.0.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-s", name, &id])
                .status()
                .unwrap()
                .success()
        );
    }

    fn ended(self) -> Ran {
        Ran::of(&self.0.wait_with_output().unwrap())
    }
}

#[test]
fn each_message_is_given_to_a_command_which_knows_all_of_it() {
    let folder = with_queue("5");
    let folder = folder.path();
    for body in ["one", "two", "three"] {
        queue(
            folder,
            &["send", "jobs", body, "--attribute", "content-type=text/plain"],
        )
        .done();
    }
    let script = "read -r body || true; echo \"$body $RECTO_MESSAGE_ATTEMPTS $RECTO_MESSAGE_QUEUE \
                  ${#RECTO_MESSAGE_ID} $RECTO_ATTRIBUTE_CONTENT_TYPE ${RECTO_MESSAGE_GROUP-none}\" >> handled";
    let worked = queue(
        folder,
        &["work", "jobs", "--until-empty", "--", "sh", "-c", script],
    );
    assert!(worked.err.contains("3 messages done"), "{}", worked.err);
    worked.done();
    let handled = read(folder, "handled");
    let expected = ["one", "two", "three"].map(|body| format!("{body} 1 jobs 32 text/plain none\n"));
    assert_eq!(handled, expected.concat());
    assert_eq!(amount(folder, "jobs"), (0, 0));
}

#[test]
fn a_command_that_fails_twice_is_run_a_third_time() {
    let folder = with_queue("5");
    let folder = folder.path();
    queue(folder, &["send", "jobs", "a"]).done();
    let script = "echo $RECTO_MESSAGE_ATTEMPTS >> attempts; test $RECTO_MESSAGE_ATTEMPTS -ge 3 || { echo 'no way' >&2; exit 7; }";
    for attempt in 1..=2 {
        let line = [
            "work",
            "jobs",
            "--once",
            "--first-delay",
            "1",
            "--longest-delay",
            "1",
            "--",
            "sh",
            "-c",
            script,
        ];
        let worked = queue(folder, &line);
        let said = worked.failed(4, "no way");
        assert!(said.contains("no way; is delivered again in "), "{said}");
        assert_eq!(read(folder, "attempts").lines().count(), attempt);
        assert_eq!(amount(folder, "jobs"), (1, 0));
    }
    // The worker must wait for the failed message, which can be received a second later.
    let worked = queue(
        folder,
        &["work", "jobs", "--once", "--json", "--", "sh", "-c", script],
    )
    .done();
    let worked: Json = serde_json::from_str(&worked).unwrap();
    assert_eq!((&worked["done"], &worked["failed"]), (&1.into(), &0.into()));
    assert_eq!(read(folder, "attempts"), "1\n2\n3\n");
    assert_eq!((amount(folder, "jobs").0, amount(folder, "dead").0), (0, 0));
}

#[test]
fn moves_failed_messages_to_dead_letters_with_their_error() {
    let folder = with_queue("1");
    let folder = folder.path();
    queue(folder, &["send", "jobs", "bad", "worse"]).done();
    let script = "read -r body; echo first >&2; printf 'no such address: %s\\n\\n' \"$body\" >&2; exit 1";
    let line = [
        "work",
        "jobs",
        "--until-empty",
        "--concurrency",
        "2",
        "--",
        "sh",
        "-c",
        script,
    ];
    let worked = queue(folder, &line).failed(4, "2 failed");
    assert!(
        worked.contains("no such address: bad; goes to dead\n"),
        "{worked}"
    );
    let dead = queue(folder, &["peek", "dead", "--json"]).done();
    let dead: Json = serde_json::from_str(&dead).unwrap();
    let mut errors: Vec<_> = (0..2)
        .map(|index| {
            dead["messages"][index]["attributes"]["recto.error"]
                .as_str()
                .unwrap()
        })
        .collect();
    errors.sort_unstable();
    assert_eq!(errors, ["no such address: bad", "no such address: worse"]);
    // After a redrive, two messages are handled: one by the command `true`, the other by a command
    // that fails without output.
    queue(folder, &["redrive", "dead"]).done();
    queue(folder, &["work", "jobs", "--once", "--", "true"]).done();
    queue(
        folder,
        &["work", "jobs", "--once", "--", "sh", "-c", "kill -9 $$"],
    )
    .failed(4, "killed by signal 9");
    queue(folder, &["redrive", "dead"]).done();
    queue(folder, &["work", "jobs", "--once", "--", "sh", "-c", "exit 3"]).failed(4, "exit code 3");
    assert_eq!((amount(folder, "jobs").0, amount(folder, "dead").0), (0, 1));
}

// The maximum size of an environment variable differs between systems. The test uses that of Linux.
#[cfg(target_os = "linux")]
#[test]
fn a_message_that_no_environment_holds_fails_and_harms_no_other() {
    let folder = with_queue("1");
    let folder = folder.path();
    let long = "x".repeat(200_000);
    let mut input = String::new();
    for attributes in [
        serde_json::json!({ "content-type": "a", "content_type": "b" }),
        serde_json::json!({ "kind": "a\0b" }),
        serde_json::json!({ "kind": long }),
        serde_json::json!({ "kind=\0": "good" }),
    ] {
        let message = serde_json::json!({ "body": "x", "attributes": attributes });
        writeln!(input, "{message}").unwrap();
    }
    input.push_str("{\"body\": \"x\", \"deduplication_id\": \"a\\u0000b\"}\n");
    let line = ["queue", "send", "jobs", "--ndjson"];
    recto_with(folder, &line, &[], input.as_bytes()).done();
    let line = ["work", "jobs", "--until-empty", "--", "sh", "-c"];
    let script = "echo $RECTO_ATTRIBUTE_KIND__ >> handled";
    queue(folder, &[&line[..], &[script]].concat()).failed(4, "1 message done, 4 failed");
    assert_eq!(read(folder, "handled"), "good\n");
    let dead = queue(folder, &["peek", "dead", "--json"]).done();
    let dead: Json = serde_json::from_str(&dead).unwrap();
    let errors: Vec<_> = dead["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["attributes"]["recto.error"].as_str().unwrap())
        .collect();
    let expected = [
        "the attributes content-type and content_type would both have the variable RECTO_ATTRIBUTE_CONTENT_TYPE",
        "the attribute kind has a NUL byte, which an environment variable cannot have",
        "cannot run the command: Argument list too long (os error 7)",
        "the deduplication id has a NUL byte, which an environment variable cannot have",
    ];
    assert_eq!(errors, expected);
}

#[test]
fn a_command_that_cannot_be_run_harms_no_message() {
    let folder = with_queue("5");
    let folder = folder.path();
    queue(folder, &["work", "nothing", "--", "true"]).failed(3, "nothing");
    queue(folder, &["send", "jobs", "a"]).done();
    queue(folder, &["work", "jobs", "--", "./no-such-command"]).failed(3, "cannot run ./no-such-command");
    queue(folder, &["work", "jobs"]).failed(2, "COMMAND");
    queue(folder, &["work", "jobs", "--concurrency", "0", "--", "true"]).failed(2, "1 to 1,000");
    assert_eq!((amount(folder, "jobs"), amount(folder, "dead").0), ((1, 0), 0));
    // A command succeeds without reading its input, even if the input is larger than the buffer of
    // a pipe.
    let body = "x".repeat(100_000);
    queue(folder, &["send", "jobs", &body, &body]).done();
    queue(folder, &["work", "jobs", "--until-empty", "--", "true"]).done();
    // A command also succeeds if it leaves a process that keeps the command's other streams open.
    queue(folder, &["send", "jobs", &body]).done();
    let begun = Instant::now();
    let worked = queue(
        folder,
        &[
            "work",
            "jobs",
            "--until-empty",
            "--",
            "sh",
            "-c",
            "sleep 30 > /dev/null & exit 0",
        ],
    );
    assert_eq!(worked.code, 0, "{}", worked.err);
    assert!(begun.elapsed() < Duration::from_secs(20));
}

#[test]
fn commands_run_beside_each_other_and_for_longer_than_a_lease() {
    let folder = with_queue("2");
    let folder = folder.path();
    queue(folder, &["send", "jobs", "a", "b", "c", "d"]).done();
    let begun = Instant::now();
    let line = [
        "work",
        "jobs",
        "--until-empty",
        "--concurrency",
        "4",
        "--visibility",
        "1",
        "--",
        "sh",
        "-c",
    ];
    let script = "sleep 3; echo $RECTO_MESSAGE_ATTEMPTS >> attempts";
    queue(folder, &[&line[..], &[script]].concat()).done();
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_eq!(read(folder, "attempts"), "1\n1\n1\n1\n");
    assert_eq!(amount(folder, "jobs").0, 0);
}

#[test]
fn told_to_stop_it_lets_its_commands_finish() {
    let folder = with_queue("5");
    let folder = folder.path();
    queue(folder, &["send", "jobs", "a", "b"]).done();
    let worker = Worker::start(
        folder,
        &["--", "sh", "-c", "echo x >> begun; sleep 1; echo x >> ended"],
    );
    wait_for(folder, "begun");
    worker.signal("TERM");
    let ended = worker.ended();
    assert!(ended.err.contains("1 message done"), "{}", ended.err);
    assert_eq!(ended.code, 0, "{}", ended.err);
    assert_eq!(
        (read(folder, "begun"), read(folder, "ended")),
        ("x\n".into(), "x\n".into())
    );
    assert_eq!(amount(folder, "jobs"), (1, 0));
}

#[test]
fn told_twice_it_kills_them_and_gives_their_messages_back() {
    let folder = with_queue("5");
    let folder = folder.path();
    queue(folder, &["send", "jobs", "a"]).done();
    let worker = Worker::start(
        folder,
        &["--", "sh", "-c", "echo $$ > begun; sleep 30; echo x > ended"],
    );
    let id = wait_for(folder, "begun");
    let begun = Instant::now();
    worker.signal("INT");
    std::thread::sleep(Duration::from_millis(500));
    worker.signal("INT");
    assert_eq!(worker.ended().code, 130);
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert!(!Path::new("/proc").join(id.trim()).exists());
    assert_eq!(amount(folder, "jobs"), (1, 0));
    assert_eq!(read(folder, "ended"), "");
}

#[test]
fn redelivers_messages_of_a_killed_worker() {
    let folder = with_queue("5");
    let folder = folder.path();
    queue(folder, &["send", "jobs", "a", "b", "c"]).done();
    let line = [
        "--concurrency",
        "2",
        "--visibility",
        "2",
        "--",
        "sh",
        "-c",
        "echo x >> begun; sleep 2",
    ];
    let worker = Worker::start(folder, &line);
    let begun = Instant::now();
    while read(folder, "begun") != "x\nx\n" {
        assert!(begun.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(20));
    }
    worker.signal("KILL");
    worker.0.wait_with_output().unwrap();
    // The killed worker lost no message: messages whose command had not started can be received at
    // once.
    assert_eq!(amount(folder, "jobs").0, 3);
    let mut bodies = Vec::new();
    while bodies.len() < 3 {
        assert!(begun.elapsed() < PATIENCE, "{bodies:?}");
        let received = queue(
            folder,
            &[
                "receive",
                "jobs",
                "--max",
                "3",
                "--wait-message",
                "5",
                "--ack",
                "--json",
            ],
        )
        .done();
        for line in received.lines() {
            let message: Json = serde_json::from_str(line).unwrap();
            let body = message["body"].as_str().unwrap().to_owned();
            let attempts = if body == "c" { 1 } else { 2 };
            assert_eq!(message["attempts"], attempts, "{body}");
            bodies.push(body);
        }
    }
    bodies.sort();
    assert_eq!(bodies, ["a", "b", "c"]);
}

#[test]
fn through_a_server_several_work_on_one_queue() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // `queue create` creates the store that the server then opens.
    queue(folder, &["create", "other"]).done();
    let server = crate::support::Server::start(folder, &[]);
    let ask = |line: &[&str], input: &str| {
        let line: Vec<&str> = ["queue", "--store", &server.url]
            .iter()
            .chain(line)
            .copied()
            .collect();
        recto_with(folder, &line, &[], input.as_bytes())
    };
    ask(&["create", "jobs", "--visibility", "2", "--json"], "").done();
    ask(&["create", "jobs", "--delay", "1"], "").failed(2, "jobs");
    ask(&["send", "nothing", "a"], "").failed(3, "nothing");
    ask(&["ack", "jobs", "garbage"], "").failed(2, "receipt 1: this is not a receipt");
    // Ignore an empty body, which a command gets if the worker is killed before it writes the body.
    let script = "read -r body; [ -z \"$body\" ] || echo \"$body\" >> handled; sleep 0.05";
    let work = [
        "--store",
        &server.url,
        "--concurrency",
        "2",
        "--",
        "sh",
        "-c",
        script,
    ];
    let workers = [
        Worker::start(folder, &work),
        Worker::start(folder, &work),
        Worker::start(folder, &work),
    ];
    let mut input = String::new();
    for number in 0..60 {
        writeln!(input, "{number:02}").unwrap();
    }
    let sent = ask(&["send", "jobs"], &input);
    assert!(sent.err.contains("60 messages sent"), "{}", sent.err);
    let begun = Instant::now();
    while read(folder, "handled").len() < 15 {
        assert!(begun.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(5));
    }
    // The other workers handle all messages of the killed worker, even those whose commands had
    // started.
    let [dies, stays, other] = workers;
    dies.signal("KILL");
    dies.0.wait_with_output().unwrap();
    let look = ask(&["watch", "jobs", "--count", "2", "--json"], "").done();
    let look: Json = serde_json::from_str(look.lines().last().unwrap()).unwrap();
    assert_eq!(look["queues"][0]["totals"]["sent"], 60);
    assert!(
        look["queues"][0]["rates"]["received_per_second"].is_number(),
        "{look}"
    );
    loop {
        let status: Json = serde_json::from_str(&ask(&["describe", "jobs", "--json"], "").done()).unwrap();
        if status["messages"] == 0 {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{status}");
        std::thread::sleep(Duration::from_millis(100));
    }
    for worker in [stays, other] {
        worker.signal("TERM");
        assert_eq!(worker.ended().code, 0);
    }
    let handled = read(folder, "handled");
    let mut once: Vec<&str> = handled.lines().collect();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.join("\n") + "\n", input);
    assert!(handled.lines().count() <= 62, "{handled}");
}
