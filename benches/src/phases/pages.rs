//! Phase: pages of Recto, SQLite and PostgreSQL, for every filter, depth, direction and size. All
//! data is in memory.

use std::cell::RefCell;

use crate::measure::{Contender, Measured, interleaved};
use crate::peers::ours::Ours;
use crate::peers::postgresql::Postgresql;
use crate::peers::sqlite::{Layout, Sqlite};
use crate::peers::{Filter, Peer, Question, Start, count};
use crate::progress::Progress;
use crate::report::{Section, Table, Target};
use crate::world::{Cache, World};

/// Number of rows, for each depth, at which measured pages start.
const STARTS: usize = 200;
/// Number of rows between two consecutive starts of measured pages.
const ROWS_APART: u32 = 40;
/// Number of pages that each peer reads in a round.
const PAGES: usize = 40;
/// Number of pages by OFFSET that each peer reads in a round. It is small, because the cost of such
/// a page grows with the depth.
const OFFSET_PAGES: usize = 2;
const ROUNDS: usize = 25;
const OFFSET_ROUNDS: usize = 5;
/// Number of pages for which all peers are checked to return the same rows.
const COMPARED: usize = 20;
const SIZES: [u32; 2] = [20, 100];

/// Column titles of the result tables. The last column is the depth: the number of rows before the
/// page.
pub(super) const COLUMNS: [&str; 9] = [
    "page",
    "Recto, µs",
    "SQLite, µs",
    "SQLite WITHOUT ROWID, µs",
    "PostgreSQL, µs",
    "SQLite / Recto",
    "SQLite WITHOUT ROWID / Recto",
    "PostgreSQL / Recto",
    "depth, rows",
];

/// Open databases of all compared programs.
struct Peers {
    ours: Ours,
    indexed: Sqlite,
    without_rowid: Sqlite,
    postgresql: Option<Postgresql>,
}

/// Kind of page to measure: its query, and the number of rows before the page.
#[derive(Clone, Copy)]
struct Case {
    question: Question,
    depth: u64,
}

/// Measured times of one kind of page.
struct Outcome {
    case: Case,
    /// Times of Recto, SQLite, SQLite WITHOUT ROWID and, unless it is disabled, PostgreSQL.
    measured: Vec<Measured>,
}

pub(super) fn run(world: &mut World) -> Result<Section, String> {
    let rounds = world.arguments.rounds(ROUNDS);
    let offset_rounds = world.arguments.rounds(OFFSET_ROUNDS);
    world.data()?.start_postgresql(Cache::Whole);
    let data = world.data()?;
    let mut peers = Peers {
        ours: data.ours(Cache::Whole),
        indexed: data.sqlite(Layout::Indexed, Cache::Whole),
        without_rowid: data.sqlite(Layout::WithoutRowid, Cache::Whole),
        postgresql: data.postgresql(),
    };
    let (span, deepest, rows) = (data.span(), data.deepest(), data.rows);
    let room = STARTS as u64 * u64::from(ROWS_APART) + 200;
    let depths = [0, 1_000, 1_000_000].map(|depth: u64| depth.min(deepest.saturating_sub(room)));
    let mut outcomes = Vec::new();
    for filter in Filter::ALL {
        for depth in depths {
            for_case(
                &mut peers,
                &mut world.progress,
                (filter, depth, span),
                rounds,
                &mut outcomes,
            );
        }
    }
    let offsets = offsets(&mut peers, &mut world.progress, &depths, offset_rounds);
    let mut tables: Vec<Table> = SIZES.into_iter().map(|size| table(size, &outcomes)).collect();
    tables.push(offsets);
    Ok(Section {
        title: "Pages, everything cached".to_owned(),
        text: text(rows, rounds),
        targets: targets(&outcomes, &depths),
        tables,
        ..Section::default()
    })
}

fn text(rows: u64, rounds: usize) -> String {
    format!(
        "{rows} flights, newest first within a carrier. Recto opens a cursor and encrypts the next one. The SQL statements \
are prepared keyset queries with an index on `(carrier, time_hour DESC, flight)`. For eight carriers, they are a \
`UNION ALL` of eight ordered and limited branches. {rounds} rounds of {PAGES} pages."
    )
}

/// Measures the pages of one filter and depth, in both directions and all sizes.
fn for_case(
    peers: &mut Peers,
    progress: &mut Progress,
    (filter, depth, span): (Filter, u64, (i64, i64)),
    rounds: usize,
    outcomes: &mut Vec<Outcome>,
) {
    let question = |rows, backward| Question {
        filter,
        backward,
        rows,
        span,
    };
    progress.say(&format!("{}, reading to depth {depth}", filter.name()));
    let starts = peers
        .ours
        .starts(&question(SIZES[0], false), depth.max(1), STARTS, ROWS_APART);
    for rows in SIZES {
        for backward in [false, true] {
            let way = if backward { "backward" } else { "forward" };
            progress.say(&format!("{}, {rows} rows {way} at depth {depth}", filter.name()));
            let case = Case {
                question: question(rows, backward),
                depth,
            };
            compare(peers, &case, &starts[..COMPARED]);
            outcomes.push(Outcome {
                case,
                measured: measure(peers, &case, &starts, rounds),
            });
        }
    }
}

fn everyone(peers: &mut Peers) -> Vec<(&'static str, &mut dyn Peer)> {
    let mut all: Vec<(&'static str, &mut dyn Peer)> = vec![
        ("Recto", &mut peers.ours),
        ("SQLite", &mut peers.indexed),
        ("WITHOUT ROWID", &mut peers.without_rowid),
    ];
    if let Some(postgresql) = &mut peers.postgresql {
        all.push(("PostgreSQL", postgresql));
    }
    all
}

/// Checks that all peers return the same rows for one kind of page.
fn compare(peers: &mut Peers, case: &Case, starts: &[Start]) {
    let mut expected = Vec::new();
    for (name, peer) in everyone(peers) {
        let mut pages = Vec::new();
        peer.pages(&case.question, starts, case.depth == 0, &mut |page| {
            pages.push(page.to_vec());
        });
        if expected.is_empty() {
            expected = pages;
        } else {
            assert!(pages == expected, "{name} has other rows for {:?}", case.question);
        }
    }
}

fn measure(peers: &mut Peers, case: &Case, starts: &[Start], rounds: usize) -> Vec<Measured> {
    let mut contenders: Vec<Contender<'_>> = everyone(peers)
        .into_iter()
        .map(|(name, peer)| {
            let mut from = 0;
            Contender::new(name, move || {
                let starts = &starts[from..from + PAGES];
                from = (from + PAGES) % (STARTS - PAGES + 1);
                count(peer, &case.question, starts, case.depth == 0);
                PAGES
            })
        })
        .collect();
    interleaved(&mut contenders, rounds)
}

/// Measures pages by OFFSET, and with a plain `IN` for several carriers, compared with Recto's
/// pages at the same depths.
fn offsets(peers: &mut Peers, progress: &mut Progress, depths: &[u64], rounds: usize) -> Table {
    let mut table = Table::new(
        format!(
            "20 rows by OFFSET, with a plain `IN`. A round reads only {OFFSET_PAGES} pages, directly after the peers' scans:"
        ),
        &[
            "page, µs",
            "Recto, by cursor",
            "SQLite",
            "SQLite WITHOUT ROWID",
            "PostgreSQL",
        ],
    );
    for (filter, depth) in depths
        .iter()
        .map(|depth| (Filter::Equal, *depth))
        .chain([(Filter::AnyOf, 1_000)])
    {
        progress.say(&format!("{} by OFFSET {depth}", filter.name()));
        let question = Question {
            filter,
            backward: false,
            rows: SIZES[0],
            span: (0, 0),
        };
        let starts = peers.ours.starts(&question, depth.max(1), OFFSET_PAGES, 1);
        let ours = RefCell::new(&mut peers.ours);
        let (indexed, without_rowid) = (&peers.indexed, &peers.without_rowid);
        let times = move |mut page: Box<dyn FnMut() -> usize + '_>| {
            (0..OFFSET_PAGES).for_each(|_| assert!(page() > 0));
            OFFSET_PAGES
        };
        let mut contenders = vec![
            Contender::new("Recto", || {
                count(*ours.borrow_mut(), &question, &starts, depth == 0).min(OFFSET_PAGES)
            }),
            Contender::new("SQLite", || {
                times(Box::new(|| indexed.at_offset(&question, depth).len()))
            }),
            Contender::new("WITHOUT ROWID", || {
                times(Box::new(|| without_rowid.at_offset(&question, depth).len()))
            }),
        ];
        if let Some(postgresql) = &mut peers.postgresql {
            contenders.push(Contender::new("PostgreSQL", || {
                (0..OFFSET_PAGES).for_each(|_| drop(postgresql.at_offset(&question, depth)));
                OFFSET_PAGES
            }));
        }
        let measured = interleaved(&mut contenders, rounds);
        let figures = (0..4).map(|index| measured.get(index).map(Measured::median));
        table.push(format!("{}, OFFSET {depth}", filter.name()), figures);
    }
    table
}

fn table(size: u32, outcomes: &[Outcome]) -> Table {
    let mut table = Table::new(format!("{size} rows"), &COLUMNS);
    for outcome in outcomes
        .iter()
        .filter(|outcome| outcome.case.question.rows == size)
    {
        let Case { question, depth } = outcome.case;
        let way = if question.backward { "backward" } else { "forward" };
        let place = match (depth, question.backward) {
            (0, false) => "first".to_owned(),
            (0, true) => "last".to_owned(),
            _ => format!("{way}, depth {depth}"),
        };
        let medians = (0..4).map(|index| outcome.measured.get(index).map(Measured::median));
        let ratios = (1..4).map(|index| Some(outcome.measured.get(index)?.over(&outcome.measured[0])));
        let figures: Vec<Option<f64>> = medians.chain(ratios).chain([Some(depth as f64)]).collect();
        table.push(format!("{}, {place}", question.filter.name()), figures);
    }
    table
}

fn targets(outcomes: &[Outcome], depths: &[u64; 3]) -> Vec<Target> {
    let find = |filter, depth, backward| {
        outcomes.iter().find(|outcome| {
            let question = outcome.case.question;
            question.filter == filter
                && question.backward == backward
                && question.rows == SIZES[0]
                && outcome.case.depth == depth
        })
    };
    let mut targets = Vec::new();
    for filter in Filter::ALL {
        for (index, name, wanted) in [
            (1, "SQLite", 3.0),
            (2, "SQLite WITHOUT ROWID", 2.0),
            (3, "PostgreSQL", 5.0),
        ] {
            let ratios = outcomes
                .iter()
                .filter(|outcome| {
                    outcome.case.question.filter == filter && outcome.case.depth >= 1_000.min(depths[2])
                })
                .filter(|outcome| outcome.case.question.rows == SIZES[0])
                .filter_map(|outcome| Some(outcome.measured.get(index)?.over(&outcome.measured[0])));
            let Some(worst) = ratios.min_by_key(|ratio| ratio.to_bits()) else {
                continue;
            };
            let what = format!("{name} / Recto, 20 rows, {}, depth ≥ 1,000", filter.name());
            targets.push(Target::at_least(what, wanted, worst));
        }
        let median =
            |depth, backward| find(filter, depth, backward).map(|outcome| outcome.measured[0].median());
        let name = filter.name();
        if let (Some(deep), Some(near)) = (median(depths[2], false), median(depths[1], false)) {
            targets.push(Target::at_most(
                format!("Recto, depth 10^6 / 10^3, {name}"),
                1.1,
                deep / near,
            ));
        }
        if let (Some(back), Some(forth)) = (median(depths[1], true), median(depths[1], false)) {
            targets.push(Target::at_most(
                format!("Recto, backward / forward, depth 10^3, {name}"),
                1.1,
                back / forth,
            ));
        }
    }
    targets
}
