//! Applies several changes together: all or none.
//!
//! `cargo run --example batch`

#![allow(clippy::print_stdout, clippy::cast_precision_loss)]

use recto::{OpenOptions, Record, Recto, StoreAddress};

#[derive(Debug, Record)]
#[record(collection = "seats", key = ["flight", "seat"], partition = ["flight"], writes = "overwrite")]
#[allow(clippy::struct_field_names)]
struct Seat {
    flight: String,
    seat: String,
    passenger: Option<String>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> recto::Result<()> {
    let folder = tempfile::tempdir().expect("a folder for the example");
    let address: StoreAddress = folder.path().join("store").display().to_string().parse()?;
    let store = Recto::open_with(&address, OpenOptions::new().create()).await?;
    store.apply(&recto::schema_of([Seat::collection()])).await?;
    let seats = store.collection::<Seat>()?;
    let seat = |seat: &str, passenger: Option<&str>| Seat {
        flight: "UA 1545".into(),
        seat: seat.into(),
        passenger: passenger.map(str::to_owned),
    };
    seats.put(&seat("12A", Some("Ada"))).await?;

    // Ada moves, and Grace takes her seat.
    let mut batch = store.batch();
    batch.put(&seats, &seat("12A", Some("Grace")))?;
    batch.put(&seats, &seat("14C", Some("Ada")))?;
    batch.commit().await?;

    for seat in &seats.query().filter(r#"flight = "UA 1545""#).await? {
        println!("{} {}", seat.seat, seat.passenger.as_deref().unwrap_or("free"));
    }
    Ok(())
}
