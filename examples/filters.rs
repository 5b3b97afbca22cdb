//! Filters a collection by text and by a filter built in Rust, and shows the error of a filter that
//! no view serves.
//!
//! `cargo run --example filters`

#![allow(clippy::print_stdout, clippy::cast_precision_loss)]

use recto::filter::field;
use recto::{OpenOptions, Record, Recto, StoreAddress};

#[derive(Debug, Record)]
#[record(
    collection = "readings",
    key = ["sensor", "day", "minute"],
    partition = ["sensor"],
    order = ["day", "minute"],
    writes = "overwrite"
)]
struct Reading {
    sensor: String,
    day: i32,
    minute: i32,
    celsius: f64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> recto::Result<()> {
    let folder = tempfile::tempdir().expect("a folder for the example");
    let address: StoreAddress = folder.path().join("store").display().to_string().parse()?;
    let store = Recto::open_with(&address, OpenOptions::new().create()).await?;
    store.apply(&recto::schema_of([Reading::collection()])).await?;
    let readings = store.collection::<Reading>()?;
    for sensor in ["attic", "cellar"] {
        for minute in 0..600 {
            let celsius = 15.0 + f64::from(minute % 60) / 10.0;
            readings
                .put(&Reading {
                    sensor: sensor.into(),
                    day: minute / 60,
                    minute,
                    celsius,
                })
                .await?;
        }
    }

    let text = r#"(sensor = "attic" OR sensor = "cellar") AND day >= 3 AND day < 5"#;
    let both = readings
        .query()
        .filter(text)
        .order_by("day, minute")
        .first(4)
        .await?;
    println!(
        "merged: {:?}",
        both.items()
            .iter()
            .map(|r| (&r.sensor, r.minute))
            .collect::<Vec<_>>()
    );

    let built = field("sensor").equal_to("attic").and(field("day").between(3, 4));
    let newest = readings
        .query()
        .matching(built)
        .order_by("day desc, minute desc")
        .first(2)
        .await?;
    println!(
        "newest: {:?}",
        newest.items().iter().map(|r| r.minute).collect::<Vec<_>>()
    );

    let warm = readings.query().filter(r#"sensor = "attic" AND celsius > 20.5"#);
    let refused = warm.clone().await.expect_err("no view is ordered by celsius");
    println!("refused: {refused}\n{}", refused.hint().unwrap_or_default());
    let checked = warm.allow_filter_scan().first(3).await?;
    println!(
        "checked row by row: {} rows, {} read",
        checked.len(),
        checked.cost().rows_read
    );
    Ok(())
}
