//! Phase: copies of a collection from one store to another, compared with loading the same records
//! from a file.

use std::fs;
use std::path::Path;
use std::time::Instant;

use recto::StoreAddress;
use recto::session::CopyRequest;

use super::stores;
use crate::peers::ours::address;
use crate::report::{Section, Table};
use crate::world::World;

const ROWS: u64 = 300_000;
/// Number of records in collections whose records can be updated. It is small, because Recto writes
/// such records one by one on Cassandra.
const CHANGING_ROWS: u64 = 20_000;
const QUICK_ROWS: u64 = 5_000;
const MODES: [&str; 2] = ["append", "update"];

pub(super) fn run(world: &mut World) -> Result<Section, String> {
    let folder = world.folder.join("copy");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let runtime = stores::runtime();
    let mut table = Table::new(
        "",
        &[
            "records/s",
            "loaded",
            "copied from a folder",
            "copied from Cassandra",
        ],
    );
    for writes in MODES {
        let rows = match writes {
            _ if world.arguments.quick => QUICK_ROWS,
            "append" => ROWS,
            _ => CHANGING_ROWS,
        };
        let places = |world: &World, name: &str| {
            let own = address(&folder.join(format!("{name}-{writes}")));
            let cassandra = stores::cassandra(world, &format!("{name}_{writes}"));
            let cassandra = StoreAddress::Cassandra(Box::new(cassandra));
            [("a folder", own), ("Cassandra", cassandra)]
        };
        let file = written(&folder, rows);
        let mut sources = Vec::new();
        for (to, place) in places(world, "source") {
            world
                .progress
                .say(&format!("loading {rows} records, {writes}, into {to}"));
            let recto = stores::open(&runtime, &place, Some(&schema(writes)))?;
            sources.push((
                to,
                rows as f64 / stores::load(&runtime, &recto, &file, "notes")?,
                recto,
            ));
        }
        let mut figures = vec![Vec::new(), Vec::new()];
        for (from, _, source) in &sources {
            for ((to, place), figures) in
                places(world, &format!("from_{}", from.replace(' ', "_").to_lowercase()))
                    .iter()
                    .zip(&mut figures)
            {
                world
                    .progress
                    .say(&format!("copying {writes} from {from} into {to}"));
                let target = stores::open(&runtime, place, None)?;
                let started = Instant::now();
                let copied = runtime.block_on(source.copy_to(&target, &CopyRequest::default(), &|_| {}));
                let report = copied.map_err(|error| format!("copy: {error}"))?;
                figures.push(rows as f64 / started.elapsed().as_secs_f64());
                assert_eq!(report.collections[0].target.records, rows, "all are there");
                runtime.block_on(target.close()).unwrap();
            }
        }
        for ((to, loaded, source), copied) in sources.into_iter().zip(figures) {
            let line = std::iter::once(loaded).chain(copied);
            table.push(format!("{rows}, {writes}, into {to}"), line.map(Some));
            runtime.block_on(source.close()).unwrap();
        }
    }
    fs::remove_dir_all(&folder).unwrap();
    Ok(Section {
        title: "Copying".to_owned(),
        text: "Records of about 120 bytes in their own sort order and one view: loaded from a CSV file, or copied with their \
               versions. The time of a copy includes the comparison of both stores."
            .to_owned(),
        tables: vec![table],
        ..Section::default()
    })
}

fn schema(writes: &str) -> String {
    format!(
        "[collection.notes]\nfields = {{ id = \"bigint\", topic = \"text\", body = \"text\" }}\nkey = [\"id\"]\nwrites = \"{writes}\"\n\
         [collection.notes.view.by_topic]\npartition = [\"topic\"]\n"
    )
}

/// Writes a CSV file with `rows` records, 100 for each topic. Returns its path.
fn written(folder: &Path, rows: u64) -> std::path::PathBuf {
    let body = "x".repeat(90);
    let line = |id| format!("{id},topic {},{body}", id % (rows / 100).max(1));
    stores::csv(folder.join("notes.csv"), "id,topic,body", (0..rows).map(line))
}
