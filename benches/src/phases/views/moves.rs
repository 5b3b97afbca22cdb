//! Phase: pages of a view in which one record has changed its position many times.

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use recto::schema::Schema;
use recto::{Collection, DynamicRecord, PageQuery};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::measure::{median, micros};
use crate::peers::ours;
use crate::report::{Section, Table};
use crate::world::World;

pub(super) const TEXT: &str = "The first page of 20 of a view is read again after one of the 1,000 records of the \
    partition moved to the front many times.";

const SCHEMA: &str = "
[collection.tickets]
fields = { id = \"int\", status = \"text\", changed = \"bigint\", title = \"text\" }
key = [\"id\"]

[collection.tickets.view.by_status]
partition = [\"status\"]
order = [\"-changed\"]
";

const RECORDS: i32 = 1_000;
const MOVES: [i64; 3] = [0, 1_000, 30_000];
const QUICK_MOVES: i64 = 1_000;
const PAGES: usize = 300;

pub(super) fn run(world: &mut World, folder: &Path, section: &mut Section) {
    let runtime = ours::runtime();
    let recto = runtime.block_on(super::open(
        &folder.join("moves"),
        &Schema::parse(SCHEMA).unwrap(),
    ));
    let tickets = recto.dynamic("tickets").unwrap();
    let record = |id: i32| {
        let record = json!({ "id": id, "status": "open", "changed": id.to_string(), "title": "a ticket" });
        DynamicRecord::from_json(tickets.definition(), record.as_object().unwrap()).unwrap()
    };
    let records: Vec<DynamicRecord> = (0..RECORDS).map(record).collect();
    runtime.block_on(async {
        for record in &records {
            tickets.put(record).await.unwrap();
        }
    });
    let query = tickets.query().filter("status = \"open\"").page_size(20);
    let mut table = Table::new(
        "First page of a view, after one record moved",
        &["moves", "page, µs", "moves/s"],
    );
    let mut moved = 0;
    for moves in MOVES {
        if world.arguments.quick && moves > QUICK_MOVES {
            continue;
        }
        world.progress.say(&format!("one record moves {moves} times"));
        let missing = moves - moved;
        let begun = Instant::now();
        runtime.block_on(again(&tickets, i64::from(RECORDS) + moved, missing));
        let seconds = begun.elapsed().as_secs_f64();
        moved = moves;
        let rate = (missing > 0).then(|| missing as f64 / seconds);
        table.push(moves.to_string(), [Some(page(&runtime, &query)), rate]);
    }
    section.tables.push(table);
}

/// Updates one record `moves` times. Each update moves it to the front of the view.
async fn again(tickets: &Collection<DynamicRecord>, from: i64, moves: i64) {
    for step in 0..moves {
        let update = tickets.update(RECORDS / 2).set("changed", from + step);
        update.await.unwrap();
    }
}

/// Returns the median time to read a page, in microseconds.
fn page(runtime: &Runtime, query: &PageQuery<DynamicRecord>) -> f64 {
    let pages = (0..PAGES).map(|_| {
        let started = Instant::now();
        black_box(runtime.block_on(query.clone().into_future()).unwrap());
        micros(started.elapsed())
    });
    median(pages.collect())
}
