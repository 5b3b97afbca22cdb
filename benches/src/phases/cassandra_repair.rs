//! Phase: speed of repairing views on Cassandra, in repaired view rows per second.

use std::path::PathBuf;
use std::time::Instant;

use recto::session::VerifyRequest;
use recto::{Recto, StoreAddress};

use super::stores;
use crate::measure::median;
use crate::peers::driver;
use crate::report::{Section, Table, Target};
use crate::world::World;

/// Schema with two collections. Records of `tickets` have versions, and records of `readings` do
/// not.
const SCHEMA: &str = "
[collection.tickets]
fields = { id = \"bigint\", status = \"text\", at = \"bigint\" }
key = [\"id\"]

[collection.tickets.view.by_status]
partition = [\"status\"]
order = [\"-at\"]

[collection.readings]
fields = { id = \"bigint\", status = \"text\", at = \"bigint\" }
key = [\"id\", \"status\", \"at\"]
writes = \"overwrite\"

[collection.readings.view.by_status]
partition = [\"status\"]
order = [\"-at\"]
";

const RECORDS: i64 = 40_000;
const QUICK_RECORDS: i64 = 2_000;
const STATUSES: i64 = 20;
const ROUNDS: usize = 3;

pub(super) fn run(world: &mut World) -> Result<Section, String> {
    let records = if world.arguments.quick {
        QUICK_RECORDS
    } else {
        RECORDS
    };
    let rounds = world.arguments.rounds(ROUNDS);
    let store = stores::cassandra(world, "repair");
    let runtime = stores::runtime();
    let file = written(world, records);
    let mut table = Table::new(
        "Missing entries that `repair` writes again",
        &["collection", "entries/s"],
    );
    let mut targets = Vec::new();
    let address = StoreAddress::Cassandra(Box::new(store.clone()));
    let recto = stores::open(&runtime, &address, Some(SCHEMA))?;
    for name in ["tickets", "readings"] {
        world.progress.say(&format!("storing {records} {name}"));
        stores::load(&runtime, &recto, &file, name)?;
        let found = (0..rounds).map(|round| {
            world
                .progress
                .say(&format!("repairing {name}, round {}", round + 1));
            runtime.block_on(async {
                empty_view(&world.arguments.cassandra, &store.keyspace, name, &recto).await;
                rate(&recto, name, records).await
            })
        });
        let rate = median(found.collect());
        table.push(name.to_owned(), [Some(rate)]);
        targets.push(Target::at_least(
            format!("Cassandra, repair of missing entries of {name}, entries/s"),
            5_000.0,
            rate,
        ));
    }
    drop(recto);
    runtime.block_on(driver::drop_keyspaces(
        &world.arguments.cassandra,
        std::slice::from_ref(&store.keyspace),
    ));
    Ok(Section {
        title: "Repair of views on Cassandra".to_owned(),
        text: format!(
            "One node. A view of {records} records is emptied with TRUNCATE, then `verify` with `repair` finds and writes \
             its entries. Medians of {rounds} rounds. `tickets` change and have versions; `readings` are overwritten, and \
             each is in its own partition."
        ),
        tables: vec![table],
        targets,
        ..Section::default()
    })
}

/// Writes a CSV file with `records` records. Returns its path.
fn written(world: &World, records: i64) -> PathBuf {
    let line = |id| format!("{id},status {},{id}", id % STATUSES);
    stores::csv(
        world.folder.join("repair.csv"),
        "id,status,at",
        (0..records).map(line),
    )
}

/// Empties the table of a collection's view behind Recto's back, so that a repair must write all
/// rows again.
async fn empty_view(address: &str, keyspace: &str, collection: &str, recto: &Recto) {
    let views = recto.views().await.unwrap();
    let view = views.iter().find(|view| view.collection == collection).unwrap();
    let session = driver::session(address, keyspace).await;
    let truncate = format!("TRUNCATE {}", view.table);
    session.query_unpaged(truncate, ()).await.unwrap();
}

/// Repairs the views of a collection. Returns the number of view rows that the repair writes per
/// second.
async fn rate(recto: &Recto, collection: &str, records: i64) -> f64 {
    let request = VerifyRequest {
        collections: vec![collection.to_owned()],
        repair: true,
        ..VerifyRequest::default()
    };
    let begun = Instant::now();
    let report = recto.verify(&request, &|_| {}).await.unwrap();
    let elapsed = begun.elapsed();
    let repaired: u64 = report.views.iter().map(|view| view.repaired).sum();
    assert_eq!(repaired, records as u64, "{report:?}");
    records as f64 / elapsed.as_secs_f64()
}
