//! Recto from programs without async, and what is said where its futures cannot run.

use std::time::Duration;

use futures::FutureExt as _;
use recto::queues::{Message, NewMessage, QueueOptions, Receive, Settled};
use recto::{ErrorKind, OpenOptions, Record, Recto, blocking};

use crate::common::children::path_of;

#[derive(Debug, Clone, PartialEq, Record)]
#[record(collection = "notes", key = ["list", "id"], partition = ["list"], order = ["id"], writes = "overwrite")]
struct Note {
    list: String,
    id: i32,
    text: Option<String>,
}

fn note(id: i32) -> Note {
    Note {
        list: "l".into(),
        id,
        text: Some(format!("note {id}")),
    }
}

fn store(folder: &std::path::Path) -> (blocking::Recto, blocking::Collection<Note>) {
    let store = blocking::Recto::open_with(folder.join("notes"), OpenOptions::new().create()).unwrap();
    store.apply(&recto::schema_of([Note::collection()])).unwrap();
    let notes = store.collection().unwrap();
    (store, notes)
}

#[test]
fn everything_is_done_when_a_blocking_call_returns() {
    let folder = tempfile::tempdir().unwrap();
    let (store, notes) = store(folder.path());
    notes.put_all(&(0..95).map(note).collect::<Vec<_>>()).unwrap();
    let mut batch = store.batch();
    batch.put(&notes, &note(95)).unwrap();
    batch.delete(&notes, ("l", 0)).unwrap();
    batch.commit().unwrap();
    assert_eq!(notes.get(("l", 95)).unwrap(), Some(note(95)));
    assert_eq!(notes.get(("l", 0)).unwrap(), None);

    let query = notes.query().filter("list = \"l\"");
    let page = query.clone().last(2).fetch().unwrap();
    assert_eq!(page.items(), [note(94), note(95)]);
    let before = query.clone().last(2).before(page.previous_cursor().unwrap());
    assert_eq!(before.fetch().unwrap().items(), [note(92), note(93)]);

    let rows: Vec<Note> = query
        .page_size(10)
        .rows()
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(rows, (1..96).map(note).collect::<Vec<_>>());
    let mut scanned: Vec<Note> = Vec::new();
    for part in notes.scan().unwrap() {
        scanned.extend(part.unwrap().items);
    }
    scanned.sort_by_key(|note| note.id);
    assert_eq!(scanned, rows);
    store.close().unwrap();
    assert_eq!(notes.get(("l", 1)).unwrap_err().kind(), ErrorKind::Unavailable);
}

#[test]
fn a_queue_is_sent_to_worked_on_and_emptied() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = store(folder.path());
    let queues = store.queues().unwrap();
    let jobs = queues.create("jobs", QueueOptions::default()).unwrap();
    assert_eq!(queues.list().unwrap()[0].name(), "jobs");
    let sent = jobs.send_all((0..20).map(|job| NewMessage::new(job.to_string())).collect());
    assert!(sent.unwrap().iter().all(Result::is_ok));
    let received = jobs.receive(Receive::up_to(3)).unwrap();
    let receipts: Vec<_> = received.iter().map(|message| message.receipt).collect();
    assert_eq!(
        jobs.extend(&receipts[..1], Duration::from_secs(60)).unwrap(),
        [Settled::Done]
    );
    assert_eq!(
        jobs.nack(&receipts[..1], Duration::ZERO, "later").unwrap(),
        [Settled::Done]
    );
    assert_eq!(jobs.give_back(&receipts[1..2]).unwrap(), [Settled::Done]);
    assert_eq!(jobs.ack(&receipts[2..]).unwrap(), [Settled::Done]);

    // A handler that blocks and one that panics are no hindrance to the others.
    let (tell, told) = std::sync::mpsc::channel();
    let handler = move |message: Message| {
        std::thread::sleep(Duration::from_millis(20));
        let body = String::from_utf8(message.body).unwrap();
        assert!(body != "7" || message.attempts > 1, "the first time");
        tell.send(body).unwrap();
        Ok(())
    };
    let brief = Duration::from_millis(10);
    let worked = queues.get("jobs").unwrap();
    let worked = worked.work(handler, |worker| {
        worker.concurrency(4).backoff(brief, brief).until_empty()
    });
    let worked = worked.unwrap();
    assert!(
        (18..=19).contains(&worked.done) && worked.failed == 1,
        "{worked:?}"
    );
    let mut bodies: Vec<_> = told.iter().collect();
    if worked.done == 18 {
        // Nothing was to be received just then.
        std::thread::sleep(brief);
        let last = jobs
            .receive(Receive::up_to(1).wait(Duration::from_secs(5)))
            .unwrap();
        bodies.extend(
            last.iter()
                .map(|message| String::from_utf8(message.body.clone()).unwrap()),
        );
        jobs.ack(&[last[0].receipt]).unwrap();
    }
    bodies.sort_by_key(|body| body.parse::<u32>().unwrap());
    let acked = String::from_utf8(received[2].body.clone()).unwrap();
    let left = (0..20).map(|job| job.to_string()).filter(|job| *job != acked);
    assert_eq!(bodies, left.collect::<Vec<_>>());
    assert_eq!(jobs.stats().unwrap().messages, 0);
    queues.delete("jobs").unwrap();
    assert_eq!(queues.get("jobs").unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn blocking_calls_may_be_made_in_a_runtime() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let (_store, notes) = store(folder.path());
        notes.put(&note(1)).unwrap();
        assert_eq!(notes.get(("l", 1)).unwrap(), Some(note(1)));
    });
}

#[test]
fn a_runtime_that_is_missing_or_has_no_timers_is_an_error_that_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let open = || Recto::open_with(folder.path().join("notes"), OpenOptions::new().create());
    let timeless = tokio::runtime::Builder::new_current_thread().build().unwrap();
    // Without a runtime, the first poll says so.
    let without = open().now_or_never().unwrap();
    for outcome in [without, timeless.block_on(open())] {
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
        assert!(error.hint().unwrap().contains("recto::blocking"), "{error}");
    }
    assert!(!folder.path().join("notes").exists());
}

#[test]
#[ignore = "child: started by what_tokio_would_print_of_missing_timers_is_not_printed"]
fn open_without_timers() {
    let timeless = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let error = timeless.block_on(Recto::open("no store")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
    // Other panics are told as ever.
    std::thread::spawn(|| panic!("of another")).join().unwrap_err();
}

#[test]
fn what_tokio_would_print_of_missing_timers_is_not_printed() {
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--ignored",
            "--exact",
            path_of(open_without_timers),
            "--nocapture",
        ])
        .env_remove("RUST_BACKTRACE")
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{printed}");
    assert!(
        printed.contains("of another") && !printed.contains("Tokio"),
        "{printed}"
    );
}
