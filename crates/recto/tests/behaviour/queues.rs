//! Tests of queues through the Rust API and through sessions.

use std::time::Duration;

use crate::common::{Fresh, Kind};
use recto::queues::{
    DeadLetters, ERROR_ATTRIBUTE, NewMessage, Queue, QueueName, QueueOptions, Receive, Sent, Settled,
    TablePhase,
};
use recto::session::{
    DeadLetterSettings, OutgoingMessage, QueueSettings, QueueTable, QueueTableSettings, REDRIVE_TIME,
    ReceiveRequest, Settling, body_bytes,
};
use recto::{ErrorKind, OpenOptions, Recto, Session, StoreAddress, schema::Schema};

/// Defines a test for each given function on each kind of store.
macro_rules! on_both {
    ($($name:ident),+ $(,)?) => {
        static TESTS: crate::common::Suite = crate::common::Suite::new(module_path!(), 2 * [$(stringify!($name)),+].len());

        mod embedded {
            $(#[test]
            fn $name() {
                let _scope = crate::common::Scope::new(&super::TESTS);
                crate::common::run(super::$name(super::Kind::Embedded));
            })+
        }

        mod cassandra {
            $(#[test]
            fn $name() {
                let _scope = crate::common::Scope::new(&super::TESTS);
                crate::common::run(super::$name(super::Kind::Cassandra));
            })+
        }
    };
}

on_both! {
    keeps_unacknowledged_messages_after_reopening,
    a_deleted_queue_is_gone_for_its_handles_and_its_name_is_free,
    options_change_under_whoever_uses_them,
    reports_errors_by_message_and_field,
    tools_do_the_same_in_words,
    merges_concurrent_changes_of_different_options,
    messages_are_moved_within_one_store_only,
    a_work_unit_is_a_queue_that_ends,
    the_ring_is_told_and_changed_in_words,
    a_schema_says_what_holds_for_all_queues,
    a_schema_that_was_applied_in_part_is_applied_again,
    needs_few_requests_for_one_operation,
    those_who_open_queues_at_once_have_the_same,
    a_redrive_ends_in_time_and_the_next_one_goes_on,
}

async fn session(store: &Fresh) -> std::sync::Arc<dyn Session> {
    recto::open(&store.address, OpenOptions::new().create())
        .await
        .unwrap()
}

async fn keeps_unacknowledged_messages_after_reopening(kind: Kind) {
    let store = Fresh::new(kind);
    let recto = store.open().await;
    let queues = recto.queues().await.unwrap();
    let jobs = queues.create("jobs", QueueOptions::default()).await.unwrap();
    for body in ["a", "b", "c"] {
        jobs.send(NewMessage::new(body)).await.unwrap();
    }
    let received = jobs.receive(Receive::up_to(1)).await.unwrap();
    assert_eq!(jobs.ack(&[received[0].receipt]).await.unwrap(), [Settled::Done]);
    recto.close().await.unwrap();
    drop((jobs, queues, recto));
    let again = store.open().await;
    let jobs = again.queues().await.unwrap().get("jobs").await.unwrap();
    let received = jobs.receive(Receive::up_to(10)).await.unwrap();
    let bodies: Vec<_> = received.iter().map(|message| message.body.as_slice()).collect();
    assert_eq!(bodies, [b"b", b"c"]);
}

async fn a_deleted_queue_is_gone_for_its_handles_and_its_name_is_free(kind: Kind) {
    let store = Fresh::new(kind);
    let queues = store.open().await.queues().await.unwrap();
    let old = queues.create("jobs", QueueOptions::default()).await.unwrap();
    old.send(NewMessage::new("old")).await.unwrap();
    queues.delete("jobs").await.unwrap();
    let new = queues.create("jobs", QueueOptions::default()).await.unwrap();
    let late = old.send(NewMessage::new("late")).await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::NotFound);
    assert_eq!(new.stats().await.unwrap().messages, 0);
    let again = queues.delete("nothing").await.unwrap_err();
    assert_eq!(again.kind(), ErrorKind::NotFound);
}

async fn options_change_under_whoever_uses_them(kind: Kind) {
    let store = Fresh::new(kind);
    let queues = store.open().await.queues().await.unwrap();
    queues.create("dead", QueueOptions::default()).await.unwrap();
    let mut jobs = queues.create("jobs", QueueOptions::default()).await.unwrap();
    let mut other = queues.get("jobs").await.unwrap();
    let once = QueueOptions {
        dead_letters: Some(DeadLetters {
            queue: QueueName::new("queue", "dead").unwrap(),
            attempts: 1,
        }),
        ..QueueOptions::default()
    };
    jobs.change(once.clone()).await.unwrap();
    assert_eq!(jobs.options().dead_letters, once.dead_letters);
    let late = other.change(QueueOptions::default()).await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Changed);
    jobs.send(NewMessage::new("bad")).await.unwrap();
    let received = other.receive(Receive::up_to(1)).await.unwrap();
    jobs.nack(&[received[0].receipt], Duration::ZERO, "no disk")
        .await
        .unwrap();
    let dead = queues
        .get("dead")
        .await
        .unwrap()
        .receive(Receive::up_to(1))
        .await
        .unwrap();
    assert_eq!(dead[0].attributes[ERROR_ATTRIBUTE], "no disk");
    let needed = queues.delete("dead").await.unwrap_err();
    assert_eq!(needed.kind(), ErrorKind::Conflict);
}

async fn reports_errors_by_message_and_field(kind: Kind) {
    let store = Fresh::new(kind);
    let queues = store.open().await.queues().await.unwrap();
    let jobs = queues.create("jobs", QueueOptions::default()).await.unwrap();
    let wrong = NewMessage {
        group: Some(String::new()),
        ..NewMessage::new("x")
    };
    let results = jobs
        .send_all(vec![NewMessage::new("a"), wrong, NewMessage::new("b")])
        .await;
    assert!(matches!(results[0], Ok(Sent::New(_))) && matches!(results[2], Ok(Sent::New(_))));
    let error = results[1].as_ref().unwrap_err();
    assert_eq!((error.change(), error.field()), (Some(1), Some("group")));
    let error = queues
        .create("no name", QueueOptions::default())
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.field()),
        (ErrorKind::InvalidArgument, Some("name"))
    );
    assert!(error.hint().is_some());
    let other = QueueOptions {
        visibility_seconds: 31,
        ..QueueOptions::default()
    };
    let error = queues.create("jobs", other).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
}

async fn tools_do_the_same_in_words(kind: Kind) {
    let store = Fresh::new(kind);
    let session = session(&store).await;
    let queues = session.queues().unwrap();
    queues
        .create_queue("dead", &QueueSettings::default())
        .await
        .unwrap();
    let settings = QueueSettings {
        dead_letters: Some(Some(DeadLetterSettings {
            queue: "dead".into(),
            attempts: 1,
        })),
        ..QueueSettings::default()
    };
    let (made, is_new) = queues.create_queue("jobs", &settings).await.unwrap();
    assert!(is_new && made.messages == 0 && made.age_seconds.is_none());
    assert!(!queues.create_queue("jobs", &settings).await.unwrap().1);

    let both = OutgoingMessage {
        body: Some("x".into()),
        body_base64: Some("eA==".into()),
        ..OutgoingMessage::default()
    };
    let messages = vec![
        OutgoingMessage::of(vec![0xff, 0]),
        both,
        OutgoingMessage::of(b"text".to_vec()),
    ];
    let sent = queues.send("jobs", messages).await.unwrap();
    assert!(sent[0].is_ok() && sent[2].is_ok());
    let error = sent[1].as_ref().unwrap_err();
    assert_eq!((error.change(), error.field()), (Some(1), Some("body_base64")));

    let request = ReceiveRequest {
        max_messages: Some(10),
        ..ReceiveRequest::default()
    };
    let received = queues.receive("jobs", &request).await.unwrap().messages;
    let body = body_bytes(received[0].body.as_deref(), received[0].body_base64.as_deref());
    assert_eq!(body.unwrap(), [0xff, 0]);
    assert_eq!(received[1].body.as_deref(), Some("text"));
    let receipts: Vec<_> = received.iter().map(|message| message.receipt.clone()).collect();
    let nack = Settling::Nack {
        delay_seconds: 0,
        error: "no disk".into(),
    };
    assert_eq!(
        queues.settle("jobs", &receipts[..1], &nack).await.unwrap(),
        [true]
    );
    let shown = ["nonsense".into(), receipts[1].clone(), String::new()];
    let settled = queues.settle("jobs", &shown, &Settling::Ack).await;
    assert_eq!(
        settled.unwrap(),
        [false, true, false],
        "each malformed receipt fails alone"
    );

    let dead = queues.peek("dead", 10).await.unwrap();
    assert_eq!((dead.len(), dead[0].state.as_str()), (1, "ready"));
    assert_eq!(dead[0].attributes[ERROR_ATTRIBUTE], "no disk");
    let redriven = queues.redrive("dead", None, None, REDRIVE_TIME).await;
    assert_eq!(redriven.unwrap().moved, 1);
    let status = queues.queue("jobs").await.unwrap();
    let totals = &status.totals;
    assert_eq!((status.messages, totals.sent, totals.acked), (1, 2, 1));
    let back = queues.peek("jobs", 10).await.unwrap();
    assert!(queues.remove_message("jobs", &back[0].position).await.unwrap());
    assert!(!queues.remove_message("jobs", &back[0].position).await.unwrap());
    queues
        .send("jobs", vec![OutgoingMessage::of(b"more".to_vec())])
        .await
        .unwrap();
    queues.purge("jobs").await.unwrap();
    assert_eq!(queues.queue("jobs").await.unwrap().messages, 0);

    let none = QueueSettings {
        dead_letters: Some(None),
        ..QueueSettings::default()
    };
    let late = queues
        .change_queue("jobs", &none, Some(made.version + 1))
        .await
        .unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Changed);
    let changed = queues
        .change_queue("jobs", &none, Some(made.version))
        .await
        .unwrap();
    assert_eq!(changed.options.dead_letters, Some(None));
    queues.delete_queue("dead").await.unwrap();
    let left = queues.queues().await.unwrap();
    assert_eq!((left.len(), left[0].name.as_str()), (1, "jobs"));
}

async fn merges_concurrent_changes_of_different_options(kind: Kind) {
    let store = Fresh::new(kind);
    let session = session(&store).await;
    let queues = session.queues().unwrap();
    queues
        .create_queue("jobs", &QueueSettings::default())
        .await
        .unwrap();
    let longer = QueueSettings {
        visibility_seconds: Some(90),
        ..QueueSettings::default()
    };
    let later = QueueSettings {
        delay_seconds: Some(3),
        ..QueueSettings::default()
    };
    let (visibility, delay) = tokio::join!(
        queues.change_queue("jobs", &longer, None),
        queues.change_queue("jobs", &later, None)
    );
    assert!(visibility.is_ok() && delay.is_ok());
    let both = queues.queue("jobs").await.unwrap().options;
    assert_eq!((both.visibility_seconds, both.delay_seconds), (Some(90), Some(3)));
}

#[tokio::test]
async fn checks_compacts_and_backs_up_messages() {
    let folder = tempfile::tempdir().unwrap();
    let address = StoreAddress::Embedded(folder.path().join("store"));
    let session = recto::open(&address, OpenOptions::new().create()).await.unwrap();
    let queues = session.queues().unwrap();
    queues
        .create_queue("jobs", &QueueSettings::default())
        .await
        .unwrap();
    for body in ["a", "b"] {
        let message = OutgoingMessage::of(body.into());
        queues.send("jobs", vec![message]).await.unwrap();
    }
    let received = queues.receive("jobs", &ReceiveRequest::default()).await.unwrap();
    let receipt = received.messages[0].receipt.clone();
    queues.settle("jobs", &[receipt], &Settling::Ack).await.unwrap();
    let tools = session.tools().unwrap();
    let checked = tools.check(&|_| {}).await.unwrap();
    assert_eq!(
        (checked.problems.len(), checked.notes.len()),
        (0, 0),
        "{checked:?}"
    );
    assert!(checked.internal_rows > 0);
    tools.compact(&|_| {}).await.unwrap();
    tools.backup(&folder.path().join("copy"), &|_| {}).await.unwrap();
    let copy = Recto::open(folder.path().join("copy")).await.unwrap();
    let jobs = copy.queues().await.unwrap().get("jobs").await.unwrap();
    let received = jobs.receive(Receive::up_to(10)).await.unwrap();
    assert_eq!(received.len(), 1);
    assert_eq!(received[0].body, b"b");
    assert_eq!(
        queues.queue("jobs").await.unwrap().messages,
        1,
        "the store goes on"
    );
}

async fn messages_are_moved_within_one_store_only(kind: Kind) {
    let (here, there) = (Fresh::new(kind).open().await, Fresh::new(kind).open().await);
    let mut queues = Vec::new();
    for recto in [&here, &there] {
        let all = recto.queues().await.unwrap();
        queues.push(all.create("jobs", QueueOptions::default()).await.unwrap());
    }
    queues[0].send(NewMessage::new("a")).await.unwrap();
    for to in &queues {
        let error = queues[0].redrive(to, None).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.field()),
            (ErrorKind::InvalidArgument, Some("to"))
        );
    }
    assert_eq!(queues[0].receive(Receive::up_to(10)).await.unwrap().len(), 1);
    queues[0].send(NewMessage::new("b")).await.unwrap();
}

async fn a_work_unit_is_a_queue_that_ends(kind: Kind) {
    let recto = Fresh::new(kind).open().await;
    let queues = recto.queues().await.unwrap();
    let options = QueueOptions {
        visibility_seconds: 77,
        ..QueueOptions::default()
    };
    let mut jobs = queues.create("jobs", options).await.unwrap();
    let night = jobs.begin_unit("night").await.unwrap();
    assert_eq!(
        (night.name(), night.options().visibility_seconds),
        ("jobs/night", 77)
    );
    night.send(NewMessage::new("a")).await.unwrap();
    let found = queues.get("jobs/night").await.unwrap();
    assert_eq!(found.receive(Receive::up_to(10)).await.unwrap()[0].body, b"a");
    assert!(jobs.receive(Receive::up_to(10)).await.unwrap().is_empty());
    assert_eq!(queues.list().await.unwrap().len(), 1);
    let units = jobs.units().await.unwrap();
    assert_eq!(units.iter().map(Queue::name).collect::<Vec<_>>(), ["jobs/night"]);

    // A unit (temporary queue) has the options of its queue, and cannot have units itself.
    jobs.change(QueueOptions::default()).await.unwrap();
    let mut night = queues.get("jobs/night").await.unwrap();
    assert_eq!(night.options().visibility_seconds, 30);
    for refused in [
        night.change(QueueOptions::default()).await.unwrap_err(),
        night.begin_unit("late").await.unwrap_err(),
        jobs.begin_unit("no name").await.unwrap_err(),
    ] {
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused:?}");
    }
    let ring = queues.tables().await.unwrap();
    assert_eq!(ring.is_needed, kind == Kind::Cassandra);
    let own = ring.tables.iter().find(|table| table.phase == TablePhase::Unit);
    let said = own.map(|table| (table.unit.as_deref(), table.bytes, table.is_exact));
    assert_eq!(said, ring.is_needed.then_some((Some("jobs/night"), 1, true)));
    jobs.send(NewMessage::new(vec![b'x'; 1_000])).await.unwrap();
    let ring = queues.tables().await.unwrap();
    let open = ring.tables.iter().find(|table| table.phase == TablePhase::Open);
    assert_eq!(open.map(|table| table.bytes), ring.is_needed.then_some(1_000));

    jobs.end_unit("night").await.unwrap();
    let late = night.send(NewMessage::new("late")).await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::NotFound);
    let again = jobs.end_unit("night").await.unwrap_err();
    assert_eq!(again.kind(), ErrorKind::NotFound);
    assert!(jobs.units().await.unwrap().is_empty());
}

async fn a_redrive_ends_in_time_and_the_next_one_goes_on(kind: Kind) {
    let store = Fresh::new(kind);
    let queues = store.open().await.queues().await.unwrap();
    let dead = queues.create("dead", QueueOptions::default()).await.unwrap();
    let jobs = queues.create("jobs", QueueOptions::default()).await.unwrap();
    let messages = (0..600).map(|job| NewMessage::new(job.to_string())).collect();
    assert!(dead.send_all(messages).await.iter().all(Result::is_ok));
    let redriven = async |most| {
        let redriven = dead.redrive_for(&jobs, most, Duration::ZERO).await.unwrap();
        (redriven.moved, redriven.is_done)
    };
    assert_eq!(redriven(None).await, (256, false));
    assert_eq!(redriven(Some(300)).await, (256, false));
    assert_eq!(redriven(Some(44)).await, (44, true));
    assert_eq!(dead.stats().await.unwrap().messages, 44);
    // Two concurrent redrives must not move a message twice, which the received bodies show. Each
    // redrive may also count messages that the other one moved.
    let (one, other) = tokio::join!(dead.redrive(&jobs, None), dead.redrive(&jobs, None));
    assert!((44..=88).contains(&(one.unwrap() + other.unwrap())));
    assert_eq!(redriven(None).await, (0, true));
    let mut received = jobs.receive(Receive::up_to(1_000)).await.unwrap();
    received.sort_by_key(|message| String::from_utf8_lossy(&message.body).parse::<u32>().unwrap());
    let bodies: Vec<_> = received
        .iter()
        .map(|message| String::from_utf8_lossy(&message.body))
        .collect();
    assert!(
        bodies
            .iter()
            .enumerate()
            .all(|(job, body)| job.to_string() == **body)
    );
    assert_eq!(bodies.len(), 600);
}

async fn the_ring_is_told_and_changed_in_words(kind: Kind) {
    let store = Fresh::new(kind);
    let session = session(&store).await;
    let queues = session.queues().unwrap();
    let ring = queues.tables().await.unwrap();
    let whole = QueueTableSettings {
        rotation_seconds: Some(21_600),
        grace_seconds: Some(300),
        tables: Some(4),
        units: Some(4),
    };
    assert_eq!((ring.needed, ring.options), (kind == Kind::Cassandra, whole));
    // No queue exists yet, and reading the state must create no tables.
    assert_eq!(ring.tables, []);

    let units = |units| QueueTableSettings {
        units: Some(units),
        ..QueueTableSettings::default()
    };
    let changed = queues.change_tables(&units(2)).await.unwrap();
    let is_open = |table: &&QueueTable| table.phase == "open";
    let open: Vec<_> = changed.tables.iter().filter(is_open).collect();
    assert_eq!(open.len(), usize::from(changed.needed), "{open:?}");
    assert!(
        open.iter()
            .all(|table| table.age_seconds.is_some_and(|age| age < 60.0))
    );
    let expected = QueueTableSettings {
        units: Some(2),
        ..whole
    };
    assert_eq!(
        (&changed.options, &queues.tables().await.unwrap().options),
        (&expected, &expected)
    );
    // Two concurrent changes of different settings must both take effect.
    let longer = QueueTableSettings {
        grace_seconds: Some(400),
        ..QueueTableSettings::default()
    };
    let fewer = units(1);
    let (margin, few) = tokio::join!(queues.change_tables(&longer), queues.change_tables(&fewer));
    assert!(margin.is_ok() && few.is_ok());
    let expected = QueueTableSettings {
        units: Some(1),
        grace_seconds: Some(400),
        ..whole
    };
    assert_eq!(queues.tables().await.unwrap().options, expected);
    let short = QueueTableSettings {
        rotation_seconds: Some(9),
        ..QueueTableSettings::default()
    };
    for (wrong, field) in [
        (short, "rotation_seconds"),
        (units(300), "units"),
        (units(45), "units"),
    ] {
        let error = queues.change_tables(&wrong).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.field()),
            (ErrorKind::InvalidArgument, Some(field))
        );
    }

    queues
        .create_queue("jobs", &QueueSettings::default())
        .await
        .unwrap();
    assert_eq!(queues.begin_unit("jobs", "one").await.unwrap().name, "jobs/one");
    assert_eq!(queues.begin_unit("jobs", "one").await.unwrap().name, "jobs/one");
    let full = queues.begin_unit("jobs", "two").await.unwrap_err();
    assert_eq!(full.kind(), ErrorKind::LimitExceeded, "{full:?}");
    let message = OutgoingMessage::of(b"a".to_vec());
    queues.send("jobs/one", vec![message]).await.unwrap();
    let units = queues.units("jobs").await.unwrap();
    assert_eq!((units.len(), units[0].messages), (1, 1));
    queues.end_unit("jobs", "one").await.unwrap();
    queues.begin_unit("jobs", "two").await.unwrap();
    // Deleting a unit (temporary queue) by its name must also end it.
    queues.delete_queue("jobs/two").await.unwrap();
    assert!(queues.units("jobs").await.unwrap().is_empty());
}

fn schema(queues: &str) -> Schema {
    let text = "[collection.notes]\nfields = { id = \"int\" }\nkey = [\"id\"]\nwrites = \"overwrite\"\n";
    Schema::parse(&format!("{queues}\n{text}")).unwrap()
}

async fn a_schema_says_what_holds_for_all_queues(kind: Kind) {
    let store = Fresh::new(kind);
    let recto = store.open().await;
    recto.apply(&schema("")).await.unwrap();
    assert!(
        recto
            .store()
            .list_tables()
            .await
            .unwrap()
            .iter()
            .all(|table| !is_of_queues(table))
    );

    let said = schema("[queues]\nrotation_seconds = 60\nunits = 7");
    let plan = recto.plan(&said).await.unwrap();
    let kept = match kind {
        Kind::Embedded => "; it is stored, but has no effect in this store, which needs no queue tables",
        Kind::Cassandra => "",
    };
    assert_eq!(
        plan.changes,
        [
            format!("queues: rotation_seconds from 21600 to 60{kept}"),
            "queues: units from 4 to 7".to_owned()
        ]
    );
    let planned: Vec<_> = plan
        .statements
        .iter()
        .filter(|text| text.contains("recto_queue"))
        .collect();
    let made = recto.apply(&said).await.unwrap();
    assert_eq!(
        (made.changes, made.generation),
        (plan.changes, 1),
        "no other schema is recorded"
    );
    let tables = recto.store().list_tables().await.unwrap();
    assert_eq!(
        tables.iter().filter(|table| is_of_queues(table)).count(),
        planned.len()
    );

    // Applying the same settings again must change nothing, and neither must a schema that lacks
    // some settings.
    for again in [&said, &schema(""), &schema("[queues]\ngrace_seconds = 300")] {
        assert!(recto.plan(again).await.unwrap().changes.is_empty());
        assert!(recto.apply(again).await.unwrap().changes.is_empty());
    }
    let options = recto.queues().await.unwrap().options().await.unwrap();
    assert_eq!(
        (
            options.rotation_seconds,
            options.grace_seconds,
            options.tables,
            options.units
        ),
        (60, 300, 4, 7)
    );
    assert!(recto.schema().queues.is_empty(), "it is kept with the queues");
    recto.close().await.unwrap();

    // Other processes can read the settings without opening the queues.
    let session = session(&store).await;
    let settings = session.queues().unwrap().table_settings().await.unwrap();
    assert_eq!(settings, Some(options.settings()));
    let wrong = schema("[queues]\ntables = 42\nrotation_seconds = 60");
    let plan = session
        .tools()
        .unwrap()
        .plan(&wrong, &recto::ApplyOptions::new())
        .await
        .unwrap();
    assert_eq!(
        plan.rejected,
        ["queues: `units` is 7; the range is 0 to 6 (use a number in this range, or leave the option out)"]
    );
    for (text, place, field) in [
        ("rotation_seconds = 9", "2:20", "rotation_seconds"),
        ("units = 300", "2:9", "units"),
    ] {
        let wrong = schema(&format!("[queues]\n{text}"));
        let refused = session
            .tools()
            .unwrap()
            .apply(&wrong, &recto::ApplyOptions::new(), &|_| {})
            .await
            .unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::SchemaMismatch);
        let expected = format!("{place}: queues: `{field}` is ");
        assert!(refused.to_string().starts_with(&expected), "{refused}");
    }
}

fn is_of_queues(table: &recto_model::Table) -> bool {
    table.name().starts_with("recto_queue")
}

/// Checks that applying a schema succeeds after an earlier attempt was interrupted, at any moment.
async fn a_schema_that_was_applied_in_part_is_applied_again(kind: Kind) {
    const STEP: Duration = Duration::from_millis(25);
    let store = Fresh::new(kind);
    let said = schema("[queues]\nrotation_seconds = 60");
    let mut time = Duration::ZERO;
    loop {
        let recto = store.open().await;
        let applied = tokio::time::timeout(time, recto.apply(&said)).await;
        recto.close().await.unwrap();
        if let Ok(applied) = applied {
            applied.unwrap();
            break;
        }
        time += STEP;
    }
    let recto = store.open().await;
    assert!(recto.plan(&said).await.unwrap().changes.is_empty());
    assert_eq!(recto.generation(), 1);
    let options = recto.queues().await.unwrap().options().await.unwrap();
    assert_eq!(options.rotation_seconds, 60);
}

/// Returns the number of requests sent to Cassandra nodes since the store was opened, without
/// requests that prepare statements.
fn requests(recto: &Recto) -> u64 {
    let nodes = recto.store_metrics().nodes;
    nodes.iter().map(|node| node.requests).sum()
}

/// Opens a store, executes one operation on the queue `jobs`, and closes. Returns three numbers of
/// requests: until the store is open, until the queue is open, and in total.
async fn requests_of(store: &Fresh, does: impl AsyncFn(Queue)) -> [u64; 3] {
    let recto = store.open().await;
    let opened = requests(&recto);
    let queue = recto.queues().await.unwrap().get("jobs").await.unwrap();
    let found = requests(&recto);
    does(queue).await;
    let all = requests(&recto);
    recto.close().await.unwrap();
    [opened, found, all]
}

async fn needs_few_requests_for_one_operation(kind: Kind) {
    /// Maximum numbers of requests. Each request is a round trip, except that tables, columns and
    /// types are read in one, and so are the limits of the cluster and the versions of its nodes.
    const MOST: [u64; 3] = [13, 18, 26];
    /// Number of attempts, because on a busy machine the maintenance task of the rotating tables
    /// may send requests during the count.
    const ATTEMPTS: usize = 10;
    let store = Fresh::new(kind);
    let recto = store.open().await;
    recto.apply(&schema("")).await.unwrap();
    let queues = recto.queues().await.unwrap();
    let jobs = queues.create("jobs", QueueOptions::default()).await.unwrap();
    jobs.send(NewMessage::new("first")).await.unwrap();
    recto.close().await.unwrap();
    let fewest = |counted: Vec<[u64; 3]>| counted.into_iter().min_by_key(|counted| counted[2]).unwrap();
    let (mut sends, mut receives) = (Vec::new(), Vec::new());
    for _ in 0..ATTEMPTS {
        sends.push(
            requests_of(&store, async |jobs: Queue| {
                jobs.send(NewMessage::new("a")).await.unwrap();
            })
            .await,
        );
        receives.push(
            requests_of(&store, async |jobs: Queue| {
                let received = jobs.receive(Receive::up_to(1)).await.unwrap();
                jobs.ack(&[received[0].receipt]).await.unwrap();
            })
            .await,
        );
    }
    for counted in [fewest(sends), fewest(receives)] {
        let most = if kind == Kind::Embedded { [0; 3] } else { MOST };
        assert!((0..3).all(|step| counted[step] <= most[step]), "{counted:?}");
    }
}

/// Checks that processes that open the queues concurrently, and for the first time, use the same
/// queues.
async fn those_who_open_queues_at_once_have_the_same(kind: Kind) {
    if kind == Kind::Embedded {
        return; // only one process can open an embedded store
    }
    let store = Fresh::new(kind);
    let first = store.open().await;
    first.apply(&schema("")).await.unwrap();
    let others = [store.open().await, store.open().await, first];
    let opened = futures::future::join_all(others.iter().enumerate().map(async |(number, recto)| {
        let queues = recto.queues().await.unwrap();
        let jobs = queues.create("jobs", QueueOptions::default()).await.unwrap();
        jobs.send(NewMessage::new(number.to_string())).await.unwrap();
    }));
    opened.await;
    let jobs = others[0].queues().await.unwrap().get("jobs").await.unwrap();
    let received = jobs.receive(Receive::up_to(10)).await.unwrap();
    assert_eq!(
        received.len(),
        others.len(),
        "nothing was written to a table that is gone"
    );
}
