//! Phase: pages of Cassandra with Recto, compared with hand-written statements of the driver.

use std::hint::black_box;
use std::time::Duration;

use recto::session::PageCost;
use recto::{CassandraAddress, Collection, OpenOptions, PageQuery, Record, Recto, StoreAddress};
use tokio::runtime::Runtime;

use crate::flights::{self, CARRIER, CARRIERS, Flight, FlightDown, Keyed, scaled};
use crate::measure::{Contender, Measured, interleaved};
use crate::peers::Start;
use crate::peers::driver::{Driver, Page};
use crate::report::{Section, Table, Target};
use crate::world::World;

const ROWS: u64 = 60_000;
const QUICK_ROWS: u64 = 10_000;
/// Number of rows that one call to Recto stores.
const CHUNK_ROWS: usize = 1_000;
const STARTS: usize = 100;
const DEPTH: u32 = 1_000;
/// Number of pages that Recto and the driver each read in a round.
const PAGES: usize = 50;
/// Number of rounds. Many are necessary, because most of the time is spent in the server and in
/// process switches, and varies. With 30 rounds, the medians of two runs differ by up to a tenth.
const ROUNDS: usize = 100;
/// Time limit of a request to Cassandra. It is long, because the measurements keep the machine
/// busy.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Kind of page to measure. The first value of a variant is the number of rows of the page. The
/// flag of `Merged` says whether the page is the first one. The flag of the other variants says
/// whether the page is before a row (backward).
#[derive(Debug, Clone, Copy, PartialEq)]
enum Case {
    First(u32),
    OneDirection(u32, bool),
    Mixed(u32, bool),
    Merged(u32, bool),
}

const CASES: [Case; 9] = [
    Case::First(20),
    Case::OneDirection(20, false),
    Case::OneDirection(20, true),
    Case::OneDirection(100, false),
    Case::Mixed(20, false),
    Case::Mixed(20, true),
    Case::Mixed(100, false),
    Case::Merged(20, true),
    Case::Merged(20, false),
];

impl Case {
    fn name(self) -> String {
        let way = |backward| if backward { "before" } else { "after" };
        match self {
            Self::First(rows) => format!("first page, {rows} rows"),
            Self::OneDirection(rows, backward) => {
                format!("{rows} rows {} a row, one direction", way(backward))
            }
            Self::Mixed(rows, backward) => format!("{rows} rows {} a row, mixed directions", way(backward)),
            Self::Merged(rows, true) => format!("`IN` of 8, first {rows} rows"),
            Self::Merged(rows, false) => format!("`IN` of 8, {rows} rows after a row"),
        }
    }
}

/// Recto and the driver, connected to the same tables, with the queries that are compared.
struct Sides {
    runtime: Runtime,
    driver: Driver,
    mixed: PageQuery<Flight>,
    down: PageQuery<FlightDown>,
    merged: PageQuery<Flight>,
    /// Rows at which measured pages start, in the orders of the queries `mixed`, `down` and
    /// `merged`.
    starts: [Vec<Start>; 3],
}

pub(super) fn run(world: &mut World) -> Result<Section, String> {
    let rounds = world.arguments.rounds(ROUNDS);
    let rows = if world.arguments.quick { QUICK_ROWS } else { ROWS };
    let keyspace = format!("recto_benches_{}", std::process::id());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let sides = {
        let address = world.arguments.cassandra.clone();
        let progress = &mut world.progress;
        let mut say = |what: &str| progress.say(what);
        let (recto, driver) = runtime.block_on(open(&address, &keyspace, rows, &mut say))?;
        Sides::new(runtime, &recto, driver)
    };
    let version = sides.runtime.block_on(sides.driver.version());
    let mut times = Table::new("", &["page", "Recto, µs", "by hand, µs", "Recto / by hand"]);
    let mut counts = Table::new(
        "Cost of one page",
        &[
            "page",
            "Recto: round trips",
            "statements",
            "rows read",
            "by hand: round trips",
            "statements",
            "rows read",
        ],
    );
    let mut targets = Vec::new();
    for case in CASES {
        world.progress.say(&case.name());
        let (ours, theirs) = sides.compare(case);
        let measured = sides.measure(case, rounds);
        let ratio = measured[0].over(&measured[1]);
        times.push(
            case.name(),
            [measured[0].median(), measured[1].median(), ratio].map(Some),
        );
        let figures = [
            f64::from(ours.round_trips),
            f64::from(ours.statements),
            ours.rows_read as f64,
            f64::from(theirs.round_trips),
            f64::from(theirs.statements),
            theirs.rows_read as f64,
        ];
        counts.push(case.name(), figures.map(Some));
        targets.push(Target::at_most(
            format!("Cassandra, {}: Recto / by hand", case.name()),
            1.05,
            ratio,
        ));
    }
    sides.runtime.block_on(sides.driver.drop_keyspace(&keyspace));
    Ok(Section {
        title: "Pages of Cassandra".to_owned(),
        text: format!(
            "Apache Cassandra {version}, one node, {rows} flights, `LOCAL_QUORUM`, all statements prepared, depth {DEPTH} \
             beyond first pages. \"By hand\" is the driver with its defaults: a statement for each run of columns in one \
             direction, and eight concurrent reads for eight carriers. Recto sends the same statements, and also opens \
             and encrypts cursors. {rounds} rounds of {PAGES} pages."
        ),
        tables: vec![times, counts],
        targets,
        ..Section::default()
    })
}

/// Awaits a page of Recto, and encrypts the cursor at its far end. Returns the cost of the page
/// and, if `keys` is true, the keys of its rows.
async fn read<T: Keyed + Send + 'static>(
    query: PageQuery<T>,
    backward: bool,
    keys: bool,
) -> (Vec<(i64, String, i32)>, PageCost) {
    let page = query.await.unwrap();
    black_box(if backward {
        page.previous_cursor()
    } else {
        page.next_cursor()
    });
    let found = if keys {
        page.iter().map(Keyed::key).collect()
    } else {
        Vec::new()
    };
    (found, page.cost())
}

/// Creates a keyspace with the flights, and opens it with Recto and with the driver.
async fn open(
    address: &str,
    keyspace: &str,
    rows: u64,
    say: &mut dyn FnMut(&str),
) -> Result<(Recto, Driver), String> {
    let store = StoreAddress::Cassandra(Box::new(CassandraAddress::new(
        vec![address.to_owned()],
        keyspace,
    )));
    let options = OpenOptions::new().create().request_timeout(TIMEOUT);
    let recto = Recto::open_with(&store, options)
        .await
        .map_err(|error| format!("Cassandra: {error}; `recto-rig start` starts one"))?;
    let schema = recto::schema_of([Flight::collection(), FlightDown::collection()]);
    recto.apply(&schema).await.unwrap();
    let (mixed, down) = (
        recto.collection::<Flight>().unwrap(),
        recto.collection::<FlightDown>().unwrap(),
    );
    let base = flights::read();
    let all: Vec<Flight> = scaled(&base, rows).collect();
    for (index, chunk) in all.chunks(CHUNK_ROWS).enumerate() {
        say(&format!("storing, {} rows", index * CHUNK_ROWS));
        let mut batch = recto.batch();
        batch.each_for_itself();
        for flight in chunk {
            batch.put(&mixed, flight).unwrap();
            batch.put(&down, &FlightDown::from(flight)).unwrap();
        }
        batch.commit().await.unwrap();
    }
    Ok((recto, Driver::connect(address, keyspace).await))
}

/// Returns the rows at which measured pages start: the rows of the query after the first [`DEPTH`]
/// rows.
async fn starts<T: Keyed + Send + 'static>(query: &PageQuery<T>) -> Vec<Start> {
    let way = query.clone().first(DEPTH).await.unwrap();
    let next = way
        .next_cursor()
        .expect("there are more rows than the way is long");
    let page = query.clone().first(STARTS as u32).after(next).await.unwrap();
    let start = |(index, row): (usize, &T)| {
        let (time_hour, carrier, flight) = row.key();
        Start {
            cursor: page.cursor(index).as_str().to_owned(),
            time_hour,
            carrier,
            flight,
        }
    };
    page.iter().enumerate().map(start).collect()
}

impl Sides {
    fn new(runtime: Runtime, recto: &Recto, driver: Driver) -> Self {
        let flights: Collection<Flight> = recto.collection().unwrap();
        let one = format!("carrier = \"{CARRIER}\"");
        let eight = CARRIERS
            .map(|carrier| format!("carrier = \"{carrier}\""))
            .join(" OR ");
        let mixed = flights.query().filter(&one);
        let merged = flights.query().filter(eight).order_by("time_hour desc");
        let down = recto.collection::<FlightDown>().unwrap().query().filter(&one);
        let starts =
            runtime.block_on(async { [starts(&mixed).await, starts(&down).await, starts(&merged).await] });
        Self {
            runtime,
            driver,
            mixed,
            down,
            merged,
            starts,
        }
    }

    fn starts(&self, case: Case) -> &[Start] {
        match case {
            Case::First(_) | Case::Mixed(..) => &self.starts[0],
            Case::OneDirection(..) => &self.starts[1],
            Case::Merged(..) => &self.starts[2],
        }
    }

    /// Reads the page `case` with Recto. Returns its cost and, if `keys` is true, the keys of its
    /// rows.
    async fn ours(&self, case: Case, start: &Start, keys: bool) -> (Vec<(i64, String, i32)>, PageCost) {
        let cursor = start.cursor.as_str();
        let (mixed, down, merged) = (self.mixed.clone(), self.down.clone(), self.merged.clone());
        match case {
            Case::First(rows) => read(mixed.first(rows), false, keys).await,
            Case::Mixed(rows, false) => read(mixed.first(rows).after(cursor), false, keys).await,
            Case::Mixed(rows, true) => read(mixed.last(rows).before(cursor), true, keys).await,
            Case::OneDirection(rows, false) => read(down.first(rows).after(cursor), false, keys).await,
            Case::OneDirection(rows, true) => read(down.last(rows).before(cursor), true, keys).await,
            Case::Merged(rows, true) => read(merged.first(rows), false, keys).await,
            Case::Merged(rows, false) => read(merged.first(rows).after(cursor), false, keys).await,
        }
    }

    async fn theirs(&self, case: Case, start: &Start) -> Page {
        match case {
            Case::First(rows) => self.driver.first(rows as i32).await,
            Case::OneDirection(rows, backward) => {
                self.driver.one_direction(start, rows as i32, backward).await
            }
            Case::Mixed(rows, backward) => self.driver.mixed(start, rows as i32, backward).await,
            Case::Merged(rows, is_first) => {
                self.driver
                    .merged((!is_first).then_some(start), rows as i32)
                    .await
            }
        }
    }

    /// Checks that Recto and the driver return the same rows. Returns the cost of the last page,
    /// with Recto and with the driver.
    fn compare(&self, case: Case) -> (PageCost, Page) {
        self.runtime.block_on(async {
            let mut last = None;
            for start in self.starts(case) {
                let (ours, cost) = self.ours(case, start, true).await;
                let theirs = self.theirs(case, start).await;
                let keys: Vec<_> = theirs.rows.iter().map(crate::peers::driver::Row::key).collect();
                assert_eq!(ours, keys, "{}", case.name());
                last = Some((cost, theirs));
            }
            last.expect("there are places")
        })
    }

    fn measure(&self, case: Case, rounds: usize) -> Vec<Measured> {
        let starts = &self.starts(case)[..PAGES];
        let mut contenders = vec![
            Contender::new("Recto", || {
                self.runtime.block_on(async {
                    for start in starts {
                        black_box(self.ours(case, start, false).await);
                    }
                });
                PAGES
            }),
            Contender::new("by hand", || {
                self.runtime.block_on(async {
                    for start in starts {
                        black_box(self.theirs(case, start).await.rows);
                    }
                });
                PAGES
            }),
        ];
        interleaved(&mut contenders, rounds)
    }
}
