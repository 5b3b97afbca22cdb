//! Phase: writes and pages of views on Cassandra, compared with views that hand-written code
//! maintains with the driver.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use futures::future::{BoxFuture, FutureExt as _};
use recto::schema::Schema;
use recto::{CassandraAddress, Collection, DynamicRecord, OpenOptions, PageQuery, Recto, StoreAddress};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::measure::{Contender, interleaved, median};
use crate::peers::kept_by_hand::KeptByHand;
use crate::report::{Section, Table, Target};
use crate::world::World;

const SCHEMA: &str = "
[collection.events]
fields = { id = \"bigint\", a = \"text\", b = \"text\", c = \"text\", at = \"bigint\", body = \"text\" }
key = [\"id\"]
writes = \"append\"

[collection.events.view.by_a]
partition = [\"a\"]
order = [\"-at\"]

[collection.events.view.by_b]
partition = [\"b\"]
order = [\"-at\"]

[collection.events.view.by_c]
partition = [\"c\"]
order = [\"-at\"]

[collection.tickets]
fields = { id = \"bigint\", status = \"text\", at = \"bigint\", body = \"text\" }
key = [\"id\"]

[collection.tickets.view.by_status]
partition = [\"status\"]
order = [\"-at\"]

[collection.unverified]
fields = { id = \"bigint\", status = \"text\", at = \"bigint\", body = \"text\" }
key = [\"id\"]

[collection.unverified.view.by_status]
partition = [\"status\"]
order = [\"-at\"]
verify = false
";

const WRITERS: [usize; 3] = [1, 4, 16];
/// Number of tickets (records that are updated). Each writer has its own ticket. In one
/// measurement, all writers update the ticket [`HOT`] instead.
const TICKETS: i64 = 64;
/// Id of the ticket that all writers update in one measurement.
const HOT: i64 = 0;
const SPELL: Duration = Duration::from_secs(2);
const ROUNDS: usize = 3;
const PAGES: usize = 50;
const PAGE_ROUNDS: usize = 30;
const BODY: &str = "two hundred bytes or so of what a record says beside its key, as most records do: who wrote it, what about, \
    what came of it, and whatever else there is to be said of it in a field of text that no view is by.";
/// Time limit of a request to Cassandra. It is long, because the measurements keep the machine
/// busy.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Id of the next record that a writer inserts.
static NEXT: AtomicI64 = AtomicI64::new(1_000);

/// Recto's collections, and the tables that hand-written code maintains.
struct Sides {
    events: Collection<DynamicRecord>,
    tickets: Collection<DynamicRecord>,
    unverified: Collection<DynamicRecord>,
    by_hand: KeptByHand,
}

/// Kind of write to measure. The flag says whether all writers update the same ticket.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Work {
    Append,
    AppendByHand,
    Update(bool),
    UpdateByHand(bool),
    ConditionalWrite,
}

pub(super) fn run(world: &mut World) -> Result<Section, String> {
    let rounds = world.arguments.rounds(ROUNDS);
    let time = if world.arguments.quick { SPELL / 5 } else { SPELL };
    let keyspace = format!("recto_benches_views_{}", std::process::id());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let address = world.arguments.cassandra.clone();
    world.progress.say("storing tickets");
    let sides = Arc::new(runtime.block_on(open(&address, &keyspace))?);
    let mut section = Section {
        title: "Views on Cassandra".to_owned(),
        text: format!(
            "`append` writes a record of six fields and its entries in three views. The hand-written program sends a \
             logged batch of the same four inserts. `update` changes two fields of a record, which moves in its view. \
             The hand-written program reads the record, sends an `UPDATE … IF version = ?`, puts one entry and deletes \
             the other. It has no process that repairs the view after a crash. \"Alone\" is the conditional write \
             without the other requests. One node, `LOCAL_QUORUM`, all statements prepared, {rounds} rounds of {:.1} s.\n\n\
             An update sends two more requests than by hand: the intent, by which another process repairs the view \
             after a crash, and the mark that all entries are written. Recto does not wait for the mark. Materialized \
             views are off by default in Cassandra 5.0, and its indexes have no order, so neither serves these pages.",
            time.as_secs_f64()
        ),
        ..Section::default()
    };
    // Measure pages before tickets are updated. A page afterward would also read view rows at
    // former positions of the tickets.
    pages(world, &runtime, &sides, &mut section);
    appends(world, &runtime, &sides, (rounds, time), &mut section);
    updates(world, &runtime, &sides, (rounds, time), &mut section);
    runtime.block_on(sides.by_hand.drop_keyspace(&keyspace));
    Ok(section)
}

async fn open(address: &str, keyspace: &str) -> Result<Sides, String> {
    let store = StoreAddress::Cassandra(Box::new(CassandraAddress::new(
        vec![address.to_owned()],
        keyspace,
    )));
    let options = OpenOptions::new().create().request_timeout(TIMEOUT);
    let recto = Recto::open_with(&store, options)
        .await
        .map_err(|error| format!("Cassandra: {error}; `recto-rig start` starts one"))?;
    recto.apply(&Schema::parse(SCHEMA).unwrap()).await.unwrap();
    let by_hand = KeptByHand::connect(address, keyspace).await;
    let sides = Sides {
        events: recto.dynamic("events").unwrap(),
        tickets: recto.dynamic("tickets").unwrap(),
        unverified: recto.dynamic("unverified").unwrap(),
        by_hand,
    };
    for id in 0..TICKETS {
        let ticket = json!({ "id": id.to_string(), "status": "open", "at": id.to_string(), "body": BODY });
        for collection in [&sides.tickets, &sides.unverified] {
            collection.put(&record(collection, &ticket)).await.unwrap();
        }
        sides.by_hand.insert(id, "open", id, BODY).await;
    }
    Ok(sides)
}

fn record(collection: &Collection<DynamicRecord>, json: &serde_json::Value) -> DynamicRecord {
    DynamicRecord::from_json(collection.definition(), json.as_object().unwrap()).unwrap()
}

impl Sides {
    /// Executes one write of the kind `work`, by the writer with index `writer`. `version` is the
    /// current version of the writer's ticket.
    fn once<'a>(&'a self, work: Work, writer: usize, version: &'a mut i64) -> BoxFuture<'a, ()> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let ticket = move |hot| if hot { HOT } else { 1 + writer as i64 };
        let names = [3, 5, 7].map(|factor| format!("value-{}", number * factor % 100));
        let status = if number % 2 == 0 { "open" } else { "closed" };
        async move {
            match work {
                Work::Append => {
                    let event = json!({
                        "id": number.to_string(), "a": names[0], "b": names[1], "c": names[2],
                        "at": number.to_string(), "body": BODY,
                    });
                    self.events.put(&record(&self.events, &event)).await.unwrap();
                }
                Work::AppendByHand => {
                    let names = [&*names[0], &*names[1], &*names[2]];
                    self.by_hand.append(number, names, BODY).await;
                }
                Work::Update(hot) => {
                    let update = self.tickets.update(ticket(hot));
                    update.set("status", status).set("at", number).await.unwrap();
                }
                Work::UpdateByHand(hot) => self.by_hand.change(ticket(hot), status, number, BODY).await,
                Work::ConditionalWrite => {
                    let is_applied = self
                        .by_hand
                        .change_if(ticket(false), status, number, *version)
                        .await;
                    assert!(is_applied, "no other client changes it");
                    *version += 1;
                }
            }
        }
        .boxed()
    }
}

/// Returns the number of writes per second that `writers` concurrent writers execute together.
fn rate(runtime: &Runtime, sides: &Arc<Sides>, work: Work, writers: usize, time: Duration) -> f64 {
    let ids = 1..=writers as i64;
    let versions = runtime.block_on(sides.by_hand.versions(ids));
    let begun = Instant::now();
    let count: u64 = runtime.block_on(async {
        let writer = |(writer, mut version): (usize, i64)| {
            let sides = Arc::clone(sides);
            tokio::spawn(async move {
                let mut count = 0;
                while begun.elapsed() < time {
                    sides.once(work, writer, &mut version).await;
                    count += 1;
                }
                count
            })
        };
        let tasks: Vec<_> = versions.into_iter().enumerate().map(writer).collect();
        let mut count = 0;
        for task in tasks {
            count += task.await.unwrap();
        }
        count
    });
    count as f64 / begun.elapsed().as_secs_f64()
}

/// Returns the median rate of each kind of write, in writes per second. The kinds are measured in
/// turn.
fn rates(
    runtime: &Runtime,
    sides: &Arc<Sides>,
    works: &[Work],
    writers: usize,
    (rounds, time): (usize, Duration),
) -> Vec<f64> {
    let mut found = vec![Vec::new(); works.len()];
    for round in 0..=rounds {
        for (work, found) in works.iter().zip(&mut found) {
            let rate = rate(runtime, sides, *work, writers, time);
            // Discard the first round, in which statements are prepared and the server compiles its
            // code.
            if round > 0 {
                found.push(rate);
            }
        }
    }
    found.into_iter().map(median).collect()
}

fn appends(
    world: &mut World,
    runtime: &Runtime,
    sides: &Arc<Sides>,
    rounds: (usize, Duration),
    section: &mut Section,
) {
    let mut table = Table::new(
        "Appends/s with three views",
        &["writers", "Recto", "by hand", "by hand / Recto"],
    );
    for writers in WRITERS {
        world.progress.say(&format!("appends, {writers} writers"));
        let rate = rates(
            runtime,
            sides,
            &[Work::Append, Work::AppendByHand],
            writers,
            rounds,
        );
        table.push(
            writers.to_string(),
            [rate[0], rate[1], rate[1] / rate[0]].map(Some),
        );
        section.targets.push(Target::at_most(
            format!("Cassandra, append with 3 views, {writers} writers: time, Recto / by hand"),
            1.1,
            rate[1] / rate[0],
        ));
    }
    section.tables.push(table);
}

fn updates(
    world: &mut World,
    runtime: &Runtime,
    sides: &Arc<Sides>,
    rounds: (usize, Duration),
    section: &mut Section,
) {
    let mut table = Table::new(
        "Updates/s with one view",
        &[
            "writers",
            "Recto",
            "by hand",
            "conditional write alone",
            "by hand / Recto",
            "alone / Recto",
        ],
    );
    for (hot, writers) in WRITERS
        .iter()
        .flat_map(|&writers| [(false, writers), (true, writers)])
    {
        let records = if hot { "one record" } else { "a record each" };
        let name = format!("{writers}, {records}");
        world.progress.say(&format!("updates: {name}"));
        let mut works = vec![Work::Update(hot), Work::UpdateByHand(hot)];
        if !hot {
            works.push(Work::ConditionalWrite);
        }
        let rate = rates(runtime, sides, &works, writers, rounds);
        let alone = rate.get(2).copied();
        let figures = [
            Some(rate[0]),
            Some(rate[1]),
            alone,
            Some(rate[1] / rate[0]),
            alone.map(|alone| alone / rate[0]),
        ];
        table.push(name.clone(), figures);
        section.targets.push(Target::at_most(
            format!("Cassandra, update, {name}: time, Recto / by hand"),
            1.15,
            rate[1] / rate[0],
        ));
    }
    section.tables.push(table);
}

fn pages(world: &mut World, runtime: &Runtime, sides: &Arc<Sides>, section: &mut Section) {
    world.progress.say("pages of views");
    let query = |collection: &Collection<DynamicRecord>| {
        collection
            .query()
            .filter("status = \"open\"")
            .order_by("at desc")
            .page_size(20)
    };
    let asked = [&sides.unverified, &sides.tickets].map(query);
    let contender = |name, query: &PageQuery<DynamicRecord>| {
        let query = query.clone();
        Contender::new(name, move || {
            runtime.block_on(async {
                for _ in 0..PAGES {
                    black_box(query.clone().await.unwrap());
                }
            });
            PAGES
        })
    };
    let mut contenders = vec![
        contender("not verified", &asked[0]),
        contender("verified", &asked[1]),
    ];
    let measured = interleaved(&mut contenders, world.arguments.rounds(PAGE_ROUNDS));
    let ratio = measured[1].over(&measured[0]);
    let mut table = Table::new(
        "First page of 20 of a view, µs",
        &["", "not verified", "verified", "verified / not verified"],
    );
    table.push(
        "20 rows",
        [measured[0].median(), measured[1].median(), ratio].map(Some),
    );
    section.tables.push(table);
    section.targets.push(Target::at_most(
        "Cassandra, page of a view: verified / not verified",
        3.0,
        ratio,
    ));
}
