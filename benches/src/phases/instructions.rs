//! Phase: processor instructions per page, counted by valgrind's callgrind. Unlike times, they do
//! not depend on other load of the machine.

use std::path::Path;
use std::process::Command;

use crate::flights;
use crate::peers::engine::Engine;
use crate::peers::ours::Ours;
use crate::peers::sqlite::{self, Layout, Sqlite};
use crate::peers::{Filter, Peer, Question, count};
use crate::report::{Section, Table};
use crate::world::{World, for_chunks};

/// Number of rows. It is small to save time: more rows would only add a level to the store's tree.
const ROWS: u64 = 50_000;
const CACHE_BYTES: u64 = 256 << 20;
const STARTS: usize = 20;
const ROWS_APART: u32 = 40;
const DEPTH: u64 = 1_000;
/// Number of pages in each of two runs. The number of instructions per page is the difference in
/// instructions, divided by the difference in pages.
const PAGES: [usize; 2] = [100, 500];
/// Argument of the command `loop` with which it creates the data if necessary, and reads no pages.
const PREPARE: &str = "prepare";

/// Kind of page whose instructions are counted. A process under valgrind reads such pages
/// repeatedly.
struct Shape {
    name: &'static str,
    about: &'static str,
    filter: Filter,
    rows: u32,
    backward: bool,
    first: bool,
    side: Side,
}

#[derive(Clone, Copy, PartialEq)]
enum Side {
    Recto,
    Engine,
    Sqlite(Layout),
}

const fn shape(name: &'static str, about: &'static str, filter: Filter, rows: u32, side: Side) -> Shape {
    Shape {
        name,
        about,
        filter,
        rows,
        backward: false,
        first: false,
        side,
    }
}

const fn backward(shape: Shape) -> Shape {
    Shape {
        backward: true,
        ..shape
    }
}

const fn first(shape: Shape) -> Shape {
    Shape { first: true, ..shape }
}

use Filter::{AnyOf, Equal, Range};
use Side::{Engine as OfEngine, Recto as OfRecto, Sqlite as OfSqlite};

const SHAPES: [Shape; 12] = [
    shape(
        "engine",
        "the engine's own read of 21 raw rows",
        Equal,
        20,
        OfEngine,
    ),
    first(shape("first", "Recto, first page", Equal, 20, OfRecto)),
    shape("after", "Recto, after a row", Equal, 20, OfRecto),
    backward(shape("before", "Recto, before a row", Equal, 20, OfRecto)),
    shape("after100", "Recto, 100 rows after a row", Equal, 100, OfRecto),
    shape("range", "Recto, after a row, with a range", Range, 20, OfRecto),
    shape("in8", "Recto, after a row, `IN` of 8", AnyOf, 20, OfRecto),
    backward(shape(
        "in8-before",
        "Recto, before a row, `IN` of 8",
        AnyOf,
        20,
        OfRecto,
    )),
    shape(
        "sqlite",
        "SQLite, after a row",
        Equal,
        20,
        OfSqlite(Layout::Indexed),
    ),
    shape(
        "sqlite-wr",
        "SQLite WITHOUT ROWID, after a row",
        Equal,
        20,
        OfSqlite(Layout::WithoutRowid),
    ),
    shape(
        "sqlite-in8",
        "SQLite, after a row, `IN` of 8",
        AnyOf,
        20,
        OfSqlite(Layout::Indexed),
    ),
    shape(
        "sqlite-wr-in8",
        "SQLite WITHOUT ROWID, after a row, `IN` of 8",
        AnyOf,
        20,
        OfSqlite(Layout::WithoutRowid),
    ),
];

pub(super) fn run(world: &mut World) -> Result<Section, String> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        return Err(
            "valgrind is not installed. hint: apt-get install valgrind, or leave out `instructions`"
                .to_owned(),
        );
    }
    let folder = world.folder.join("instructions");
    let _ = std::fs::remove_dir_all(&folder);
    prepare(&folder);
    let mut table = Table::new(
        "",
        &["page of 20 rows, unless stated", "instructions", "/ engine"],
    );
    let mut floor = None;
    for shape in &SHAPES {
        world.progress.say(shape.about);
        let counted: Vec<f64> = PAGES
            .into_iter()
            .map(|pages| instructions(&folder, shape.name, pages))
            .collect::<Result<_, _>>()?;
        let each = (counted[1] - counted[0]) / (PAGES[1] - PAGES[0]) as f64;
        let floor = *floor.get_or_insert(each);
        table.push(shape.about, [Some(each), Some(each / floor)]);
    }
    let _ = std::fs::remove_dir_all(&folder);
    Ok(Section {
        title: "Instructions of a page".to_owned(),
        text: format!(
            "Counted by callgrind, so they do not depend on the load of the machine: the difference of runs of {} and {} pages, \
             divided by its number of pages. Pages have 20 of {ROWS} flights, decoded, with the next cursor.",
            PAGES[0], PAGES[1]
        ),
        tables: vec![table],
        ..Section::default()
    })
}

/// Runs this program under valgrind, to read a number of pages of one kind. Returns the number of
/// instructions of the whole run.
fn instructions(folder: &Path, shape: &str, pages: usize) -> Result<f64, String> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe().unwrap())
        .args([
            "loop",
            shape,
            &pages.to_string(),
            "--folder",
            folder.to_str().unwrap(),
        ])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    let counted = text
        .lines()
        .find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok());
    counted.ok_or_else(|| format!("valgrind counted nothing:\n{text}"))
}

/// Creates the data in a separate process, so that the counted runs find existing data.
fn prepare(folder: &Path) {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["loop", PREPARE, "0", "--folder", folder.to_str().unwrap()])
        .status()
        .unwrap();
    assert!(status.success(), "could not create the data");
}

fn make(folder: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    let base = flights::read();
    let ours = Ours::open(&folder.join("recto"), CACHE_BYTES);
    for_chunks(&base, ROWS, |chunk, _| {
        ours.runtime.block_on(ours.flights.put_all(chunk)).unwrap();
    });
    drop(ours);
    for layout in Layout::ALL {
        let connection = sqlite::open(&layout.file(folder), CACHE_BYTES, false, "NORMAL");
        sqlite::create(&connection, layout);
        for_chunks(&base, ROWS, |chunk, _| sqlite::insert(&connection, chunk));
        sqlite::index(&connection, layout);
    }
}

/// Reads a number of pages of the kind named `shape`, for valgrind or a profiler.
///
/// # Errors
/// Returns a message if there is no kind with this name.
pub(crate) fn read_in_a_loop(folder: &Path, shape: &str, pages: usize) -> Result<(), String> {
    if shape == PREPARE {
        make(folder);
        return Ok(());
    }
    let Some(shape) = SHAPES.iter().find(|one| one.name == shape) else {
        let names: Vec<String> = SHAPES
            .iter()
            .map(|one| format!("{:14} {}", one.name, one.about))
            .collect();
        return Err(format!("the shapes are\n    {}", names.join("\n    ")));
    };
    if !folder.exists() {
        make(folder);
    }
    let file = folder.join("recto/data.redb");
    if shape.side == Side::Engine {
        let engine = Engine::open(&file, CACHE_BYTES);
        let keys = engine.keys(DEPTH as usize, STARTS, ROWS_APART as usize);
        (0..pages).for_each(|page| assert_eq!(engine.read(Some(&keys[page % STARTS]), shape.rows + 1), 21));
        return Ok(());
    }
    let question = Question {
        filter: shape.filter,
        backward: shape.backward,
        rows: shape.rows,
        // Time span from 2013 to 2100 in milliseconds, which contains every flight.
        span: (1_356_998_400_000, 4_102_444_800_000),
    };
    let mut ours = Ours::open(&folder.join("recto"), CACHE_BYTES);
    let starts = ours.starts(&question, DEPTH, STARTS, ROWS_APART);
    let mut peer: Box<dyn Peer> = match shape.side {
        Side::Sqlite(layout) => Box::new(Sqlite::open(folder, layout, CACHE_BYTES, true)),
        _ => Box::new(ours),
    };
    for page in 0..pages {
        let start = &starts[page % STARTS..=page % STARTS];
        assert!(count(peer.as_mut(), &question, start, shape.first) > 0);
    }
    Ok(())
}
