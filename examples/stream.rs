//! Reads all rows of a query as a stream. The stream reads nothing until it is polled.
//!
//! `cargo run --example stream`

#![allow(clippy::print_stdout, clippy::cast_precision_loss)]

use futures::TryStreamExt;
use recto::{OpenOptions, Record, Recto, StoreAddress};

#[derive(Debug, Record)]
#[record(collection = "numbers", key = ["family", "n"], partition = ["family"], order = ["n"], writes = "append")]
struct Number {
    family: String,
    n: i64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> recto::Result<()> {
    let folder = tempfile::tempdir().expect("a folder for the example");
    let address: StoreAddress = folder.path().join("store").display().to_string().parse()?;
    let store = Recto::open_with(&address, OpenOptions::new().create()).await?;
    store.apply(&recto::schema_of([Number::collection()])).await?;
    let numbers = store.collection::<Number>()?;
    let squares: Vec<Number> = (0..5_000)
        .map(|n| Number {
            family: "square".into(),
            n: n * n,
        })
        .collect();
    numbers.put_all(&squares).await?;

    let query = numbers
        .query()
        .filter(r#"family = "square" AND n > 100"#)
        .page_size(500);
    let mut rows = std::pin::pin!(query.stream());
    let mut sum = 0;
    while let Some(number) = rows.try_next().await? {
        sum += number.n;
    }
    println!("the sum is {sum}");
    Ok(())
}
