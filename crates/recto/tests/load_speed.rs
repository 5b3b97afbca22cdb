//! How fast the flights load. A measurement: run it in release, with `--ignored --nocapture`.

#![allow(clippy::unwrap_used, clippy::print_stderr, clippy::cast_precision_loss)]

use std::path::Path;
use std::time::Instant;

use recto::schema::Schema;
use recto::session::LoadRequest;
use recto::{LocalSession, OpenOptions, Recto, Session, StoreAddress};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn the_flights_load_fast() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../recto-cli/data");
    let schema = Schema::parse(&std::fs::read_to_string(data.join("flights.toml")).unwrap()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let address: StoreAddress = folder.path().join("store").to_str().unwrap().parse().unwrap();
    let mut recto = Recto::open_with(&address, OpenOptions::new().create())
        .await
        .unwrap();
    recto.apply(&schema).await.unwrap();
    let session = LocalSession::new(recto);
    let request = LoadRequest {
        file: data.join("flights.csv.zip"),
        collections: schema
            .collections
            .iter()
            .map(|collection| collection.name.clone())
            .collect(),
        null: Some("NA".into()),
        rejects: Some(folder.path().join("rejects.csv")),
        ..LoadRequest::default()
    };
    let started = Instant::now();
    let progress = |progress| eprintln!("{:.1} s {progress:?}", started.elapsed().as_secs_f64());
    let report = session.load(&request, &progress).await.unwrap();
    let seconds = started.elapsed().as_secs_f64();
    let rows: u64 = report
        .collections
        .iter()
        .map(|collection| collection.rows_stored)
        .sum();
    eprintln!("{report:#?}");
    eprintln!(
        "{rows} rows in {seconds:.2} s: {:.0} rows/s",
        rows as f64 / seconds
    );
}
