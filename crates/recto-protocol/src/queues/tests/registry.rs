//! Tests of the registry: queues are created, changed and deleted, with options that users state.

use std::sync::Arc;

use recto_api::queues::{DeduplicationScope, QueueSettings, QueueTableSettings};

use crate::queues::{
    Action, DeadLetters, Decision, Event, Held, OptionError, Place, Protocol, QueueId, QueueName,
    QueueOptions, Register, Registry, RegistryCommand, RegistryContext, RegistryResponse, Round, Shard,
    StoreOptions, Tenure, Ticket,
};

fn name(text: &str) -> QueueName {
    QueueName::new("name", text).expect("a name")
}

fn sends_dead_letters_to(text: &str) -> QueueOptions {
    QueueOptions {
        dead_letters: Some(DeadLetters {
            queue: name(text),
            attempts: 3,
        }),
        ..QueueOptions::default()
    }
}

fn create(id: u128, text: &str, options: &QueueOptions) -> RegistryCommand {
    RegistryCommand::Create {
        id: QueueId(id),
        name: name(text),
        options: options.clone(),
    }
}

fn change(id: u128, expected: Option<u64>, options: &QueueOptions) -> RegistryCommand {
    RegistryCommand::Change {
        queue: QueueId(id),
        expected,
        change: options.clone().into(),
    }
}

/// Registry that executes one command after the other, each by its own conditional write.
struct Registries {
    registry: Registry,
    context: RegistryContext,
}

impl Registries {
    fn new() -> Self {
        let protocol = Protocol {
            places: 3,
            ..Protocol::default()
        };
        Self {
            registry: Registry::absent(),
            context: RegistryContext { now: 5, protocol },
        }
    }

    fn is_told(&mut self, command: RegistryCommand) -> RegistryResponse {
        self.is_told_after(command, false)
    }

    fn is_told_after(&mut self, command: RegistryCommand, was_sent: bool) -> RegistryResponse {
        let before = self.registry.clone();
        let response = self.registry.work_out(&command, was_sent, &self.context);
        if self.registry != before {
            self.registry.raise();
        }
        response
    }

    fn is_refused(&mut self, command: RegistryCommand) -> OptionError {
        let before = self.registry.clone();
        let response = self.is_told(command);
        assert_eq!(self.registry, before);
        match response {
            RegistryResponse::Refused(error) => error,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_queue_is_made_once() {
    use RegistryResponse::{Created, Differs, Exists};
    let mut registries = Registries::new();
    let options = QueueOptions::default();
    assert_eq!(registries.is_told(create(1, "a", &options)), Created(Place(0)));
    assert_eq!(registries.registry.version(), 1);
    assert_eq!(registries.registry.options, Some(StoreOptions::default()));
    // Repeat the command of the client that missed the response, and send the command from other
    // clients.
    assert_eq!(registries.is_told(create(1, "a", &options)), Created(Place(0)));
    assert_eq!(registries.is_told(create(2, "a", &options)), Exists(Place(0)));
    let others = QueueOptions {
        delay_seconds: 1,
        ..options.clone()
    };
    assert_eq!(registries.is_told(create(2, "a", &others)), Differs(Place(0)));
    assert_eq!(registries.is_told(create(1, "A", &options)), Differs(Place(0)));
    assert_eq!(registries.registry.version(), 1);
    assert_eq!(registries.is_told(create(2, "A", &others)), Created(Place(1)));

    let (place, row, queue) = registries.registry.named("A").expect("it was made");
    assert_eq!(
        (place, row.tenure, row.changed, row.shards),
        (Place(1), Tenure(2), 2, 4)
    );
    assert_eq!(
        (queue.id, queue.created, &queue.options),
        (QueueId(2), 5, &others)
    );
    assert_eq!(
        registries.registry.queue(QueueId(1)).map(|(place, ..)| place),
        Some(Place(0))
    );
    assert!(registries.registry.named("b").is_none());
    let changed: Vec<_> = registries.registry.changed().map(|(place, _)| place).collect();
    assert_eq!(changed, [Place(1)], "the other row stands as it was");
}

#[test]
fn options_are_changed_by_who_knows_them() {
    use RegistryResponse::{Changed, NoQueue, Outdated};
    let mut registries = Registries::new();
    let options = QueueOptions::default();
    let slower = QueueOptions {
        visibility_seconds: 60,
        ..options.clone()
    };
    registries.is_told(create(1, "a", &options));
    registries.is_told(create(2, "b", &options));
    assert_eq!(registries.is_told(change(9, None, &slower)), NoQueue);
    assert_eq!(registries.is_told(change(1, Some(1), &slower)), Changed(3));
    let (_, row, queue) = registries.registry.named("a").expect("it is there");
    assert_eq!(
        (row.tenure, &queue.options),
        (Tenure(1), &slower),
        "it is the same use"
    );
    // The change was applied, but its sender missed the response and repeats it. So the response is
    // `Changed`, not `Outdated`.
    assert_eq!(
        registries.is_told_after(change(1, Some(1), &slower), true),
        Changed(3)
    );
    assert_eq!(registries.is_told(change(1, Some(1), &slower)), Outdated(3));
    assert_eq!(registries.is_told(change(1, Some(1), &options)), Outdated(3));
    assert_eq!(registries.is_told(change(1, None, &slower)), Changed(3));
    assert_eq!(registries.registry.version(), 3);

    for (field, to) in [
        ("ordered", QueueOptions::ordered()),
        (
            "shards",
            QueueOptions {
                shards: 5,
                ..slower.clone()
            },
        ),
        ("dead_letters.queue", sends_dead_letters_to("c")),
        ("dead_letters.queue", sends_dead_letters_to("a")),
    ] {
        let error = registries.is_refused(change(1, None, &to));
        assert_eq!(error.field(), field);
        assert!(!error.hint().is_empty() && error.to_string().contains(field));
    }
    assert_eq!(
        registries.is_told(change(1, None, &sends_dead_letters_to("b"))),
        Changed(4)
    );
}

#[test]
fn rejects_dead_letters_in_a_circle() {
    let mut registries = Registries::new();
    registries.is_told(create(3, "c", &QueueOptions::default()));
    registries.is_told(create(2, "b", &sends_dead_letters_to("c")));
    registries.is_told(create(1, "a", &sends_dead_letters_to("b")));
    for closes in [
        change(3, None, &sends_dead_letters_to("a")),
        change(3, None, &sends_dead_letters_to("b")),
        change(2, None, &sends_dead_letters_to("a")),
    ] {
        let error = registries.is_refused(closes);
        assert_eq!(
            error,
            OptionError::Circle {
                field: "dead_letters.queue"
            }
        );
        assert!(error.hint().contains("queue"), "{error}");
    }
    // A change of another option is accepted, because it adds no cycle of dead-letter queues.
    let slower = QueueOptions {
        visibility_seconds: 60,
        ..sends_dead_letters_to("b")
    };
    registries.is_told(change(1, None, &slower));
}

#[test]
fn rejects_changes_of_the_deduplication_scope() {
    let mut registries = Registries::new();
    let per_queue = QueueOptions {
        shards: 1,
        deduplication: DeduplicationScope::Queue,
        ..QueueOptions::ordered()
    };
    registries.is_told(create(1, "a.fifo", &per_queue));
    let per_group = QueueOptions {
        shards: 1,
        ..QueueOptions::ordered()
    };
    let error = registries.is_refused(change(1, None, &per_group));
    assert_eq!(
        error,
        OptionError::Fixed {
            field: "deduplication"
        }
    );
}

#[test]
fn a_place_is_taken_over_when_it_is_cleared() {
    use RegistryResponse::{Created, Done, NoQueue};
    let mut registries = Registries::new();
    let wide = QueueOptions {
        shards: 16,
        ..QueueOptions::default()
    };
    let options = QueueOptions::default();
    registries.is_told(create(1, "a", &wide));
    assert_eq!(registries.is_told(RegistryCommand::Delete(QueueId(7))), NoQueue);
    assert_eq!(registries.is_told(RegistryCommand::Delete(QueueId(1))), Done);
    assert_eq!(registries.is_told(RegistryCommand::Delete(QueueId(1))), Done);
    assert_eq!(registries.registry.version(), 2);
    assert!(registries.registry.named("a").is_none() && registries.registry.queue(QueueId(1)).is_none());
    let row = registries.registry.place(Place(0)).expect("it is being cleared");
    assert_eq!((row.deleting(), row.changed), (Some(Tenure(2)), 2));

    // The client that created the queue missed the response, and repeats the command. It gets the
    // first response, and no second queue is created.
    assert_eq!(
        registries.is_told_after(create(1, "a", &wide), true),
        Created(Place(0))
    );
    // The name of the deleted queue is free at once, but its slot is not. So the new queue gets
    // another slot.
    assert_eq!(registries.is_told(create(2, "a", &options)), Created(Place(1)));
    assert_eq!(
        registries.is_told(RegistryCommand::Cleared(Place(0), Tenure(1))),
        Done
    );
    assert!(
        registries
            .registry
            .place(Place(0))
            .is_some_and(|row| row.deleting().is_some())
    );
    assert_eq!(
        registries.is_told(RegistryCommand::Cleared(Place(0), Tenure(2))),
        Done
    );
    assert_eq!(
        registries.is_told(RegistryCommand::Cleared(Place(0), Tenure(2))),
        Done
    );
    assert_eq!(registries.registry.version(), 4);
    assert_eq!(
        registries.is_told(RegistryCommand::Cleared(Place(9), Tenure(2))),
        NoQueue
    );
    assert_eq!(
        registries.is_told_after(RegistryCommand::Delete(QueueId(1)), true),
        Done
    );

    assert_eq!(registries.is_told(create(3, "b", &options)), Created(Place(0)));
    let (_, row, _) = registries.registry.named("b").expect("it was made");
    // The new queue has 4 shards, but the row still lists the 16 shards of the earlier queue,
    // because their manifests exist and must learn which body tables are closing.
    assert_eq!((row.tenure, row.shards().last()), (Tenure(5), Some(Shard(15))));
    // A process reports too late that it cleared the slot for the first queue, so the new queue
    // stays.
    assert_eq!(
        registries.is_told(RegistryCommand::Cleared(Place(0), Tenure(2))),
        Done
    );
    assert!(registries.registry.named("b").is_some());
}

#[test]
fn a_deletion_that_nobody_saw_yet_is_not_done() {
    let mut round = Round::<Registry>::new(Protocol::default());
    let context = Registries::new().context;
    let commands = [
        create(1, "a", &QueueOptions::default()),
        RegistryCommand::Delete(QueueId(1)),
        RegistryCommand::Cleared(Place(0), Tenure(1)),
    ];
    let commands = (0..).map(Ticket).zip(commands).collect();
    round.step(Event::Asked(commands), &context);
    let put = match &round.step(Event::Read(Registry::absent()), &context)[..] {
        [Action::Cas { put, .. }] => put.clone(),
        other => panic!("{other:?}"),
    };
    let row = put.place(Place(0)).expect("a place");
    assert!(matches!(row.held, Held::Deleting { .. }));
    let told = round.step(Event::Decided(1, Decision::Applied), &context);
    assert_eq!(
        told[0],
        Action::Response(Ticket(0), RegistryResponse::Created(Place(0)))
    );
}

#[test]
fn there_are_so_many_places() {
    use RegistryResponse::{Created, Full};
    let mut registries = Registries::new();
    let options = QueueOptions::default();
    for (id, text) in [(1, "a"), (2, "b"), (3, "c")] {
        registries.is_told(create(id, text, &options));
    }
    assert_eq!(registries.is_told(create(4, "d", &options)), Full);
    registries.is_told(RegistryCommand::Delete(QueueId(2)));
    assert_eq!(registries.is_told(create(4, "d", &options)), Full);
    registries.is_told(RegistryCommand::Cleared(Place(1), Tenure(4)));
    assert_eq!(registries.is_told(create(4, "d", &options)), Created(Place(1)));
    assert_eq!(registries.registry.places().count(), 3);
}

#[test]
fn a_queue_of_dead_letters_stays_while_it_is_needed() {
    use RegistryResponse::{Done, NeededBy};
    let mut registries = Registries::new();
    let error = registries.is_refused(create(1, "work", &sends_dead_letters_to("dead")));
    let missing = OptionError::NoQueue {
        field: "dead_letters.queue",
        name: name("dead"),
    };
    assert_eq!(error, missing);
    registries.is_told(create(2, "dead", &QueueOptions::default()));
    registries.is_told(create(1, "work", &sends_dead_letters_to("dead")));
    assert_eq!(
        registries.is_told(RegistryCommand::Delete(QueueId(2))),
        NeededBy(name("work"))
    );
    assert!(registries.registry.named("dead").is_some());
    registries.is_told(change(1, None, &QueueOptions::default()));
    assert_eq!(registries.is_told(RegistryCommand::Delete(QueueId(2))), Done);
    // A queue that is being deleted accepts no dead letters of other queues.
    let error = registries.is_refused(change(1, None, &sends_dead_letters_to("dead")));
    assert_eq!(error, missing);

    let mut registries = Registries::new();
    registries.is_told(create(1, "dead.fifo", &QueueOptions::ordered()));
    let error = registries.is_refused(create(2, "work", &sends_dead_letters_to("dead.fifo")));
    assert!(matches!(
        error,
        OptionError::Conflict {
            field: "dead_letters.queue",
            ..
        }
    ));
    let ordered = QueueOptions {
        dead_letters: sends_dead_letters_to("dead.fifo").dead_letters,
        ..QueueOptions::ordered()
    };
    let made = registries.is_told(create(2, "work", &ordered));
    assert_eq!(made, RegistryResponse::Created(Place(1)));
}

#[test]
fn a_unit_begins_once_and_ends_with_its_queue() {
    use RegistryResponse::{Created, Done, Exists, Full, NoQueue};
    let begin = |id, queue, text: &str| RegistryCommand::Begin {
        id: QueueId(id),
        queue: QueueId(queue),
        name: name(text),
    };
    let mut registries = Registries::new();
    registries.context.protocol = Protocol::default();
    registries.is_told(RegistryCommand::Configure(QueueTableSettings {
        units: Some(2),
        ..QueueTableSettings::default()
    }));
    let wide = QueueOptions {
        shards: 9,
        ..QueueOptions::default()
    };
    registries.is_told(create(1, "a", &wide));
    assert_eq!(registries.is_told(begin(7, 2, "unit")), NoQueue);
    assert_eq!(registries.is_told(begin(7, 1, "unit")), Created(Place(1)));
    assert_eq!(registries.is_told(begin(7, 1, "unit")), Created(Place(1)));
    assert_eq!(registries.is_told(begin(8, 1, "unit")), Exists(Place(1)));
    assert_eq!(
        registries.is_told(begin(8, 7, "unit")),
        NoQueue,
        "a unit has none"
    );
    let (place, row, unit) = registries
        .registry
        .unit(QueueId(1), "unit")
        .expect("it has begun");
    assert_eq!((place, row.shards, unit.begun), (Place(1), 9, 5));
    assert!(registries.registry.named("unit").is_none(), "it is no queue");
    registries.is_told(create(2, "unit", &QueueOptions::default()));
    assert_eq!(registries.is_told(begin(8, 2, "unit")), Created(Place(3)));
    assert_eq!(registries.is_told(begin(9, 2, "other")), Full);

    // After a temporary queue has ended, another one can begin, even with the same name.
    assert_eq!(registries.is_told(RegistryCommand::Delete(QueueId(7))), Done);
    assert!(registries.registry.unit(QueueId(1), "unit").is_none());
    assert_eq!(
        registries.is_told(begin(7, 1, "unit")),
        Created(Place(1)),
        "it had begun"
    );
    assert_eq!(registries.is_told(begin(9, 1, "unit")), Created(Place(4)));
    assert_eq!(registries.is_told(RegistryCommand::Delete(QueueId(1))), Done);
    assert_eq!(registries.registry.units().count(), 1, "of the other queue");
    let deleting = registries
        .registry
        .places()
        .filter(|(_, row)| row.deleting().is_some());
    let places: Vec<_> = deleting.map(|(place, _)| place.0).collect();
    assert_eq!(places, [0, 1, 4]);
}

#[test]
fn one_data_centre_serves_the_queues() {
    let mut registries = Registries::new();
    let serve = |text: &str| RegistryCommand::Serve(Arc::from(text));
    for text in ["", &"d".repeat(256)] {
        assert_eq!(registries.is_refused(serve(text)).field(), "data_centre");
    }
    assert_eq!(registries.is_told(serve("one")), RegistryResponse::Done);
    assert_eq!(registries.is_told(serve("one")), RegistryResponse::Done);
    assert_eq!(
        registries.is_told(serve("two")),
        RegistryResponse::ServedBy(Arc::from("one"))
    );
    assert_eq!(registries.registry.data_centre(), Some("one"));
    assert_eq!(registries.registry.options, None);
}

#[test]
fn changes_options_of_the_whole_store() {
    let mut registries = Registries::new();
    let good = StoreOptions {
        rotation_seconds: 10,
        grace_seconds: 1,
        tables: 2,
        units: 46,
    };
    assert_eq!(
        registries.is_told(RegistryCommand::Configure(good.into())),
        RegistryResponse::Done
    );
    assert_eq!(registries.registry.options(), good);
    assert_eq!(Protocol::of(&good).unused, 1_000_000);
    assert_eq!(Protocol::of(&StoreOptions::default()), Protocol::default());
    for (field, options) in [
        (
            "rotation_seconds",
            StoreOptions {
                rotation_seconds: 9,
                ..good
            },
        ),
        (
            "rotation_seconds",
            StoreOptions {
                rotation_seconds: 604_801,
                ..good
            },
        ),
        (
            "grace_seconds",
            StoreOptions {
                grace_seconds: 0,
                ..good
            },
        ),
        (
            "grace_seconds",
            StoreOptions {
                grace_seconds: 86_401,
                ..good
            },
        ),
        ("tables", StoreOptions { tables: 1, ..good }),
        ("tables", StoreOptions { tables: 49, ..good }),
        ("units", StoreOptions { tables: 3, ..good }),
    ] {
        assert_eq!(
            registries
                .is_refused(RegistryCommand::Configure(options.into()))
                .field(),
            field
        );
    }
    // The first queue of a store does not change options that were set before.
    registries.is_told(create(1, "a", &QueueOptions::default()));
    assert_eq!(registries.registry.options(), good);
    let many = QueueTableSettings {
        tables: Some(300),
        ..QueueTableSettings::default()
    };
    let error = registries.is_refused(RegistryCommand::Configure(many));
    assert_eq!(error.to_string(), "`tables` is 300; the range is 2 to 48");
}

#[test]
fn settings_state_each_option() {
    let other = QueueOptions {
        visibility_seconds: 60,
        delay_seconds: 5,
        retention_seconds: Some(90),
        deduplication: DeduplicationScope::Group,
        is_ordered: true,
        shards: 3,
        body_bytes: 70,
        max_in_flight: 80,
        is_paused: true,
        ..sends_dead_letters_to("dead")
    };
    for options in [other, QueueOptions::default()] {
        for present in [QueueOptions::default(), sends_dead_letters_to("b")] {
            assert_eq!(present.changed_by(&options.settings()), Ok(options.clone()));
            assert_eq!(present.changed_by(&QueueSettings::default()), Ok(present));
        }
    }
}

#[test]
fn an_ordered_queue_has_one_shard_by_default() {
    let shards =
        |settings: QueueSettings| QueueOptions::created_with(&settings).map(|options| options.shards);
    let ordered = QueueSettings {
        ordered: Some(true),
        ..QueueSettings::default()
    };
    assert_eq!(shards(QueueSettings::default()), Ok(4));
    assert_eq!(shards(ordered.clone()), Ok(1));
    let two = QueueSettings {
        shards: Some(2),
        ..ordered
    };
    assert_eq!(shards(two), Ok(2));
}

/// Checks that a change affects only the options that it names, even if the registry changed
/// between a process's read and its write.
#[test]
fn a_change_of_options_changes_what_it_names() {
    let mut registries = Registries::new();
    for change in [
        QueueTableSettings {
            rotation_seconds: Some(60),
            ..QueueTableSettings::default()
        },
        QueueTableSettings {
            units: Some(7),
            ..QueueTableSettings::default()
        },
    ] {
        registries.is_told(RegistryCommand::Configure(change));
    }
    let both = StoreOptions {
        rotation_seconds: 60,
        units: 7,
        ..StoreOptions::default()
    };
    assert_eq!(registries.registry.options(), both);
    // The 42 tables, and 7 work units of another change, exceed their common limit of 48.
    let tables = QueueTableSettings {
        tables: Some(42),
        ..QueueTableSettings::default()
    };
    assert_eq!(
        registries.is_refused(RegistryCommand::Configure(tables)).field(),
        "units"
    );

    registries.is_told(create(2, "b", &QueueOptions::default()));
    registries.is_told(create(1, "a", &sends_dead_letters_to("b")));
    for change in [
        QueueSettings {
            visibility_seconds: Some(60),
            ..QueueSettings::default()
        },
        QueueSettings {
            delay_seconds: Some(5),
            retention_seconds: Some(Some(90)),
            ..QueueSettings::default()
        },
        QueueSettings {
            dead_letters: Some(None),
            ..QueueSettings::default()
        },
    ] {
        registries.is_told(RegistryCommand::Change {
            queue: QueueId(1),
            expected: None,
            change,
        });
    }
    let all = QueueOptions {
        visibility_seconds: 60,
        delay_seconds: 5,
        retention_seconds: Some(90),
        ..QueueOptions::default()
    };
    let (.., queue) = registries.registry.named("a").expect("it is there");
    assert_eq!(queue.options, all);
}

#[test]
fn names_are_as_in_sqs() {
    let long = "x".repeat(80);
    for text in ["a", "A-z_09", &long, "a.fifo"] {
        assert_eq!(name(text).as_str(), text);
    }
    let longer = format!("{}.fifo", "x".repeat(76));
    for text in [
        "",
        ".fifo",
        "a.b",
        "a.fifo.fifo",
        "a b",
        "ä",
        "a\n",
        longer.as_str(),
        "a.FIFO",
    ] {
        let error = QueueName::new("queue", text).expect_err("no name");
        assert_eq!(error.field(), "queue");
        assert!(error.hint().contains("80 letters"));
    }
    let error = QueueName::new("queue", &"ä".repeat(1_000)).expect_err("no name");
    assert!(error.to_string().len() < 250, "what is wrong is told in short");
}

#[test]
fn names_the_option_that_differs() {
    let good = QueueOptions::default();
    assert_eq!(good.differs_in(&good), None);
    let dead_letters = Some(DeadLetters {
        queue: name("b"),
        attempts: 1,
    });
    let other = |change: &dyn Fn(&mut QueueOptions)| {
        let mut other = good.clone();
        change(&mut other);
        good.differs_in(&other)
    };
    assert_eq!(
        other(&|other| other.visibility_seconds = 7),
        Some("visibility_seconds")
    );
    assert_eq!(other(&|other| other.delay_seconds = 7), Some("delay_seconds"));
    assert_eq!(
        other(&|other| other.retention_seconds = Some(60)),
        Some("retention_seconds")
    );
    assert_eq!(
        other(&|other| other.dead_letters = dead_letters.clone()),
        Some("dead_letters")
    );
    assert_eq!(other(&|other| other.is_ordered = true), Some("ordered"));
    assert_eq!(other(&|other| other.shards = 7), Some("shards"));
    let by_group = |other: &mut QueueOptions| other.deduplication = DeduplicationScope::Group;
    assert_eq!(other(&by_group), Some("deduplication"));
    assert_eq!(other(&|other| other.body_bytes = 7), Some("body_bytes"));
}

#[test]
fn options_that_no_queue_can_have_are_refused_by_their_name() {
    let good = QueueOptions::default();
    let ordered = QueueOptions::ordered();
    let check = |text: &str, options: &QueueOptions| {
        options.check(&name(text)).map_err(|error| {
            assert!(!error.hint().is_empty() && error.to_string().contains(error.field()));
            error.field()
        })
    };
    let numbers = |visibility, delay, retention: Option<u32>, body| QueueOptions {
        visibility_seconds: visibility,
        delay_seconds: delay,
        retention_seconds: retention,
        body_bytes: body,
        max_in_flight: crate::queues::limits::DEFAULT_IN_FLIGHT,
        ..good.clone()
    };
    let shards = |shards, options: &QueueOptions| QueueOptions {
        shards,
        ..options.clone()
    };
    let dead = |text: &str, attempts| QueueOptions {
        dead_letters: Some(DeadLetters {
            queue: name(text),
            attempts,
        }),
        ..good.clone()
    };
    let counted = |deduplication, options: &QueueOptions| QueueOptions {
        deduplication,
        ..options.clone()
    };
    for options in [
        good.clone(),
        ordered.clone(),
        numbers(1, 0, Some(60), 1),
        numbers(43_200, 2_592_000, Some(31_536_000), 1 << 20),
        dead("b", 1),
        dead("b", 1_000),
        shards(1, &good),
        shards(64, &good),
        counted(DeduplicationScope::Queue, &shards(1, &ordered)),
    ] {
        assert_eq!(check("a", &options), Ok(()));
    }
    assert_eq!(check("a.fifo", &ordered), Ok(()));
    for (field, options) in [
        ("visibility_seconds", numbers(0, 0, None, 1)),
        ("visibility_seconds", numbers(43_201, 0, None, 1)),
        ("delay_seconds", numbers(1, 2_592_001, None, 1)),
        ("retention_seconds", numbers(1, 0, Some(59), 1)),
        ("retention_seconds", numbers(1, 0, Some(31_536_001), 1)),
        ("retention_seconds", numbers(1, 60, Some(60), 1)),
        ("body_bytes", numbers(1, 0, None, 0)),
        ("body_bytes", numbers(1, 0, None, (1 << 20) + 1)),
        ("shards", shards(0, &good)),
        ("shards", shards(65, &good)),
        ("dead_letters.attempts", dead("b", 0)),
        ("dead_letters.attempts", dead("b", 1_001)),
        ("dead_letters.queue", dead("a", 1)),
        ("deduplication", counted(DeduplicationScope::Group, &good)),
        ("shards", counted(DeduplicationScope::Queue, &ordered)),
        (
            "delay_seconds",
            QueueOptions {
                delay_seconds: 901,
                ..ordered.clone()
            },
        ),
    ] {
        assert_eq!(check("a", &options), Err(field), "{options:?}");
    }
    assert_eq!(check("a.fifo", &good), Err("ordered"));
}
