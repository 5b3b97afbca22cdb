//! Pages of real data beside SQLite's keyset pages over the same rows with the matching index.
//!
//! Run it with `cargo run --release -p recto-benches`. Both sides decode every row into the same
//! struct. Rounds are interleaved, and medians are printed, so that a machine whose speed drifts
//! drifts for both.
#![allow(
    clippy::doc_markdown,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used
)]

mod flights;
mod sqlite;

use std::time::{Duration, Instant};

use recto::{Collection, OpenOptions, Record, Recto, StoreAddress};

use flights::Flight;
use sqlite::Layout;

/// Rows of a page.
const PAGE_ROWS: u32 = 20;
/// How deep the pages lie, at least.
const DEPTH_ROWS: usize = 1_000;
/// Cursors that pages are read from, in turn.
const CURSORS: usize = 200;
/// Rounds of all cursors.
const ROUNDS: usize = 30;
/// Rows stored at a time.
const CHUNK_ROWS: usize = 10_000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> recto::Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let flights = flights::read();
    println!("{} flights", flights.len());

    let address: StoreAddress = folder.path().join("recto").to_str().unwrap().parse()?;
    let mut store = Recto::open_with(&address, OpenOptions::new().create()).await?;
    store.apply(&recto::schema_of([Flight::collection()])).await?;
    let collection = store.collection::<Flight>()?;
    let started = Instant::now();
    for chunk in flights.chunks(CHUNK_ROWS) {
        collection.put_all(chunk).await?;
    }
    println!(
        "put_all: {:.0} rows/s",
        flights.len() as f64 / started.elapsed().as_secs_f64()
    );
    let plain = sqlite::Peer::load(&folder.path().join("plain.db"), Layout::Indexed, &flights);
    let clustered = sqlite::Peer::load(
        &folder.path().join("clustered.db"),
        Layout::WithoutRowid,
        &flights,
    );

    let starts = starts(&collection).await?;
    check_same_rows(&collection, &plain, &starts).await?;
    let (mut ours, mut backward, mut first) = (Vec::new(), Vec::new(), Vec::new());
    let (mut theirs, mut theirs_clustered) = (Vec::new(), Vec::new());
    let query = collection.query().filter(r#"carrier = "UA""#);
    for _ in 0..ROUNDS {
        ours.push(
            time_async(&starts, async |start| {
                let page = query.clone().first(PAGE_ROWS).after(start.cursor.clone()).await?;
                std::hint::black_box(page.next_cursor());
                Ok(page.len())
            })
            .await?,
        );
        backward.push(
            time_async(&starts, async |start| {
                let page = query.clone().last(PAGE_ROWS).before(start.cursor.clone()).await?;
                std::hint::black_box(page.previous_cursor());
                Ok(page.len())
            })
            .await?,
        );
        first.push(time_async(&starts, async |_| Ok(query.clone().first(PAGE_ROWS).await?.len())).await?);
        theirs.push(time(&starts, |start| plain.page(start, PAGE_ROWS).len()));
        theirs_clustered.push(time(&starts, |start| clustered.page(start, PAGE_ROWS).len()));
    }
    let ours = median(&mut ours);
    for (name, value) in [
        ("recto, forward at depth", ours),
        ("recto, backward at depth", median(&mut backward)),
        ("recto, first page", median(&mut first)),
        ("sqlite, index", median(&mut theirs)),
        ("sqlite, without rowid", median(&mut theirs_clustered)),
    ] {
        let micros = value.as_nanos() as f64 / 1_000.0;
        println!(
            "{name:28} {micros:8.2} µs   {:5.2} x",
            value.as_secs_f64() / ours.as_secs_f64()
        );
    }
    Ok(())
}

/// A place that pages are read from, for both sides.
pub(crate) struct Start {
    cursor: String,
    time_hour: i64,
    flight: i32,
}

/// Places spread over the partition, from [`DEPTH_ROWS`] on.
async fn starts(collection: &Collection<Flight>) -> recto::Result<Vec<Start>> {
    let query = collection.query().filter(r#"carrier = "UA""#).page_size(100);
    let mut page = query.clone().await?;
    let mut depth = 0;
    let mut starts = Vec::new();
    while let Some(next) = page.next_cursor() {
        depth += page.len();
        let last = page.items().last().unwrap();
        if depth >= DEPTH_ROWS && starts.len() < CURSORS {
            starts.push(Start {
                cursor: next.as_str().to_owned(),
                time_hour: last.time_hour.0,
                flight: last.flight,
            });
        }
        page = query.clone().after(next).await?;
    }
    Ok(starts)
}

async fn check_same_rows(
    collection: &Collection<Flight>,
    peer: &sqlite::Peer,
    starts: &[Start],
) -> recto::Result<()> {
    let query = collection.query().filter(r#"carrier = "UA""#);
    for start in starts {
        let ours = query
            .clone()
            .first(PAGE_ROWS)
            .after(start.cursor.clone())
            .await?
            .into_items();
        assert_eq!(ours, peer.page(start, PAGE_ROWS), "both sides read the same rows");
    }
    Ok(())
}

async fn time_async(
    starts: &[Start],
    mut page: impl AsyncFnMut(&Start) -> recto::Result<usize>,
) -> recto::Result<Duration> {
    let started = Instant::now();
    let mut rows = 0;
    for start in starts {
        rows += page(start).await?;
    }
    assert!(rows >= starts.len() * PAGE_ROWS as usize / 2, "pages are full");
    Ok(started.elapsed() / starts.len() as u32)
}

fn time(starts: &[Start], mut page: impl FnMut(&Start) -> usize) -> Duration {
    let started = Instant::now();
    let rows: usize = starts.iter().map(&mut page).sum();
    assert!(rows >= starts.len() * PAGE_ROWS as usize / 2, "pages are full");
    started.elapsed() / starts.len() as u32
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times[times.len() / 2]
}
