//! Phases that measure views of the embedded store: their cost for writers, the cost of their
//! pages, and the speed of backfills and comparisons.

mod moves;
mod pages;
mod upkeep;
mod writes;

use crate::report::Section;
use crate::world::World;

/// Cache of the store in bytes. It can contain all data of the phases.
const CACHE_BYTES: u64 = 1 << 30;

pub(super) fn run(world: &mut World) -> Section {
    let folder = world.folder.join("views");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let mut section = Section {
        title: "Views".to_owned(),
        text: format!(
            "{} {} {} {}",
            writes::TEXT,
            pages::TEXT,
            moves::TEXT,
            upkeep::TEXT
        ),
        ..Section::default()
    };
    writes::run(world, &folder, &mut section);
    pages::run(world, &folder, &mut section);
    moves::run(world, &folder, &mut section);
    upkeep::run(world, &folder, &mut section);
    std::fs::remove_dir_all(&folder).unwrap();
    section
}

/// Creates an async runtime with several threads, for concurrent writers.
fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap()
}

/// Creates a store with the given schema in an empty folder, and opens it.
async fn open(folder: &std::path::Path, schema: &recto::schema::Schema) -> recto::Recto {
    let options = recto::OpenOptions::new()
        .create()
        .cache_bytes(usize::try_from(CACHE_BYTES).unwrap());
    let recto = recto::Recto::open_with(&crate::peers::ours::address(folder), options)
        .await
        .unwrap();
    recto.apply(schema).await.unwrap();
    recto
}

/// Returns the schema of the flights with additional views, which are given in TOML.
fn flights(views: &str) -> recto::schema::Schema {
    let own = recto::schema_of([<crate::flights::Flight as recto::Record>::collection()]).to_toml();
    recto::schema::Schema::parse(&format!("{own}\n{views}")).unwrap()
}

/// Inserts `rows` flights into the collection.
async fn store(recto: &recto::Recto, rows: u64) {
    let flights = recto.collection::<crate::flights::Flight>().unwrap();
    let base = crate::flights::read();
    let all: Vec<_> = crate::flights::scaled(&base, rows).collect();
    for chunk in all.chunks(1_000) {
        flights.put_all(chunk).await.unwrap();
    }
}
