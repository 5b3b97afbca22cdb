//! Phase: a list stored in buckets, compared with the same list in one partition. Measures pages at
//! the start and a million rows deep, writes, and the share of requests that one node receives.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use recto::session::PageCost;
use recto::{Collection, DynamicRecord, Recto, StoreAddress};
use serde_json::json;
use tokio::runtime::Runtime;

use super::stores;
use crate::measure::{Contender, interleaved, median, quantile};
use crate::report::{Section, Table, Target};
use crate::world::World;

/// Compared collections: name, and the bucket option of the schema, which determines the storage.
const KEPT: [(&str, &str); 4] = [
    ("plain", ""),
    ("bucketed", "bucket = { target = \"1MB\" }"),
    // The list never reaches this target size, so this collection shows the cost of buckets without
    // splits.
    ("unsplit", "bucket = { target = \"1GiB\" }"),
    ("sharded", "bucket = { target = \"1MB\", shards = 8 }"),
];
const ROWS: i64 = 1_001_000;
const QUICK_ROWS: i64 = 101_000;
/// Number of rows that follow the start of the deep pages.
const BEHIND: i64 = 1_000;
const PAGE: u32 = 50;
/// Number of consecutive pages that one round reads.
const PAGES: usize = 20;
const ROUNDS: usize = 30;
/// Number of pages for which the number of read buckets is measured.
const COSTED_PAGES: usize = 2_000;
/// Number of rows in each page that is read to reach the start of the deep pages.
const STRIDE: u32 = 1_000;
const WRITERS: [usize; 3] = [1, 16, 64];
const SPELL: Duration = Duration::from_secs(3);
const WRITE_ROUNDS: usize = 3;
const BODY: &str =
    "a hundred bytes or so of what each row of the list says beside when it came - as short messages do.";

/// Position (column `at`) of the next row that the phase writes.
static NEXT: AtomicI64 = AtomicI64::new(2_000_000_000);

/// The same list in several collections, each with another bucket option.
struct Lists {
    runtime: Runtime,
    recto: Recto,
    of: Vec<(&'static str, Collection<DynamicRecord>)>,
}

pub(super) fn cassandra(world: &mut World) -> Result<Section, String> {
    let mut store = stores::cassandra(world, "buckets");
    // Store one copy of each row, so that it is known which node has a row.
    store.replication = Some("1".to_owned());
    let lists = Lists::open(&StoreAddress::Cassandra(Box::new(store)))?;
    let mut section = measure(world, &lists)?;
    "A list with and without buckets on Cassandra".clone_into(&mut section.title);
    hot_spot(world, &lists, &mut section);
    Ok(section)
}

fn measure(world: &mut World, lists: &Lists) -> Result<Section, String> {
    let rows = if world.arguments.quick { QUICK_ROWS } else { ROWS };
    let folder = world.folder.join("buckets-csv");
    fs::create_dir_all(&folder).unwrap();
    let mut section = Section {
        text: format!(
            "One list of {rows} rows of about 120 bytes, newest first, from a CSV file: in one partition (`plain`), in buckets \
             of 1 MB (`bucketed`), in one bucket that is never split (`unsplit`) and in buckets of eight shards \
             (`sharded`). A round reads {PAGES} pages of {PAGE} rows. Then writers put single rows into another list. \
             Ratios of puts are times."
        ),
        ..Section::default()
    };
    let file = written(&folder, rows);
    let mut loads = Table::new("Loading the list", &["list", "rows/s", "seconds"]);
    for (name, _) in &lists.of {
        world.progress.say(&format!("loading {name}"));
        let seconds = stores::load(&lists.runtime, &lists.recto, &file, name)?;
        loads.push(*name, [rows as f64 / seconds, seconds].map(Some));
    }
    section.tables.push(loads);
    fs::remove_dir_all(&folder).unwrap();
    pages(world, lists, rows, &mut section);
    writes(world, lists, &mut section);
    Ok(section)
}

/// Writes a CSV file with the rows of the list, the oldest row first.
fn written(folder: &Path, rows: i64) -> PathBuf {
    let line = |at| format!("all,{at},{BODY}");
    stores::csv(folder.join("list.csv"), "list,at,body", (0..rows).map(line))
}

impl Lists {
    fn open(store: &StoreAddress) -> Result<Self, String> {
        let runtime = stores::runtime();
        let collection = |(name, bucket): &(&str, &str)| {
            format!(
                "[collection.{name}]\nfields = {{ list = \"text\", at = \"bigint\", body = \"text\" }}\n\
                 key = [\"list\", \"at\"]\npartition = [\"list\"]\norder = [\"-at\"]\nwrites = \"append\"\n{bucket}\n"
            )
        };
        let schema: String = KEPT.iter().map(collection).collect();
        let recto = stores::open(&runtime, store, Some(&schema))?;
        let of = KEPT.iter().map(|(name, _)| (*name, recto.dynamic(name).unwrap()));
        Ok(Self {
            of: of.collect(),
            recto,
            runtime,
        })
    }

    /// Returns the cursor of the row at position `depth` of the list.
    fn cursor_at(&self, list: &Collection<DynamicRecord>, depth: i64) -> String {
        self.runtime.block_on(async {
            let mut cursor: Option<String> = None;
            let mut left = depth;
            loop {
                let size = u32::try_from(left.clamp(1, i64::from(STRIDE))).unwrap();
                let mut query = list.query().filter("list = \"all\"").page_size(size);
                if let Some(cursor) = &cursor {
                    query = query.after(cursor.as_str());
                }
                let page = query.await.unwrap();
                left -= page.len() as i64;
                let next = page.next_cursor().unwrap().to_string();
                if left <= 0 {
                    return next;
                }
                cursor = Some(next);
            }
        })
    }

    /// Reads `pages` consecutive pages after the cursor `from`. Returns the cost of each page.
    fn read(&self, list: &Collection<DynamicRecord>, from: &str, pages: usize) -> Vec<PageCost> {
        self.runtime.block_on(async {
            let (mut cursor, mut costs) = (from.to_owned(), Vec::with_capacity(pages));
            for _ in 0..pages {
                let query = list.query().filter("list = \"all\"").page_size(PAGE);
                let page = query.after(cursor.as_str()).await.unwrap();
                costs.push(page.cost());
                match page.next_cursor() {
                    Some(next) => cursor = next.to_string(),
                    None => break,
                }
            }
            costs
        })
    }
}

fn pages(world: &mut World, lists: &Lists, rows: i64, section: &mut Section) {
    let rounds = world.arguments.rounds(ROUNDS);
    let depth = rows - BEHIND;
    let mut times = Table::new(
        format!("Pages of {PAGE} rows, µs"),
        &["list", "depth 1", &format!("depth {depth}"), "ratio"],
    );
    let mut costs = Table::new(
        "Cost of pages, from the first one on",
        &[
            "list",
            "buckets: mean",
            "p99",
            "max",
            "round trips: mean",
            "max",
            "range map reads",
        ],
    );
    world.progress.say("reading to the depth");
    let cursors: Vec<[String; 2]> = lists
        .of
        .iter()
        .map(|(_, list)| [1, depth].map(|depth| lists.cursor_at(list, depth)))
        .collect();
    world.progress.say("pages");
    let mut contenders: Vec<Contender<'_>> = Vec::new();
    for ((name, list), cursors) in lists.of.iter().zip(&cursors) {
        for cursor in cursors {
            contenders.push(Contender::new(name, move || {
                lists.read(list, cursor, PAGES).len()
            }));
        }
    }
    let measured = interleaved(&mut contenders, rounds);
    drop(contenders);
    for (number, (name, list)) in lists.of.iter().enumerate() {
        let [shallow, deep] = [&measured[2 * number], &measured[2 * number + 1]];
        let figures = [shallow.median(), deep.median(), deep.over(shallow)];
        times.push(*name, figures.map(Some));
        if number > 0 {
            for (depth, at) in [(1, 0), (depth, 1)] {
                section.targets.push(Target::at_most(
                    format!("Cassandra, page of {PAGE}, depth {depth}: {name} / plain"),
                    1.1,
                    measured[2 * number + at].over(&measured[at]),
                ));
            }
            section.targets.push(Target::at_most(
                format!("Cassandra, page of {PAGE}, {name}: depth {depth} / depth 1"),
                1.1,
                deep.over(shallow),
            ));
        }
        let pages = lists.read(list, &cursors[number][0], COSTED_PAGES);
        let of = |figure: &dyn Fn(&PageCost) -> u32| -> Vec<f64> {
            pages.iter().map(|cost| f64::from(figure(cost))).collect()
        };
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let (buckets, stages) = (of(&|cost| cost.buckets), of(&|cost| cost.round_trips));
        let directories = of(&|cost| cost.directory_reads);
        let figures = [
            mean(&buckets),
            quantile(buckets.clone(), 0.99),
            quantile(buckets, 1.0),
            mean(&stages),
            quantile(stages, 1.0),
            mean(&directories),
        ];
        costs.push(*name, figures.map(Some));
    }
    section.tables.extend([times, costs]);
}

/// Returns the number of rows per second that `writers` concurrent writers put into the list with
/// index `of`.
fn rate(lists: &Lists, of: usize, writers: usize, time: Duration) -> f64 {
    let list = &lists.of[of].1;
    let begun = Instant::now();
    let count: u64 = lists.runtime.block_on(async {
        let writer = |_| {
            let list = list.clone();
            tokio::spawn(async move {
                let mut count = 0;
                while begun.elapsed() < time {
                    let at = NEXT.fetch_add(1, Ordering::Relaxed);
                    let row = json!({ "list": "hot", "at": at.to_string(), "body": BODY });
                    let row = DynamicRecord::from_json(list.definition(), row.as_object().unwrap()).unwrap();
                    list.put(&row).await.unwrap();
                    count += 1;
                }
                count
            })
        };
        let tasks: Vec<_> = (0..writers).map(writer).collect();
        let mut count = 0;
        for task in tasks {
            count += task.await.unwrap();
        }
        count
    });
    count as f64 / begun.elapsed().as_secs_f64()
}

fn writes(world: &mut World, lists: &Lists, section: &mut Section) {
    let rounds = world.arguments.rounds(WRITE_ROUNDS);
    let time = if world.arguments.quick { SPELL / 5 } else { SPELL };
    let names = lists.of.iter().map(|(name, _)| *name);
    let ratios: Vec<String> = names
        .clone()
        .skip(1)
        .map(|name| format!("plain / {name}"))
        .collect();
    let columns: Vec<&str> = std::iter::once("writers")
        .chain(names)
        .chain(ratios.iter().map(String::as_str))
        .collect();
    let mut table = Table::new("Puts/s into one list", &columns);
    for writers in WRITERS {
        world.progress.say(&format!("puts, {writers} writers"));
        let mut found = vec![Vec::new(); lists.of.len()];
        for round in 0..=rounds {
            for (of, found) in found.iter_mut().enumerate() {
                let rate = rate(lists, of, writers, time);
                // Discard the first round, in which statements are prepared and the server compiles
                // its code.
                if round > 0 {
                    found.push(rate);
                }
            }
        }
        let rates: Vec<f64> = found.into_iter().map(median).collect();
        let ratios: Vec<f64> = rates[1..].iter().map(|rate| rates[0] / rate).collect();
        // Set a target only for `unsplit`. The buckets of the other lists are split all the time,
        // and a write during a split goes to two buckets.
        let unsplit = KEPT[1..]
            .iter()
            .zip(&ratios)
            .filter(|((name, _), _)| *name == "unsplit");
        for ((name, _), ratio) in unsplit {
            section.targets.push(Target::at_most(
                format!("Cassandra, put, {writers} writers: time, {name} / plain"),
                1.15,
                *ratio,
            ));
        }
        table.push(writers.to_string(), rates.into_iter().chain(ratios).map(Some));
    }
    section.tables.push(table);
}

/// Measures the share of requests that each node receives, while all writers write to one list.
fn hot_spot(world: &mut World, lists: &Lists, section: &mut Section) {
    let mut table = Table::new(
        "64 writers put rows into one list, with one copy of each row:",
        &[
            "list",
            "nodes",
            "requests of the busiest node",
            "of the idlest node",
        ],
    );
    for (of, (name, _)) in lists.of.iter().enumerate() {
        world.progress.say(&format!("puts by node: {name}"));
        let requests = || -> Vec<u64> {
            let nodes = lists.recto.store_metrics().nodes;
            nodes.iter().map(|node| node.requests).collect()
        };
        let before = requests();
        rate(lists, of, 64, SPELL);
        let sent: Vec<u64> = requests()
            .iter()
            .zip(&before)
            .map(|(now, then)| now - then)
            .collect();
        let all = sent.iter().sum::<u64>() as f64;
        let share = |count: Option<&u64>| count.map(|count| *count as f64 / all);
        table.push(
            *name,
            [
                Some(sent.len() as f64),
                share(sent.iter().max()),
                share(sent.iter().min()),
            ],
        );
    }
    section.tables.push(table);
}
