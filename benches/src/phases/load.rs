//! Phase: speed of loading CSV files into the embedded store.

use std::fs;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use recto::schema::Schema;
use recto::session::{CsvOptions, LoadRequest};
use recto::{LocalSession, OpenOptions, Recto, Session};

use crate::measure::median;
use crate::peers::ours::address;
use crate::report::{Section, Table, Target};
use crate::world::World;

/// Zip archive with a CSV file of the flights. The next constant is their schema. Both are also the
/// data of the command line's demo.
const ARCHIVE: &[u8] = include_bytes!("../../../crates/recto-cli/data/flights.csv.zip");
const SCHEMA: &str = include_str!("../../../crates/recto-cli/data/flights.toml");
const ROUNDS: usize = 3;
/// Number of copies of the flights in the large CSV file.
const COPIES: usize = 10;

/// Result of loading a file: number of rows, time in seconds, and size of the store on disk in
/// bytes.
struct Loaded {
    rows: u64,
    seconds: f64,
    bytes: u64,
}

pub(super) fn run(world: &mut World) -> Section {
    let rounds = world.arguments.rounds(ROUNDS);
    let folder = world.folder.join("load");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let archive = folder.join("flights.csv.zip");
    fs::write(&archive, ARCHIVE).unwrap();
    let mut four = Schema::parse(SCHEMA).unwrap();
    // Remove views with buckets, because the phase `buckets` measures buckets.
    let in_buckets = |view: &recto::schema::View| view.bucket.is_some();
    Arc::make_mut(&mut four.collections[0])
        .views
        .retain(|view| !in_buckets(view));
    let mut one = four.clone();
    Arc::make_mut(&mut one.collections[0]).views.clear();
    let mut table = Table::new(
        "",
        &["load", "stored rows/s", "seconds", "stored rows", "MB on disk"],
    );
    let mut small = Vec::new();
    for round in 0..rounds {
        world.progress.say(&format!(
            "round {} of {rounds}: the flights in four sort orders",
            round + 1
        ));
        small.push(load(&folder, &archive, &four));
    }
    let rate = median(small.iter().map(|one| one.rows as f64 / one.seconds).collect());
    let seconds = median(small.iter().map(|one| one.seconds).collect());
    let figures = [rate, seconds, small[0].rows as f64, small[0].bytes as f64 / 1e6];
    table.push("336,776 flights (.csv.zip), four sort orders", figures.map(Some));
    if !world.arguments.quick {
        world.progress.say("writing the large file");
        let file = large(&folder);
        for (name, schema) in [("one sort order", &one), ("four sort orders", &four)] {
            world.progress.say(&format!("the large file into {name}"));
            let one = load(&folder, &file, schema);
            let figures = [
                one.rows as f64 / one.seconds,
                one.seconds,
                one.rows as f64,
                one.bytes as f64 / 1e6,
            ];
            table.push(format!("3,367,760 flights (.csv), {name}"), figures.map(Some));
        }
    }
    fs::remove_dir_all(&folder).unwrap();
    Section {
        title: "Loading from CSV".to_owned(),
        text: "`recto load` parses rows, sorts them in a buffer and commits them, with checkpoints. With four sort orders, \
               each CSV row is four stored rows."
            .to_owned(),
        tables: vec![table],
        targets: vec![Target::at_least("load, stored rows/s", 150_000.0, rate)],
        ..Section::default()
    }
}

/// Loads a CSV file of flights into a new store with the given schema, including its views.
fn load(folder: &Path, file: &Path, schema: &Schema) -> Loaded {
    let store = folder.join("store");
    let _ = fs::remove_dir_all(&store);
    // Remove the rejects file of an earlier run, because a load does not overwrite a file that it
    // did not create.
    let rejects = folder.join("rejects.csv");
    let _ = fs::remove_file(&rejects);
    let request = LoadRequest {
        file: file.to_owned(),
        collections: vec!["flights".to_owned()],
        csv: CsvOptions {
            null: vec!["NA".to_owned()],
            ..CsvOptions::default()
        },
        rejects: Some(rejects),
        ..LoadRequest::default()
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let (rows, seconds) = runtime.block_on(async {
        let recto = Recto::open_with(&address(&store), OpenOptions::new().create())
            .await
            .unwrap();
        recto.apply(schema).await.unwrap();
        let session = LocalSession::new(recto);
        let started = Instant::now();
        let report = session.tools().unwrap().load(&request, &|_| {}).await.unwrap();
        let seconds = started.elapsed().as_secs_f64();
        let loaded = &report.collections[0];
        let entries = loaded.views.iter().map(|view| view.entries);
        (loaded.rows_stored + entries.sum::<u64>(), seconds)
    });
    Loaded {
        rows,
        seconds,
        bytes: fs::metadata(store.join("data.redb")).unwrap().len(),
    }
}

/// Writes an uncompressed CSV file with [`COPIES`] copies of the flights, each some years later
/// than the previous one.
fn large(folder: &Path) -> PathBuf {
    let file = folder.join("flights.csv");
    let mut archive = zip::ZipArchive::new(std::io::Cursor::new(ARCHIVE)).unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut archive.by_index(0).unwrap(), &mut text).unwrap();
    let (head, lines) = text.split_once('\n').unwrap();
    let mut writer = BufWriter::new(fs::File::create(&file).unwrap());
    writeln!(writer, "{head}").unwrap();
    for copy in 0..COPIES {
        for line in lines.lines() {
            // Add whole years to the time, which is the last column. The data has no February 29,
            // so every date exists in every year.
            let (rest, moment) = line.rsplit_once(',').unwrap();
            let year: usize = moment[..4].parse().unwrap();
            writeln!(writer, "{rest},{}{}", year + 2 * copy, &moment[4..]).unwrap();
        }
    }
    writer.flush().unwrap();
    file
}
