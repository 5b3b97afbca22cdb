//! Tests of collections with views: random changes of records, compared with a simple calculation.

use std::collections::BTreeMap;

use proptest::prelude::*;
use recto_model::Cells;
use recto_model::schema::Schema;

use crate::views::collection::{FieldCells, KeyCells, ViewedCollection};
use crate::views::row::{EntryKey, Found, Generation, Row, Token, Version, ViewNumber};
use crate::views::write::{Action, Answer, Decision, Event, StepContext, Write};
use crate::views::{
    Arranged, Change, Entries, EntryOutcome, Misfit, MisfitCause, Refusal, Request, decide, entries_of,
    transaction,
};

const SCHEMA: &str = r#"
[collection.suspensions]
fields = { user = "int", status = "text", since = "bigint", reason = "text" }
key = ["user"]

[collection.suspensions.view.by_status]
partition = ["status"]
order = ["-since"]
nulls = "last"

[collection.suspensions.view.by_reason]
partition = ["reason"]
order = ["since"]
nulls = "skip"
fields = ["status"]
"#;

fn suspensions() -> ViewedCollection {
    let schema = Schema::parse(SCHEMA).expect("a schema");
    let collection = &schema.collections[0];
    let numbered = collection.views.iter().zip(1..);
    let views = numbered.map(|(view, number)| (ViewNumber(number), collection.arranged(view)));
    ViewedCollection::new(Generation(1), collection, views).expect("views of fields that can be in keys")
}

fn text(which: u8) -> Option<Vec<u8>> {
    (which > 0).then(|| vec![b'a' + which])
}

fn record(status: u8, since: u8, reason: u8) -> Cells {
    let since = (since > 0).then(|| i64::from(since).to_be_bytes().to_vec());
    let cells = [
        Some(7_i32.to_be_bytes().to_vec()),
        text(status),
        since,
        text(reason),
    ];
    cells.iter().map(|cell| cell.as_deref()).collect()
}

type TestChange = Change<Cells, FieldCells>;

fn changes() -> impl Strategy<Value = Vec<(TestChange, bool)>> {
    let record =
        || (0..3_u8, 0..3_u8, 0..3_u8).prop_map(|(status, since, reason)| record(status, since, reason));
    let patch = (1..4_usize, 0..3_u8).prop_map(|(field, which)| {
        let cell = if field == 2 { None } else { text(which) };
        FieldCells {
            fields: vec![field],
            cells: std::iter::once(cell.as_deref()).collect(),
        }
    });
    let change = prop_oneof![
        record().prop_map(|record| Change::Insert {
            record,
            expires_at: None
        }),
        record().prop_map(|record| Change::Put {
            record,
            expires_at: None
        }),
        patch.prop_map(Change::Update),
        Just(Change::Delete),
    ];
    proptest::collection::vec((change, any::<bool>()), 1..20)
}

/// Content of all views: the cells and the version of each entry.
type Shown = BTreeMap<EntryKey<KeyCells>, (Cells, Version)>;

fn write(shown: &mut Shown, entries: &Entries<KeyCells, Cells>) {
    for (key, _) in &entries.removals {
        shown.remove(key);
    }
    for entry in &entries.puts {
        shown.insert(entry.key.clone(), (entry.cells.clone(), entries.version));
    }
}

/// Returns the entries that the views must show, computed for each view separately.
fn expected(schema: &ViewedCollection, row: Option<&Row<Cells, KeyCells>>) -> Shown {
    let Some((row, record)) = row.and_then(|row| Some((row, row.record.as_ref()?))) else {
        return Shown::new();
    };
    let entries = schema
        .views()
        .iter()
        .filter_map(|view| schema.entry_in(view.number(), record));
    entries
        .map(|entry| (entry.key, (entry.cells, row.version)))
        .collect()
}

/// Executes a change as the engine does without faults, updates `shown`, and returns the answer.
fn run(
    schema: &ViewedCollection,
    found: &mut Found<Cells, KeyCells>,
    shown: &mut Shown,
    change: TestChange,
    (now, token): (i64, u128),
) -> Option<Answer> {
    let request = Request {
        change,
        if_version: None,
    };
    let mut machine = Write::change(request);
    let here = StepContext {
        schema,
        owner: &KeyCells::of(std::iter::empty()),
        now,
        token: Token(token),
        has_lease: true,
    };
    let mut open = machine.step(Event::Begin, &here);
    let mut answer = None;
    while !open.is_empty() {
        let mut events = Vec::new();
        for action in open {
            match action {
                Action::Look { note, .. } => {
                    events.extend(note.then_some(Event::Noted));
                    events.push(Event::Read(found.clone()));
                }
                Action::Cas(conditional) => {
                    found.row = Some(conditional.row);
                    events.push(Event::Decided(Token(token), Decision::Applied));
                }
                Action::Write(entries) => {
                    write(shown, &entries);
                    events.push(Event::Written);
                }
                // Ignore every second mark of written entries, because a mark may come late or
                // never.
                Action::MarkDone(version) if now % 2 == 0 => found.done = Some(version),
                Action::Answer(said) => answer = Some(said),
                Action::MarkDone(..) | Action::Settled | Action::Reload => {}
                Action::Claim { .. } | Action::Release(_) => unreachable!("nothing is unique"),
            }
        }
        open = events
            .into_iter()
            .flat_map(|event| machine.step(event, &here))
            .collect();
    }
    assert!(machine.is_over());
    answer
}

proptest! {
    /// Checks that views are exact after each change, and that a transaction writes the same
    /// entries as the protocol.
    #[test]
    fn views_are_exact(changes in changes()) {
        let schema = suspensions();
        let mut found = Found::absent();
        let mut shown = Shown::new();
        let mut embedded = Shown::new();
        for (index, (change, goes_back)) in changes.into_iter().enumerate() {
            let now = if goes_back { 0 } else { i64::try_from(index).expect("few changes") };
            let request = Request { change: change.clone(), if_version: None };
            let decided = decide(&request, found.row.as_ref(), &schema, now);
            let at_once = transaction(&request, found.row.as_ref(), &schema, now, Version(now));
            let version = found.row.as_ref().map(|row| row.version);
            let answer = run(&schema, &mut found, &mut shown, change, (now, index as u128 + 1));
            prop_assert_eq!(answer.map(|answer| matches!(answer, Answer::Done(_))), Some(decided.is_ok()));
            if let Ok(at_once) = at_once {
                write(&mut embedded, &at_once.entries);
                prop_assert_eq!(at_once.expected, version);
                prop_assert_eq!(Some(at_once.entries.version), found.row.as_ref().map(|row| row.version));
                prop_assert!(found.row.as_ref().map(|row| row.version) > version);
            }
            prop_assert_eq!(&shown, &expected(&schema, found.row.as_ref()));
            prop_assert_eq!(&embedded, &shown);
        }
    }

    /// Checks that an entry that is read from a view equals the entry that was written.
    #[test]
    fn entries_are_read_back(status in 1..3_u8, since in 0..3_u8, reason in 1..3_u8, stamp in any::<i64>()) {
        let schema = suspensions();
        for entry in schema.entries(&record(status, since, reason)) {
            let view = schema.view(entry.key.view).expect("a view of an entry");
            let (partition, clustering) = entry.key.key.in_table(view.table()).expect("a key of its table");
            let regular = view.regular_cells(&entry, Version(stamp));
            let row: Cells = partition.iter().chain(clustering.iter()).chain(regular.iter()).collect();
            let seen = view.seen(row.as_row()).expect("an entry");
            prop_assert_eq!((seen.key, seen.version, seen.cells), (entry.key, Version(stamp), entry.cells));
        }
    }
}

#[test]
fn records_without_a_partition_field_have_no_entry() {
    assert!(suspensions().entries(&record(0, 1, 0)).is_empty());
    // A record whose sort field is null is in the view that sorts nulls, and not in the view that
    // skips them.
    assert_eq!(suspensions().entries(&record(1, 0, 1)).len(), 1);
    assert_eq!(suspensions().entries(&record(1, 1, 1)).len(), 2);
}

#[test]
fn records_of_an_older_schema_lack_what_was_added() {
    let schema = suspensions();
    let mut older = record(1, 1, 1);
    older.truncate(3);
    assert_eq!(schema.entries(&older), schema.entries(&record(1, 1, 0)));
    let patch = FieldCells {
        fields: vec![3],
        cells: std::iter::once(text(1).as_deref()).collect(),
    };
    assert_eq!(schema.patched(&older, &patch), record(1, 1, 1));
}

/// Returns a record with this status, whatever the status is. A record can exist before a view that
/// does not accept its status.
fn with_status(cell: &[u8]) -> Cells {
    let record = record(1, 1, 0);
    let cells = record.iter().enumerate();
    cells
        .map(|(field, there)| if field == 1 { Some(cell) } else { there })
        .collect()
}

/// Returns statuses that do not fit a view partitioned by the status.
fn misfit_statuses() -> [Vec<u8>; 3] {
    [vec![], vec![b'x'; 70_000], vec![b'x'; 8 << 10]]
}

#[test]
fn rejects_misfits_and_leaves_them_without_entries() {
    let schema = suspensions();
    let status = with_status;
    let request = |change| Request {
        change,
        if_version: None,
    };
    let [by_status, _] = schema.views() else {
        panic!("two views")
    };
    for cell in misfit_statuses() {
        let cell = cell.as_slice();
        let misfit = Misfit {
            number: by_status.number(),
            field: 1,
            cause: match cell.len() {
                0 => MisfitCause::Empty,
                // The reported size includes the other columns of the view's key.
                bytes => MisfitCause::TooLarge(bytes + by_status_rest(&schema)),
            },
        };
        assert_eq!(schema.misfits(&status(cell)), [misfit]);
        assert_eq!(
            schema.outcome(by_status.number(), &status(cell)),
            Some(EntryOutcome::DoesNotFit(misfit))
        );
        let there = Row {
            tokens: crate::views::row::Tokens::pushed(None, Token(1)),
            version: Version(1),
            generation: Generation(0),
            record: Some(status(cell)),
            expires_at: None,
            must_go: std::collections::BTreeSet::new(),
            claims: crate::views::row::RowClaims::NONE,
        };
        assert!(schema.entries(&status(cell)).is_empty());
        let put = request(Change::Put {
            record: status(cell),
            expires_at: None,
        });
        let refused = decide(&put, None, &schema, 0);
        assert_eq!(refused, Err(Refusal::DoesNotFit(misfit)));
        let copied = decide(
            &request(Change::Copy {
                record: status(cell),
                expires_at: None,
            }),
            None,
            &schema,
            0,
        );
        assert!(copied.is_ok());
        for change in [
            Change::Delete,
            Change::Put {
                record: record(1, 1, 0),
                expires_at: None,
            },
        ] {
            let done = transaction(&request(change), Some(&there), &schema, 0, Version(0))
                .expect("nothing is in the way");
            assert!(done.entries.removals.is_empty());
        }
        let sweeps = entries_of(&there, &schema, 0);
        assert!(sweeps.puts.is_empty() && sweeps.removals.is_empty());
    }
    assert_eq!(schema.misfits(&status(&[b'x'; 8_000])), []);
    let null = record(0, 1, 0);
    assert_eq!(
        schema.outcome(by_status.number(), &null),
        Some(EntryOutcome::LeftOutByRule)
    );
}

/// Returns the bytes of the other cells in a key of the first view.
fn by_status_rest(schema: &ViewedCollection) -> usize {
    let entries = schema.entries(&with_status(b"x"));
    entries[0].key.key.cells().map(<[u8]>::len).sum::<usize>() - 1
}

#[test]
fn a_misfit_can_be_changed_in_other_fields() {
    let schema = suspensions();
    let [by_status, _] = schema.views() else {
        panic!("two views")
    };
    for cell in misfit_statuses() {
        let there = Row {
            tokens: crate::views::row::Tokens::pushed(None, Token(1)),
            version: Version(1),
            generation: Generation(0),
            record: Some(with_status(&cell)),
            expires_at: None,
            must_go: std::collections::BTreeSet::new(),
            claims: crate::views::row::RowClaims::NONE,
        };
        let update = |field: usize, cell: &[u8]| Request {
            change: Change::Update(FieldCells {
                fields: vec![field],
                cells: std::iter::once(Some(cell)).collect(),
            }),
            if_version: None,
        };
        let changed = |request| transaction(&request, Some(&there), &schema, 0, Version(0));
        let since = record(1, 2, 0);
        let since = since.get(2).expect("it has one");
        let other = changed(update(2, since)).expect("the status stays");
        assert!(other.entries.puts.is_empty() && other.entries.removals.is_empty());
        let same = changed(update(1, &cell)).expect("the status stays");
        assert_eq!(same.after.record, there.record);
        // A change to another value that does not fit is rejected, because it adds a misfit.
        let long = vec![b'y'; 9_000];
        match changed(update(1, &long)) {
            Err(Refusal::DoesNotFit(misfit)) => assert_eq!(misfit.number, by_status.number()),
            changed => panic!("{changed:?}"),
        }
        assert!(changed(update(1, b"fits")).is_ok());
    }
}

#[test]
fn names_the_largest_field_of_a_key_that_is_too_large() {
    let schema = r#"
[collection.people]
fields = { id = "int", team = "text", name = "text", born = "int" }
key = ["id"]

[collection.people.view.by_name]
partition = ["team"]
order = ["name"]
collate = "de"

[collection.people.view.by_birth]
partition = ["born"]
"#;
    let schema = Schema::parse(schema).expect("a schema");
    let collection = &schema.collections[0];
    let numbered = collection.views.iter().zip(1..);
    let views = numbered.map(|(view, number)| (ViewNumber(number), collection.arranged(view)));
    let people = ViewedCollection::new(Generation(1), collection, views).expect("views");
    let person = |team: &str, name: &str| -> Cells {
        let id = 7_i32.to_be_bytes();
        let cells = [
            Some(&id[..]),
            Some(team.as_bytes()),
            Some(name.as_bytes()),
            Some(&id),
        ];
        cells.into_iter().collect()
    };
    let misfit_of = |team: &str, name: &str| people.misfits(&person(team, name)).first().map(|one| one.field);
    assert_eq!(misfit_of("red", "Ada"), None);
    // The sort key and the text of `name` count together, so `name` is the largest field. Without
    // the sort key, the view's key would fit.
    assert_eq!(misfit_of(&"r".repeat(3_000), &"ä".repeat(2_000)), Some(2));
    assert_eq!(misfit_of(&"r".repeat(9_000), "Ada"), Some(1));
    assert!(people.views()[0].can_have_misfits());
    // The key of the second view has only values of a fixed size, so it always fits.
    assert!(!people.views()[1].can_have_misfits());
}

#[test]
fn changes_within_a_rounding_move_no_entry() {
    let schema = r#"
[collection.sessions]
fields = { id = "int", team = "text", seen = "timestamp" }
key = ["id"]

[collection.sessions.view.recent]
partition = ["team"]
order = ["-seen"]
rounding = "1 minute"

[collection.sessions.view.seen_ones]
partition = ["team"]
order = ["-seen"]
nulls = "skip"
rounding = "1 minute"
"#;
    let schema = Schema::parse(schema).expect("a schema");
    let collection = &schema.collections[0];
    let numbered = collection.views.iter().zip(1..);
    let views = numbered.map(|(view, number)| (ViewNumber(number), collection.arranged(view)));
    let sessions = ViewedCollection::new(Generation(1), collection, views).expect("views");
    let record = |seen_ms: Option<i64>| -> Cells {
        let seen = seen_ms.map(i64::to_be_bytes);
        let cells = [
            Some(&[0, 0, 0, 7][..]),
            Some(b"red"),
            seen.as_ref().map(<[u8; 8]>::as_slice),
        ];
        cells.into_iter().collect()
    };
    // Each case is a value of the field `seen`, and the number of views whose entry moves, appears
    // or disappears.
    let (mut found, mut shown) = (Found::absent(), Shown::new());
    for (step, (seen_ms, moved)) in [
        (Some(60_000), 2),
        (Some(119_999), 0),
        (Some(60_001), 0),
        (Some(120_000), 2),
        (None, 2),
        (Some(-1), 2),
        (Some(-60_000), 0),
    ]
    .into_iter()
    .zip(1_u32..)
    .map(|(case, step)| (step, case))
    {
        let before: Vec<_> = shown.keys().cloned().collect();
        let change = Change::Put {
            record: record(seen_ms),
            expires_at: None,
        };
        let token = u128::from(step);
        run(
            &sessions,
            &mut found,
            &mut shown,
            change,
            (1_000 * i64::from(step), token),
        );
        let count = before.iter().filter(|key| !shown.contains_key(key)).count();
        let came = shown.keys().filter(|key| !before.contains(key)).count();
        assert_eq!(came.max(count), moved, "step {step}");
        // Each entry contains the exact value of the field `seen`.
        assert!(
            shown
                .values()
                .all(|(cells, _)| cells.get(0) == record(seen_ms).get(2))
        );
        assert_eq!(shown.len(), if seen_ms.is_some() { 2 } else { 1 });
    }
}
