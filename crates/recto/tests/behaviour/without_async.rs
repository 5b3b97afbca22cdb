//! Tests of Recto in programs without async, and of the errors if no runtime can execute its
//! futures.

use std::time::Duration;

use futures::FutureExt as _;
use recto::blocking::Wait as _;
use recto::queues::{Message, NewMessage, QueueOptions, Receive, Settled};
use recto::{Collection, ErrorKind, OpenOptions, Page, Record, Recto};

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

fn store(folder: &std::path::Path) -> (Recto, Collection<Note>) {
    let store = Recto::open_with(folder.join("notes"), OpenOptions::new().create())
        .wait()
        .unwrap();
    store
        .apply(&recto::schema_of([Note::collection()]))
        .wait()
        .unwrap();
    let notes = store.collection().unwrap();
    (store, notes)
}

#[test]
fn everything_is_done_when_wait_returns() {
    let folder = tempfile::tempdir().unwrap();
    let (store, notes) = store(folder.path());
    notes
        .put_all(&(0..95).map(note).collect::<Vec<_>>())
        .wait()
        .unwrap();
    let mut batch = store.batch();
    batch.put(&notes, &note(95)).unwrap();
    batch.delete(&notes, ("l", 0)).unwrap();
    batch.commit().wait().unwrap();
    assert_eq!(notes.get(("l", 95)).wait().unwrap(), Some(note(95)));
    assert_eq!(notes.get(("l", 0)).wait().unwrap(), None);

    let query = notes.query().filter("list = \"l\"");
    let page = query.clone().last(2).wait().unwrap();
    assert_eq!(page.items(), [note(94), note(95)]);
    let before = query.clone().last(2).before(page.previous_cursor().unwrap());
    assert_eq!(before.wait().unwrap().items(), [note(92), note(93)]);

    let query = query.page_size(10);
    let rows: Vec<Note> = query.clone().stream().wait().collect::<Result<_, _>>().unwrap();
    assert_eq!(rows, (1..96).map(note).collect::<Vec<_>>());
    let pages: Vec<Page<Note>> = query.pages().wait().collect::<Result<_, _>>().unwrap();
    assert_eq!(
        pages.iter().map(Page::len).collect::<Vec<_>>(),
        [[10; 9].as_slice(), &[5]].concat()
    );
    let mut scanned: Vec<Note> = Vec::new();
    for part in notes.scan().parts().wait() {
        scanned.extend(part.unwrap().items);
    }
    scanned.sort_by_key(|note| note.id);
    assert_eq!(scanned, rows);
    store.close().wait().unwrap();
    assert_eq!(
        notes.get(("l", 1)).wait().unwrap_err().kind(),
        ErrorKind::Unavailable
    );
}

#[test]
fn a_queue_is_sent_to_worked_on_and_emptied() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = store(folder.path());
    let queues = store.queues().wait().unwrap();
    let jobs = queues.create("jobs", QueueOptions::default()).wait().unwrap();
    let messages = (0..20).map(|job| NewMessage::new(job.to_string())).collect();
    assert!(jobs.send_all(messages).wait().unwrap().iter().all(Result::is_ok));
    let received = jobs.receive(Receive::up_to(1)).wait().unwrap();
    assert_eq!(jobs.ack(&[received[0].receipt]).wait().unwrap(), [Settled::Done]);

    // A handler that blocks, and a handler that panics, must not stop the other handlers.
    let (tell, told) = std::sync::mpsc::channel();
    let handler = move |message: Message| {
        std::thread::sleep(Duration::from_millis(20));
        let body = String::from_utf8(message.body).unwrap();
        assert!(body != "7" || message.attempts > 1, "the first time");
        tell.send(body).unwrap();
        Ok(())
    };
    let brief = Duration::from_millis(10);
    let worker = jobs.blocking_worker(handler).concurrency(4).backoff(brief, brief);
    let worked = worker.until_empty().run().wait().unwrap();
    assert!(
        (18..=19).contains(&worked.done) && worked.failed == 1,
        "{worked:?}"
    );
    let mut bodies: Vec<_> = told.iter().collect();
    if worked.done == 18 {
        // The worker ended before the message whose handler panicked was due again, so receive that
        // message now.
        let receive = Receive::up_to(1).wait(Duration::from_secs(5));
        let last = jobs.receive(receive).wait().unwrap();
        bodies.push(String::from_utf8(last[0].body.clone()).unwrap());
        jobs.ack(&[last[0].receipt]).wait().unwrap();
    }
    bodies.sort_by_key(|body| body.parse::<u32>().unwrap());
    let acked = String::from_utf8(received[0].body.clone()).unwrap();
    let left = (0..20).map(|job| job.to_string()).filter(|job| *job != acked);
    assert_eq!(bodies, left.collect::<Vec<_>>());
    assert_eq!(jobs.stats().wait().unwrap().messages, 0);
}

#[test]
fn waiting_in_async_code_is_an_error_and_beside_it_works() {
    let folder = tempfile::tempdir().unwrap();
    let (_store, notes) = store(folder.path());
    notes.put(&note(1)).wait().unwrap();
    for mut builder in [
        tokio::runtime::Builder::new_current_thread(),
        tokio::runtime::Builder::new_multi_thread(),
    ] {
        let notes = notes.clone();
        let runtime = builder.worker_threads(1).build().unwrap();
        runtime.block_on(async {
            let inside = tokio::spawn({
                let notes = notes.clone();
                async move {
                    [
                        notes.get(("l", 1)).wait().map(|_| ()),
                        notes.scan().stream().wait().try_for_each(|note| note.map(|_| ())),
                    ]
                }
            });
            for outcome in inside.await.unwrap() {
                let error = outcome.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
                assert!(error.hint().unwrap().contains(".await"), "{error}");
            }
            let beside = tokio::task::spawn_blocking(move || notes.get(("l", 1)).wait());
            assert_eq!(beside.await.unwrap().unwrap(), Some(note(1)));
        });
    }
}

#[test]
fn rejects_a_runtime_that_is_missing_or_has_no_timers() {
    let folder = tempfile::tempdir().unwrap();
    let open = || Recto::open_with(folder.path().join("notes"), OpenOptions::new().create());
    let timeless = tokio::runtime::Builder::new_current_thread().build().unwrap();
    // Without a runtime, the first poll must report the error.
    let without = open().now_or_never().unwrap();
    for outcome in [without, timeless.block_on(open())] {
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
        assert!(error.hint().unwrap().contains("recto::blocking"), "{error}");
    }
    assert!(!folder.path().join("notes").exists());
}

#[test]
#[ignore = "child: started by suppresses_the_tokio_panic_on_missing_timers"]
fn open_without_timers() {
    let timeless = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let error = timeless.block_on(Recto::open("no store")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
    // Recto suppresses only the panic message of tokio about timers. Other panics must still be
    // printed.
    std::thread::spawn(|| panic!("of another")).join().unwrap_err();
}

#[test]
fn suppresses_the_tokio_panic_on_missing_timers() {
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
