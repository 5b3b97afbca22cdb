//! Tests of `recto queue`.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::support::guide::{blocks, is_shown};
use crate::support::place::Place;
use crate::support::{Ran, Server, recto};
use recto::queues::{NewMessage, QueueOptions};
use recto::{Environment, OpenOptions, Recto};
use serde_json::Value as Json;

fn queue(place: &Place, line: &[&str]) -> Ran {
    queue_with(place, line, b"")
}

/// Runs `recto queue` with the arguments `line`, and `input` as standard input.
fn queue_with(place: &Place, line: &[&str], input: &[u8]) -> Ran {
    place.run(&[&["queue"], line].concat(), input)
}

/// Returns the lines of JSON that a command printed.
fn lines(text: &str) -> Vec<Json> {
    let read = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    text.lines().map(read).collect()
}

fn json(text: &str) -> Json {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Returns two numbers of a queue: all messages, and those in flight.
fn amount(place: &Place, name: &str) -> (u64, u64) {
    let status = json(&queue(place, &["describe", name, "--json"]).done());
    assert_eq!(status["exact"], true);
    (
        status["messages"].as_u64().unwrap(),
        status["in_flight"].as_u64().unwrap(),
    )
}

fn bodies(messages: &[Json]) -> Vec<&str> {
    messages
        .iter()
        .map(|message| message["body"].as_str().unwrap())
        .collect()
}

/// Defines each test twice: for an embedded store, and for Cassandra.
macro_rules! on_both_stores {
    ($($name:ident),+ $(,)?) => {
        mod embedded {
            $(#[test]
            fn $name() {
                super::$name(&super::Place::embedded());
            })+
        }
        mod cassandra {
            $(#[test]
            fn $name() {
                super::$name(&super::Place::on_cassandra());
            })+
        }
    };
}

on_both_stores! {
    the_life_of_a_queue,
    requires_confirmation_to_purge_or_delete,
    a_queue_is_changed_upon_what_it_is,
    dead_letters_are_kept_with_their_error_and_driven_back,
    ten_thousand_lines_are_messages_in_their_order,
    reports_invalid_lines_and_sends_the_others,
    lines_are_told_of_in_their_order,
    arguments_that_are_not_right_do_nothing,
    a_schema_file_says_what_holds_for_all_queues,
    gives_back_messages_if_the_reader_closes_the_output,
    a_watch_prints_a_line_a_second,
    work_units_are_queues_that_end,
}

/// Checks that only `recto queue create` creates a store.
fn reads_make_no_store(place: &Place) {
    queue(place, &["send", "jobs", "a"]).failed(3, "recto queue create NAME");
    for line in [
        &["list"][..],
        &["describe", "jobs"],
        &["peek", "jobs"],
        &["watch"],
        &["tables"],
    ] {
        let said = queue(place, line).failed(3, "there is no");
        assert!(said.contains("recto queue create NAME"), "{line:?}: {said}");
    }
    assert!(!place.path().join("recto.data").exists());
}

fn the_life_of_a_queue(place: &Place) {
    reads_make_no_store(place);
    let made = queue(place, &["create", "jobs", "--visibility", "5m"]);
    assert!(made.err.contains("created the store"), "{}", made.err);
    assert!(made.done().contains("Queue jobs created."));
    let again = queue(place, &["create", "jobs", "--visibility", "300"]).done();
    assert!(
        again.contains("Queue jobs already exists with these options."),
        "{again}"
    );
    queue(place, &["create", "jobs"]).failed(2, "exists with other options");

    let sent = queue(
        place,
        &[
            "send",
            "jobs",
            "one",
            "two",
            "three",
            "--attribute",
            "lang=en",
            "--json",
        ],
    )
    .done();
    let sent = lines(&sent);
    assert_eq!(sent.len(), 3);
    assert_eq!(
        (&sent[2]["message"], &sent[2]["duplicate"]),
        (&3.into(), &false.into())
    );

    let listed = queue(place, &["list"]).done();
    assert!(
        listed.contains("jobs") && listed.contains("in flight"),
        "{listed}"
    );
    let listed = json(&queue(place, &["list", "--json"]).done());
    assert_eq!(listed["queues"][0]["messages"], 3);
    assert_eq!(listed["queues"][0]["options"]["visibility_seconds"], 300);

    let received = lines(&queue(place, &["receive", "jobs", "--max", "2", "--json"]).done());
    assert_eq!(bodies(&received), ["one", "two"]);
    assert_eq!(received[0]["id"], sent[0]["id"]);
    assert_eq!(received[0]["attributes"]["lang"], "en");
    assert_eq!(amount(place, "jobs"), (3, 2));
    let (first, second) = (
        received[0]["receipt"].as_str().unwrap(),
        received[1]["receipt"].as_str().unwrap(),
    );

    let acked = queue(place, &["ack", "jobs", first]).done();
    assert!(acked.contains("1 message acknowledged"), "{acked}");
    queue(place, &["ack", "jobs", first]).done();
    assert!(
        queue(place, &["extend", "jobs", second, "--visibility", "1h"])
            .done()
            .contains("1 message kept")
    );
    // The receipt comes from standard input: the whole message as `receive --json` prints it.
    let input = received[1].to_string();
    let back = queue_with(place, &["nack", "jobs", "--error", "later"], input.as_bytes()).done();
    assert!(back.contains("1 message given back"), "{back}");
    assert_eq!(amount(place, "jobs"), (2, 0));

    // A receive of one message can return a new message, or the message that was given back. So
    // receive two.
    let drawn = queue(place, &["receive", "jobs", "--max", "2"]).done();
    for said in ["two", "2 attempts", "three", "1 attempt", "lang = en"] {
        assert!(drawn.contains(said), "{said}: {drawn}");
    }
    let words: Vec<_> = drawn.split_whitespace().collect();
    let receipts = words.windows(2).filter(|pair| pair[0] == "receipt");
    let receipts: Vec<_> = receipts.map(|pair| pair[1]).collect();
    let [receipt, other] = receipts[..] else {
        panic!("{drawn}");
    };
    queue(place, &["nack", "jobs", other]).done();
    // A receipt is valid only for the last receiver of the message, so the earlier receipt is
    // stale.
    let late = queue(place, &["ack", "jobs", second]);
    assert!(
        late.out.contains("no longer yours") && late.out.contains(second),
        "{}",
        late.out
    );
    assert_eq!((late.code, amount(place, "jobs")), (4, (2, 1)));
    queue(place, &["ack", "jobs", receipt]).done();

    let peeked = json(&queue(place, &["peek", "jobs", "--json"]).done());
    assert_eq!(
        (&peeked["messages"][0]["body"], &peeked["messages"][0]["state"]),
        (&"three".into(), &"ready".into())
    );
    let position = peeked["messages"][0]["position"].as_str().unwrap();
    assert!(queue(place, &["peek", "jobs"]).done().contains(position));
    assert!(
        queue(place, &["remove", "jobs", position])
            .done()
            .contains("1 message removed")
    );
    queue(place, &["remove", "jobs", position]).failed(3, "there is no message at");
    let nothing = queue(place, &["receive", "jobs"]);
    assert!(nothing.err.contains("no message to receive"), "{}", nothing.err);
    assert_eq!(nothing.done(), "");
}

fn requires_confirmation_to_purge_or_delete(place: &Place) {
    queue(place, &["create", "jobs"]).done();
    queue(place, &["send", "jobs", "four"]).done();
    queue(place, &["purge", "jobs"]).failed(2, "--yes");
    assert_eq!(amount(place, "jobs").0, 1);
    queue(place, &["purge", "jobs", "--yes"]).done();
    assert_eq!(amount(place, "jobs").0, 0);
    queue(place, &["delete", "jobs"]).failed(2, "recto queue delete jobs --yes");
    queue(place, &["delete", "jobs", "--yes"]).done();
    queue(place, &["describe", "jobs"]).failed(3, "jobs");
    assert!(queue(place, &["list"]).done().contains("There are no queues"));
}

fn a_queue_is_changed_upon_what_it_is(place: &Place) {
    queue(place, &["create", "dead"]).done();
    queue(
        place,
        &[
            "create",
            "jobs",
            "--dead-letters",
            "dead",
            "--attempts",
            "3",
            "--retention",
            "14d",
        ],
    )
    .done();
    let status = json(&queue(place, &["describe", "jobs", "--json"]).done());
    let version = status["version"].to_string();
    let changed = queue(
        place,
        &["change", "jobs", "--visibility", "10m", "--if-version", &version],
    )
    .done();
    assert!(
        changed.contains("to dead after 3 attempts") && changed.contains("10 min"),
        "{changed}"
    );
    queue(
        place,
        &["change", "jobs", "--delay", "1m", "--if-version", &version],
    )
    .failed(2, "version");
    queue(place, &["delete", "dead", "--yes"]).failed(2, "dead");
    let line = [
        "change",
        "jobs",
        "--no-dead-letters",
        "--retention",
        "forever",
        "--json",
    ];
    let changed = json(&queue(place, &line).done());
    assert_eq!(changed["options"]["dead_letters"], Json::Null);
    assert_eq!(changed["options"]["retention_seconds"], Json::Null);
    assert_eq!(changed["options"]["visibility_seconds"], 600);
    queue(place, &["delete", "dead", "--yes"]).done();
    queue(place, &["send", "jobs", "a"]).done();
    let changed = queue(place, &["change", "jobs", "--paused"]).done();
    assert!(changed.contains("paused"), "{changed}");
    assert!(queue(place, &["list"]).done().contains("paused"));
    let received = queue(place, &["receive", "jobs"]);
    assert!(received.err.contains("The queue is paused."), "{received:?}");
    queue(place, &["change", "jobs", "--paused=false"]).done();
    assert!(!queue(place, &["list"]).done().contains("paused"));
    assert!(queue(place, &["receive", "jobs", "--ack"]).done().contains('a'));
    queue(place, &["change", "jobs", "--ordered"]).failed(2, "ordered");
}

fn dead_letters_are_kept_with_their_error_and_driven_back(place: &Place) {
    queue(place, &["create", "dead"]).done();
    queue(
        place,
        &["create", "jobs", "--dead-letters", "dead", "--attempts", "1"],
    )
    .done();
    queue(place, &["send", "jobs", "bad", "good"]).done();
    let received = lines(&queue(place, &["receive", "jobs", "--json"]).done());
    let receipt = received[0]["receipt"].as_str().unwrap();
    queue(place, &["nack", "jobs", receipt, "--error", "no such address"]).done();
    assert_eq!((amount(place, "jobs").0, amount(place, "dead").0), (1, 1));
    assert!(queue(place, &["peek", "dead"]).done().contains("no such address"));
    assert!(
        queue(place, &["redrive", "dead"])
            .done()
            .contains("1 message moved")
    );
    assert_eq!((amount(place, "jobs").0, amount(place, "dead").0), (2, 0));
    queue(place, &["redrive", "jobs"]).failed(2, "name the queue");
    let moved = json(
        &queue(
            place,
            &["redrive", "jobs", "--to", "dead", "--max", "1", "--json"],
        )
        .done(),
    );
    assert_eq!(moved["moved"], 1);
}

fn ten_thousand_lines_are_messages_in_their_order(place: &Place) {
    queue(place, &["create", "jobs"]).done();
    let mut input = String::new();
    for number in 0..10_000 {
        writeln!(input, "job {number}").unwrap();
    }
    let sent = queue_with(place, &["send", "jobs"], input.as_bytes());
    assert!(sent.err.contains("10,000 messages sent"), "{}", sent.err);
    sent.done();
    assert_eq!(amount(place, "jobs").0, 10_000);
    let mut received = Vec::new();
    for _ in 0..10 {
        let some = queue(place, &["receive", "jobs", "--max", "1000", "--json", "--ack"]).done();
        received.extend(lines(&some).iter().map(|message| message["body"].to_string()));
    }
    let mut sent: Vec<_> = (0..10_000).map(|number| format!("\"job {number}\"")).collect();
    if place.store().is_some() {
        // Compare without order: each shard has its own order, and a message can go to another
        // shard after a failure.
        received.sort_unstable();
        sent.sort_unstable();
    }
    assert_eq!(received, sent);
    assert_eq!(amount(place, "jobs").0, 0);
}

fn reports_invalid_lines_and_sends_the_others(place: &Place) {
    queue(place, &["create", "jobs", "--body-bytes", "20"]).done();
    let input = concat!(
        "{\"body\": \"a\", \"attributes\": {\"k\": \"v\"}, \"deduplication_id\": \"1\"}\n",
        "not json\n",
        "\n",
        "{\"bdy\": \"b\"}\n",
        "{\"body_base64\": \"%%\"}\n",
        "{\"body\": \"longer than twenty bytes\"}\n",
        "{\"body\": \"a again\", \"deduplication_id\": \"1\"}\n",
        "{\"body_base64\": \"/wA=\"}"
    );
    let sent = queue_with(place, &["send", "jobs", "--ndjson"], input.as_bytes());
    for line in [
        "line 2: not a valid message",
        "line 4: not a valid message",
        "line 5:",
        "line 6:",
    ] {
        assert!(sent.err.contains(line), "{line}: {}", sent.err);
    }
    let order: Vec<_> = ["line 2", "line 4", "line 5", "line 6"]
        .iter()
        .map(|line| sent.err.find(line))
        .collect();
    assert!(order.is_sorted(), "{}", sent.err);
    assert!(
        !sent.err.contains("line 3") && !sent.err.contains("line 7"),
        "{}",
        sent.err
    );
    let said = sent.failed(4, "2 messages sent");
    assert!(
        said.contains("1 had been sent already") && said.contains("4 not sent"),
        "{said}"
    );
    let mut received = lines(&queue(place, &["receive", "jobs", "--max", "10", "--json"]).done());
    assert_eq!(received.len(), 2);
    // Sort the messages, because their order varies: the deduplication id can select another shard.
    received.sort_by_key(|message| message["body"].is_null());
    assert_eq!(
        (&received[0]["body"], &received[1]["body_base64"]),
        (&"a".into(), &"/wA=".into())
    );

    // The output shows the errors of the first invalid lines, and the number of all invalid lines.
    let many = queue_with(
        place,
        &["send", "jobs", "--ndjson", "--json"],
        "x\n".repeat(5_000).as_bytes(),
    );
    assert_eq!(many.code, 4);
    assert_eq!(lines(&many.out).len(), 5_000);
    let shown = many.err.matches("not a valid message").count();
    assert_eq!(shown, 20, "{}", many.err);
}

fn arguments_that_are_not_right_do_nothing(place: &Place) {
    queue(place, &["create", "jobs"]).done();
    for (line, code, said) in [
        (&["create", "no name"][..], 2, "letters, digits"),
        (
            &["create", "x", "--dead-letters", "nothing", "--attempts", "3"],
            2,
            "there is no queue nothing",
        ),
        (&["create", "x", "--dead-letters", "jobs"], 2, "--attempts"),
        (&["create", "x", "--visibility", "soon"], 2, "10m, 12h"),
        (&["create", "x", "--visibility", "13h"], 2, "43200"),
        (&["create", "x", "--retention", "1s"], 2, "retention"),
        (&["create", "x", "--deduplication", "group"], 2, "deduplication"),
        (
            &["change", "jobs", "--dead-letters", "jobs", "--attempts", "1"],
            2,
            "dead_letters",
        ),
        (&["change", "nothing", "--delay", "1"], 3, "nothing"),
        (&["send", "nothing", "a"], 3, "nothing"),
        (&["send", "jobs", "a", "--attribute", "lang"], 2, "lang=en"),
        (&["send", "jobs", "a", "--delay", "31d"], 2, "delay"),
        (
            &["send", "jobs", "a", "b", "--deduplication-id", "1"],
            2,
            "one message",
        ),
        (&["send", "jobs", "a", "--ndjson"], 2, "cannot be used with"),
        (&["send", "jobs", "--file", "nothing.txt"], 3, "nothing.txt"),
        (&["receive", "jobs", "--max", "1001"], 2, "1001"),
        (&["receive", "jobs", "--max", "0"], 2, "1..=1000"),
        (&["receive", "jobs", "--wait-message", "21"], 2, "21"),
        (&["receive", "jobs", "--visibility", "13h"], 2, "visibility"),
        (&["ack", "jobs", "garbage"], 2, "receipt 1: this is not a receipt"),
        (&["ack", "jobs", "--", "-garbage"], 2, "this is not a receipt"),
        (&["extend", "jobs", "garbage"], 2, "--visibility"),
        (&["remove", "jobs", "first"], 2, "not the position"),
        (&["purge", "nothing"], 3, "nothing"),
        (&["delete", "nothing", "--yes"], 3, "nothing"),
        (&["redrive", "jobs", "--to", "jobs"], 2, "queue"),
        (&["watch", "nothing", "--count", "1"], 3, "nothing"),
    ] {
        queue(place, line).failed(code, said);
    }
    for input in ["garbage\n", "{\"id\": 1}\n", "{not json\n", "\u{0}\n"] {
        queue_with(place, &["ack", "jobs"], input.as_bytes()).failed(2, "line 1: ");
    }
    let names = queue(place, &["list", "--json"]).done();
    assert_eq!(json(&names)["queues"].as_array().unwrap().len(), 1);
    assert_eq!(amount(place, "jobs").0, 0);
}

#[test]
fn a_store_without_queues_has_none() {
    let other = Place::embedded();
    std::fs::write(other.path().join("recto.toml"), crate::support::ORDERS).unwrap();
    recto(other.path(), &["apply", "--yes"]).done();
    let there = tables(&other);
    assert!(queue(&other, &["list"]).done().contains("There are no queues"));
    queue(&other, &["peek", "jobs"]).failed(3, "there is no queue jobs");
    queue(&other, &["describe", "jobs/night"]).failed(3, "there is no work unit jobs/night");
    queue(&other, &["unit", "list", "jobs"]).failed(3, "there is no queue jobs");
    let looks = lines(&queue(&other, &["watch", "--count", "1", "--json"]).done());
    assert_eq!(
        (&looks[0]["queues"], &looks[0]["tables"]),
        (&Json::Array(vec![]), &Json::Null)
    );
    assert!(
        queue(&other, &["tables"])
            .done()
            .contains("needs no queue tables")
    );
    // A command that only reads creates no table, and neither does a command that names a missing
    // queue.
    queue(&other, &["send", "jobs", "a"]).failed(3, "there is no queue jobs");
    queue(&other, &["delete", "jobs", "--yes"]).failed(3, "there is no queue jobs");
    assert_eq!(tables(&other), there);
}

/// Returns the names of the tables of an embedded store.
fn tables(place: &Place) -> Vec<String> {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let recto = Recto::open_with(place.path().join("recto.data"), OpenOptions::new().read_only());
        let tables = recto.await.unwrap().store().list_tables().await.unwrap();
        tables.iter().map(|table| table.name().to_owned()).collect()
    })
}

/// Checks that several readers have an embedded store open at the same time. During a write, they
/// report the process that writes.
#[test]
fn several_look_at_a_store_that_nobody_writes() {
    let place = &Place::embedded();
    queue(place, &["create", "jobs"]).done();
    queue(place, &["send", "jobs", "a", "b"]).done();
    let looking = [
        &["list"][..],
        &["describe", "jobs"],
        &["peek", "jobs"],
        &["watch", "--count", "1"],
        &["tables"],
        &["unit", "list", "jobs"],
    ];
    let mut command = place.command();
    command.args(["queue", "watch", "--json"]);
    let mut watch = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(watch.stdout.take().unwrap());
    let mut said = String::new();
    out.read_line(&mut said).unwrap();
    assert_eq!(json(&said)["queues"][0]["messages"], 2);
    for line in looking {
        queue(place, line).done();
    }
    queue(place, &["send", "jobs", "c"]).failed(1, "open for reading");
    watch.kill().unwrap();
    watch.wait().unwrap();

    let mut sender = sender(place);
    let mut input = sender.stdin.take().unwrap();
    writeln!(input, "c").unwrap();
    let mut out = BufReader::new(sender.stdout.take().unwrap());
    out.read_line(&mut said).unwrap();
    for line in looking {
        let said = queue(place, line).failed(1, "recto queue");
        assert!(said.contains("run `recto serve`"), "{line:?}: {said}");
    }
    drop(input);
    assert!(sender.wait().unwrap().success());
    assert_eq!(amount(place, "jobs").0, 3);
}

fn gives_back_messages_if_the_reader_closes_the_output(place: &Place) {
    queue(place, &["create", "jobs", "--visibility", "1h"]).done();
    let bodies = "x".repeat(100_000);
    queue(place, &["send", "jobs", &bodies, &bodies, &bodies]).done();
    let mut command = place.command();
    command.args(["queue", "receive", "jobs", "--max", "10", "--ack", "--json"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(amount(place, "jobs"), (3, 0));
    // Every other command also ends without an error if the reader closes the output.
    for line in [
        &["list"][..],
        &["peek", "jobs", "--json"],
        &["watch", "--count", "2"],
        &["send", "jobs", "a", "--json"],
    ] {
        let mut command = place.command();
        let mut child = command
            .arg("queue")
            .args(line)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        assert_eq!(child.wait().unwrap().code(), Some(0), "{line:?}");
    }
}

fn a_watch_prints_a_line_a_second(place: &Place) {
    queue(place, &["create", "jobs"]).done();
    queue(place, &["send", "jobs", "a", "b"]).done();
    let begun = std::time::Instant::now();
    let looks = lines(&queue(place, &["watch", "--count", "3", "--json"]).done());
    assert!(begun.elapsed() >= std::time::Duration::from_secs(2));
    assert_eq!(looks.len(), 3);
    let last = &looks[2]["queues"][0];
    assert_eq!((&last["name"], &last["messages"]), (&"jobs".into(), &2.into()));
    assert_eq!(last["rates"]["sent_per_second"], 0.0);
    assert_eq!(looks[0]["queues"][0]["rates"], Json::Null);
    let drawn = queue(place, &["watch", "jobs", "--count", "1"]).done();
    assert!(drawn.contains("sent/s") && drawn.contains("jobs"), "{drawn}");
    let ring = &looks[2]["tables"];
    if place.store().is_none() {
        assert_eq!(ring, &Json::Null);
        assert!(!drawn.contains("the slice"), "{drawn}");
        return;
    }
    let phases: Vec<_> = ring["tables"]
        .as_array()
        .unwrap()
        .iter()
        .map(|table| &table["phase"])
        .collect();
    assert!(phases.contains(&&"open".into()), "{ring}");
    for said in ["● open", "the next table opens in 5 h"] {
        assert!(drawn.contains(said), "{said}: {drawn}");
    }
    let shown = queue(place, &["tables"]).done();
    assert!(shown.contains("the next table opens in 5 h"), "{shown}");
    let server = Server::start(place.path(), &["--store", &place.store().unwrap()]);
    let line = ["watch", "--count", "1", "--store", &server.url];
    let served = queue(place, &line).done();
    assert!(
        served.contains("● open") && served.contains("the next table opens in"),
        "{served}"
    );
    // After the rotation interval, the next table cannot open, because messages keep all other
    // tables in use.
    queue(
        place,
        &[
            "tables",
            "--rotation",
            "10s",
            "--tables",
            "2",
            "--grace",
            "24h",
            "--store",
            &server.url,
        ],
    )
    .done();
    let is_short = || {
        queue(place, &line)
            .done()
            .contains("blocked: no table of message bodies is free")
    };
    let begun = std::time::Instant::now();
    while !is_short() {
        assert!(begun.elapsed() < std::time::Duration::from_secs(90), "it goes on");
        queue(place, &["send", "jobs", "c", "--store", &server.url]).done();
    }
    let short = json(
        &queue(
            place,
            &["watch", "--count", "1", "--json", "--store", &server.url],
        )
        .done(),
    );
    assert!(
        short["tables"]["obstacle"]
            .as_str()
            .unwrap()
            .contains("no table of message bodies is free"),
        "{short}"
    );
}

/// Checks that messages expire only after `confirm-clock`, if the store was closed for more than a
/// day and a tenth of the retention. Until then, the clock could be wrong.
#[test]
fn confirms_the_clock_of_an_embedded_store() {
    let place = &Place::embedded();
    let ten_days_ago = Environment::system().now_micros() - 10 * 86_400_000_000;
    let environment = Environment::seeded(1, ten_days_ago);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let options = OpenOptions::new().create().environment(environment);
        let recto = Recto::open_with(place.path().join("recto.data"), options)
            .await
            .unwrap();
        let options = QueueOptions {
            retention_seconds: Some(86_400),
            ..QueueOptions::default()
        };
        let jobs = recto
            .queues()
            .await
            .unwrap()
            .create("jobs", options)
            .await
            .unwrap();
        for body in ["a", "b"] {
            jobs.send(NewMessage::new(body)).await.unwrap();
        }
        recto.close().await.unwrap();
    });
    let noted = place.run(&["check"], b"").done();
    assert!(
        noted.contains("10 days ahead of the time that the store recorded"),
        "{noted}"
    );
    let received = queue(place, &["receive", "jobs", "--ack", "--json"]).done();
    assert_eq!(bodies(&lines(&received)), ["a"]);
    let server = Server::start(place.path(), &[]);
    queue(place, &["confirm-clock", "--store", &server.url]).failed(2, "direct access to the store");
    drop(server);
    let said = queue(place, &["confirm-clock"]).done();
    assert!(said.contains("the clock is confirmed: 20"), "{said}");
    assert!(!place.run(&["check"], b"").done().contains("ahead of"));
    assert_eq!(queue(place, &["receive", "jobs", "--json"]).done(), "");
    assert_eq!(amount(place, "jobs").0, 0);
}

#[test]
fn confirms_no_clock_on_cassandra() {
    let place = &Place::on_cassandra();
    queue(place, &["create", "jobs"]).done();
    queue(place, &["confirm-clock"]).failed(2, "only the clock of an embedded store");
}

/// Checks that the results of input lines are reported in the order of the lines, even if some are
/// invalid.
fn lines_are_told_of_in_their_order(place: &Place) {
    queue(place, &["create", "jobs"]).done();
    let mut input = Vec::new();
    let too_long = vec![b'x'; (8 << 20) + 1];
    for line in [
        &b"{\"body\": \"one\"}"[..],
        b"{\"body\": \"tw\xff\"}",
        b"{\"body\": \"three\"}\r",
        &too_long,
        b"{\"body_base64\": \"a\"}",
        b"{\"body\": 6}",
        b"{\"body\": \"seven\", \"body_base64\": \"\"}",
        b"",
        b"{\"body\": \"nine\"}",
    ] {
        input.extend(line);
        input.push(b'\n');
    }
    let sent = queue_with(place, &["send", "jobs", "--ndjson", "--json"], &input);
    let told: Vec<(u64, bool)> = lines(&sent.out)
        .iter()
        .map(|told| (told["line"].as_u64().unwrap(), told["error"].is_null()))
        .collect();
    let expected = [
        (1, true),
        (2, false),
        (3, true),
        (4, false),
        (5, false),
        (6, false),
        (7, false),
        (9, true),
    ];
    assert_eq!(told, expected, "{}", sent.out);
    for said in [
        "more than 8 MiB",
        "not base64",
        "unicode",
        "3 messages sent",
        "5 not sent",
    ] {
        assert!(sent.err.contains(said), "{said}: {}", sent.err);
    }
    assert_eq!((sent.code, amount(place, "jobs").0), (4, 3));

    let nothing = queue_with(place, &["send", "jobs", "--ndjson"], b"");
    assert!(nothing.err.contains("0 messages sent"), "{}", nothing.err);
    nothing.done();
    // If reading the input fails, the output reports how many messages were sent before.
    let folder = place.path().to_str().unwrap();
    queue(place, &["send", "jobs", "--file", folder]).failed(1, "no line was sent");
    queue(place, &["send", "jobs", "--file", "none.ndjson"]).failed(3, "none.ndjson");
    assert_eq!(amount(place, "jobs").0, 3);
}

#[test]
fn receives_and_acknowledges_in_one_pipe() {
    let place = &Place::embedded();
    queue(place, &["create", "jobs"]).done();
    queue(place, &["send", "jobs", "one", "two", "three"]).done();
    for _ in 0..3 {
        let mut receive = place.command();
        receive.args(["queue", "receive", "jobs", "--json"]);
        let mut receive = receive.stdout(Stdio::piped()).spawn().unwrap();
        let mut ack = place.command();
        ack.args(["queue", "ack", "jobs"])
            .stdin(receive.stdout.take().unwrap());
        let ack = ack.output().unwrap();
        assert!(receive.wait().unwrap().success());
        let (out, err) = (
            String::from_utf8(ack.stdout).unwrap(),
            String::from_utf8(ack.stderr).unwrap(),
        );
        assert!(
            ack.status.success() && out.contains("1 message acknowledged"),
            "{out} {err}"
        );
        assert_eq!(err, "");
    }
    assert_eq!(amount(place, "jobs").0, 0);
}

#[test]
fn names_malformed_receipts_and_acknowledges_the_others() {
    let place = &Place::embedded();
    queue(place, &["create", "jobs"]).done();
    queue(place, &["send", "jobs", "one", "two"]).done();
    let received = lines(&queue(place, &["receive", "jobs", "--max", "2", "--json"]).done());
    let receipts: Vec<_> = received
        .iter()
        .map(|one| one["receipt"].as_str().unwrap())
        .collect();
    let input = format!("{}\ngarbage\n{{}}\n{}\n", receipts[0], receipts[1]);
    let ran = queue_with(place, &["ack", "jobs", "--json"], input.as_bytes());
    assert!(ran.err.contains("line 2: this is not a receipt"), "{}", ran.err);
    assert!(ran.err.contains("line 3: no member `receipt`"), "{}", ran.err);
    assert_eq!(ran.code, 4);
    let told = json(&ran.out);
    assert_eq!(
        (&told["done"], told["malformed"].as_array().unwrap().len()),
        (&2.into(), 2)
    );
    assert_eq!(amount(place, "jobs").0, 0);
}

/// Starts `recto queue send` with pipes, so that the test can write its input.
fn sender(place: &Place) -> Child {
    let mut command = place.command();
    command.args(["queue", "send", "jobs", "--json"]);
    let command = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Checks that the command stops when the reader closes its output. The command reports the
/// messages that it sent, and that it did not send later lines.
#[test]
fn reports_progress_if_the_output_is_closed() {
    let place = &Place::embedded();
    queue(place, &["create", "jobs"]).done();
    let mut child = sender(place);
    drop(child.stdout.take());
    let mut input = child.stdin.take().unwrap();
    writeln!(input, "one").unwrap();
    let output = child.wait_with_output();
    drop(input);
    let said = Ran::of(&output.unwrap()).failed(1, "cannot print the outcomes of messages");
    assert!(
        said.contains("1 message sent") && said.contains("lines after 1 were not sent"),
        "{said}"
    );
    assert_eq!(amount(place, "jobs").0, 1);
}

#[test]
fn the_guides_commands_do_what_it_says() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/book/queues.md");
    let page = std::fs::read_to_string(page).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_recto")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let (mut out, mut checked) = (String::new(), 0);
    for block in blocks(&page) {
        if block.language == "text" {
            let (shown, found) = (block.text, &out);
            assert!(
                is_shown(shown, found),
                "the guide shows\n{shown}and it is\n{found}"
            );
            checked += 1;
            continue;
        }
        if block.language == "toml" {
            std::fs::write(folder.path().join("recto.toml"), block.text).unwrap();
            continue;
        }
        assert_eq!(block.language, "sh");
        let script = format!("set -euo pipefail\n{}", block.text);
        let mut shell = Command::new("bash");
        shell.args(["-c", &script]).current_dir(folder.path());
        out = Ran::of(
            &shell
                .env("PATH", &path)
                .env_remove("RECTO_STORE")
                .output()
                .unwrap(),
        )
        .done();
    }
    assert!(checked >= 5, "{checked}");
}

#[cfg(unix)]
#[test]
fn sends_lines_at_once_and_reports_progress_on_sigint() {
    let place = &Place::embedded();
    queue(place, &["create", "jobs"]).done();
    let mut child = sender(place);
    let mut input = child.stdin.take().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    for number in 1..=2 {
        writeln!(input, "{number}").unwrap();
        // The command prints the result of each line at once, although its input stays open.
        let mut said = String::new();
        out.read_line(&mut said).unwrap();
        assert_eq!(json(&said)["line"], number);
    }
    let id = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-s", "INT", &id])
            .status()
            .unwrap()
            .success()
    );
    let ran = Ran::of(&child.wait_with_output().unwrap());
    ran.failed(130, "lines after 2 were not sent");
    assert_eq!(amount(place, "jobs").0, 2);
}

fn work_units_are_queues_that_end(place: &Place) {
    queue(place, &["create", "jobs"]).done();
    let none = queue(place, &["unit", "list", "jobs"]).done();
    assert!(none.contains("jobs has no work units"), "{none}");
    let begun = queue(place, &["unit", "begin", "jobs", "night"]).done();
    assert!(begun.contains("work unit jobs/night has begun"), "{begun}");
    queue(place, &["unit", "begin", "none", "night"]).failed(3, "there is no queue none");
    queue(place, &["unit", "begin", "jobs", "no name"]).failed(2, "is not a valid name");

    // Commands for queues also accept the name of a work unit (temporary queue).
    let unit = "jobs/night";
    queue(place, &["send", unit, "one", "two", "three", "four"]).done();
    assert_eq!((amount(place, unit), amount(place, "jobs")), ((4, 0), (0, 0)));
    let peeked = json(&queue(place, &["peek", unit, "--json"]).done());
    let position = peeked["messages"][3]["position"].as_str().unwrap();
    queue(place, &["remove", unit, position]).done();
    let received = lines(&queue(place, &["receive", unit, "--json"]).done());
    let receipt = received[0]["receipt"].as_str().unwrap();
    queue(place, &["extend", unit, receipt, "--visibility", "1h"]).done();
    queue(place, &["nack", unit, receipt]).done();
    queue(place, &["receive", unit, "--ack"]).done();
    assert_eq!(amount(place, unit).0, 2);
    queue(place, &["redrive", unit, "--to", "jobs", "--max", "1"]).done();
    let worked = queue(place, &["work", "jobs/night", "--until-empty", "--", "cat"]);
    assert_eq!(worked.code, 0, "{}", worked.err);
    assert_eq!((amount(place, unit).0, amount(place, "jobs").0), (0, 1));
    queue(place, &["send", unit, "left"]).done();
    let watched = queue(place, &["watch", unit, "--count", "1", "--json"]).done();
    assert!(watched.contains(unit), "{watched}");
    queue(place, &["change", unit, "--visibility", "1m"]).failed(2, "work unit");

    let listed = json(&queue(place, &["unit", "list", "jobs", "--json"]).done());
    assert_eq!(
        (&listed["units"][0]["name"], &listed["units"][0]["messages"]),
        (&unit.into(), &1.into())
    );
    queue(place, &["unit", "end", "jobs", "night"]).failed(2, "recto queue unit end jobs night --yes");
    queue(place, &["unit", "end", "jobs", "night", "--yes"]).done();
    queue(place, &["describe", unit]).failed(3, "there is no work unit jobs/night");
    queue(place, &["unit", "end", "jobs", "night", "--yes"]).failed(3, "no work unit night");
    assert_eq!(amount(place, "jobs").0, 1);
}

#[test]
fn an_embedded_store_needs_no_ring() {
    let place = &Place::embedded();
    queue(place, &["create", "jobs"]).done();
    let drawn = queue(place, &["tables"]).done();
    assert!(
        drawn.contains("needs no queue tables") && drawn.contains("4 work units"),
        "{drawn}"
    );
    queue(place, &["tables", "--rotation-seconds", "9"]).failed(2, "`rotation_seconds`");
    let changed = queue(place, &["tables", "--units", "1", "--rotation", "1h"]).done();
    assert!(changed.contains("1 work unit can exist"), "{changed}");
    let ring = json(&queue(place, &["tables", "--json"]).done());
    assert_eq!(
        (&ring["needed"], &ring["tables"]),
        (&false.into(), &Json::Array(Vec::new()))
    );
    assert_eq!(
        (&ring["options"]["units"], &ring["options"]["rotation_seconds"]),
        (&1.into(), &3600.into())
    );
    queue(place, &["unit", "begin", "jobs", "one"]).done();
    queue(place, &["unit", "begin", "jobs", "two"]).failed(2, "the maximum number of work units");
}

fn a_schema_file_says_what_holds_for_all_queues(place: &Place) {
    std::fs::write(
        place.path().join("recto.toml"),
        "[queues]\nrotation_seconds = 60\nunits = 5\n",
    )
    .unwrap();
    let plan = json(&place.run(&["plan", "--json"], b"").done());
    let changes = plan["changes"].as_array().unwrap();
    assert!(
        changes[1]
            .as_str()
            .unwrap()
            .starts_with("queues: rotation_seconds from 21600 to 60")
    );
    assert_eq!(changes[2], "queues: units from 4 to 5");
    let statements = plan["statements"].to_string();
    assert!(statements.contains("recto_queue_log"), "{statements}");

    assert!(
        place
            .run(&["apply", "--yes"], b"")
            .done()
            .contains("• queues: units from 4 to 5\n")
    );
    let ring = json(&queue(place, &["tables", "--json"]).done());
    assert_eq!(
        (&ring["options"]["rotation_seconds"], &ring["options"]["units"]),
        (&60.into(), &5.into())
    );
    queue(place, &["tables", "--units", "6"]).done();
    let toml = place.run(&["describe", "--toml"], b"").done();
    assert_eq!(
        toml,
        "[queues]\nrotation_seconds = 60\ngrace_seconds = 300\ntables = 4\nunits = 6\n"
    );
    let plan = place.run(&["plan"], b"").done();
    assert!(plan.contains("• queues: units from 6 to 5\n"), "{plan}");

    std::fs::write(place.path().join("recto.toml"), "[queues]\nslices = 60\n").unwrap();
    place
        .run(&["plan"], b"")
        .failed(2, "recto.toml:2:1: unknown key `slices` in [queues]");
    std::fs::write(place.path().join("recto.toml"), "[queues]\ntables = 1\n").unwrap();
    place
        .run(&["apply", "--yes"], b"")
        .failed(2, "the schema cannot be applied");
}
