//! Declares a collection and a view, stores records, reads pages in both directions, and moves a
//! record to another list.
//!
//! `cargo run --example first_page [STORE]`, where STORE is a folder or `cassandra://host/keyspace`.

#![allow(clippy::print_stdout, clippy::cast_precision_loss)]

use recto::types::Timestamp;
use recto::{OpenOptions, Record, Recto, StoreAddress, schema_of};

/// A record of `orders`. The view has one list per status, newest first.
#[derive(Debug, Record)]
#[record(collection = "orders", key = ["id"])]
#[record(view(name = "by_status", partition = ["status"], order = ["-created"]))]
struct Order {
    id: i64,
    status: String,
    created: Timestamp,
    customer: Option<String>,
    total: f64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> recto::Result<()> {
    let folder = tempfile::tempdir().expect("a folder for the example");
    let default = folder.path().join("shop").display().to_string();
    let address: StoreAddress = std::env::args().nth(1).unwrap_or(default).parse()?;

    let store = Recto::open_with(&address, OpenOptions::new().create()).await?;
    store.apply(&schema_of([Order::collection()])).await?;
    let orders = store.collection::<Order>()?;
    for id in 1..=100 {
        let created = Timestamp(1_700_000_000_000 + id * 60_000);
        orders
            .put(&Order {
                id,
                status: "open".into(),
                created,
                customer: None,
                total: 9.5 * id as f64,
            })
            .await?;
    }

    let open = orders.query().filter(r#"status = "open""#).page_size(5);
    let newest = open.clone().await?;
    println!("newest:   {:?}", ids(newest.items()));

    let cursor = newest.next_cursor().expect("there are 100 orders");
    let second = open.clone().after(cursor).await?;
    println!("next:     {:?}", ids(second.items()));

    let cursor = second.previous_cursor().expect("it is not the first page");
    let first_again = open.clone().before(cursor).await?;
    println!("previous: {:?}", ids(first_again.items()));

    let oldest = open.clone().last(5).await?;
    println!("oldest:   {:?}", ids(oldest.items()));

    // The update moves order 98 from the list of open orders to the list of paid orders.
    orders.update(98).set("status", "paid").await?;
    let open = open.await?;
    println!("open:     {:?}", ids(open.items()));
    let paid = orders.query().filter(r#"status = "paid""#).await?;
    println!("paid:     {:?}", ids(paid.items()));
    Ok(())
}

fn ids(orders: &[Order]) -> Vec<i64> {
    orders.iter().map(|order| order.id).collect()
}
