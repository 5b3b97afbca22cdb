//! Phase: speed of the backfill of a view, and of the comparison of a view with its records, while
//! writers write.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::{Duration, Instant};

use recto::session::VerifyRequest;
use recto::{Collection, Recto};
use tokio::runtime::Runtime;

use crate::flights::{self, Flight};
use crate::report::{Section, Table};
use crate::world::World;

pub(super) const TEXT: &str = "A view by route is filled from the flights and compared with them, first alone and \
    then with four concurrent writers that put flights. Rows are those of the base table.";

const ROWS: u64 = 336_776;
const QUICK_ROWS: u64 = 20_000;
const WRITERS: usize = 4;
/// Time for which the writers are measured alone, without a backfill or comparison.
const ALONE: Duration = Duration::from_secs(3);

/// Returns the TOML of a view of flights by route. With a new `name`, the store treats it as a new
/// view and backfills it.
fn view(name: &str) -> String {
    format!(
        "[collection.flights.view.{name}]\npartition = [\"origin\", \"dest\"]\norder = [\"-time_hour\"]\n"
    )
}

/// Flight number of the next flight that a writer inserts.
static NEXT: AtomicI32 = AtomicI32::new(1_000_000);

pub(super) fn run(world: &mut World, folder: &Path, section: &mut Section) {
    let rows = if world.arguments.quick { QUICK_ROWS } else { ROWS };
    let runtime = super::runtime();
    world.progress.say("storing the flights without views");
    let recto = runtime.block_on(async {
        let recto = super::open(&folder.join("upkeep"), &super::flights("")).await;
        super::store(&recto, rows).await;
        recto
    });
    let alone = runtime.block_on(async {
        let writers = Writers::begin(&recto);
        tokio::time::sleep(ALONE).await;
        writers.end().await
    });
    let mut table = Table::new(
        "Filling and comparing a view",
        &[
            "",
            "rows/s",
            "rows/s with 4 writers",
            "puts/s meanwhile",
            "puts/s alone",
        ],
    );
    for work in [Work::Fill, Work::Compare] {
        world.progress.say(work.name());
        let by_itself = rate(&runtime, &recto, work, 1, rows);
        let begun = Writers::begin(&recto);
        let beside = rate(&runtime, &recto, work, 2, rows);
        let puts = runtime.block_on(begun.end());
        table.push(work.name(), [by_itself, beside, puts, alone].map(Some));
    }
    section.tables.push(table);
}

#[derive(Debug, Clone, Copy)]
enum Work {
    Fill,
    Compare,
}

impl Work {
    fn name(self) -> &'static str {
        match self {
            Self::Fill => "filling a view",
            Self::Compare => "comparing a view",
        }
    }
}

/// Runs a backfill or a comparison of a view. Returns the number of rows per second that it
/// processes.
fn rate(runtime: &Runtime, recto: &Recto, work: Work, turn: usize, rows: u64) -> f64 {
    let begun = Instant::now();
    runtime.block_on(async {
        match work {
            Work::Fill => {
                let views: Vec<String> = (1..=turn).map(|turn| view(&format!("by_route_{turn}"))).collect();
                recto.apply(&super::flights(&views.concat())).await.unwrap();
            }
            Work::Compare => {
                let report = recto.verify(&VerifyRequest::default(), &|_| {}).await.unwrap();
                let wrong = |view: &recto::session::VerifiedView| view.missing + view.orphan + view.differing;
                assert_eq!(report.views.iter().map(wrong).sum::<u64>(), 0);
            }
        }
    });
    // A comparison reads the rows of two views, so each row counts twice.
    let views = match work {
        Work::Fill => 1,
        Work::Compare => 2,
    };
    (rows * views) as f64 / begun.elapsed().as_secs_f64()
}

/// Concurrent writers, which insert rows until the phase stops them.
struct Writers {
    runtime: Runtime,
    begun: Instant,
    ended: Arc<AtomicBool>,
    tasks: Vec<tokio::task::JoinHandle<u64>>,
}

impl Writers {
    fn begin(recto: &Recto) -> Self {
        let runtime = super::runtime();
        let ended = Arc::new(AtomicBool::new(false));
        let base = Arc::new(flights::read());
        let write = |_| {
            let flights = recto.collection::<Flight>().unwrap();
            let (base, ended) = (Arc::clone(&base), Arc::clone(&ended));
            runtime.spawn(async move { write(flights, &base, &ended).await })
        };
        let tasks = (0..WRITERS).map(write).collect();
        Self {
            begun: Instant::now(),
            runtime,
            ended,
            tasks,
        }
    }

    /// Stops the writers. Returns the number of rows per second that they inserted together.
    async fn end(self) -> f64 {
        let seconds = self.begun.elapsed().as_secs_f64();
        self.ended.store(true, Ordering::Relaxed);
        let mut count = 0;
        for task in self.tasks {
            count += task.await.unwrap();
        }
        self.runtime.shutdown_background();
        count as f64 / seconds
    }
}

async fn write(flights: Collection<Flight>, base: &[Flight], ended: &AtomicBool) -> u64 {
    let mut count = 0;
    while !ended.load(Ordering::Relaxed) {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut flight = base[number as usize % base.len()].clone();
        flight.flight = number;
        flights.put(&flight).await.unwrap();
        count += 1;
    }
    count
}
