//! Repair of views on Cassandra: how many wrong entries per second.

use std::time::{Duration, Instant};

use recto::schema::Schema;
use recto::session::VerifyRequest;
use recto::{CassandraAddress, Collection, DynamicRecord, OpenOptions, Recto, StoreAddress};
use serde_json::json;

use crate::measure::median;
use crate::peers::driver;
use crate::report::{Section, Table, Target};
use crate::world::World;

/// `tickets` have versions, and `readings` do not.
const SCHEMA: &str = "
[collection.tickets]
fields = { id = \"bigint\", status = \"text\", at = \"bigint\" }
key = [\"id\"]

[collection.tickets.view.by_status]
partition = [\"status\"]
order = [\"-at\"]

[collection.readings]
fields = { id = \"bigint\", status = \"text\", at = \"bigint\" }
key = [\"id\"]
writes = \"overwrite\"

[collection.readings.view.by_status]
partition = [\"status\"]
order = [\"-at\"]
";

const RECORDS: i64 = 40_000;
const QUICK_RECORDS: i64 = 2_000;
const STATUSES: i64 = 20;
/// Number of records of one batch.
const BATCH_RECORDS: i64 = 500;
const ROUNDS: usize = 3;
/// Time limit of a request on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

pub(super) fn run(world: &mut World) -> Result<Section, String> {
    let records = if world.arguments.quick {
        QUICK_RECORDS
    } else {
        RECORDS
    };
    let rounds = world.arguments.rounds(ROUNDS);
    let address = world.arguments.cassandra.clone();
    let keyspace = format!("recto_benches_repair_{}", std::process::id());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut table = Table::new(
        "Missing entries that `verify` writes",
        &["collection", "entries/s"],
    );
    let mut targets = Vec::new();
    let recto = runtime.block_on(open(&address, &keyspace))?;
    for name in ["tickets", "readings"] {
        world.progress.say(&format!("storing {records} {name}"));
        runtime.block_on(fill(&recto.dynamic(name).unwrap(), records));
        let found = (0..rounds).map(|round| {
            world
                .progress
                .say(&format!("repairing {name}, round {}", round + 1));
            runtime.block_on(async {
                empty_view(&address, &keyspace, name, &recto).await;
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
    runtime.block_on(driver::drop_keyspaces(&address, &[keyspace]));
    Ok(Section {
        title: "Repair of views on Cassandra".to_owned(),
        text: format!(
            "One node. A view of {records} records is emptied with TRUNCATE. Then `verify` with `repair` finds and writes \
             its entries. `tickets` change and have versions, `readings` are overwritten. {rounds} rounds."
        ),
        tables: vec![table],
        targets,
        ..Section::default()
    })
}

async fn open(address: &str, keyspace: &str) -> Result<Recto, String> {
    let store = CassandraAddress::new(vec![address.to_owned()], keyspace);
    let options = OpenOptions::new().create().request_timeout(TIMEOUT);
    let recto = Recto::open_with(&StoreAddress::Cassandra(Box::new(store)), options)
        .await
        .map_err(|error| format!("Cassandra: {error}; `recto-rig start` starts one"))?;
    recto.apply(&Schema::parse(SCHEMA).unwrap()).await.unwrap();
    Ok(recto)
}

async fn fill(collection: &Collection<DynamicRecord>, records: i64) {
    let record = |id: i64| {
        let status = format!("status {}", id % STATUSES);
        let record = json!({ "id": id.to_string(), "status": status, "at": id.to_string() });
        DynamicRecord::from_json(collection.definition(), record.as_object().unwrap()).unwrap()
    };
    for begin in (0..records).step_by(BATCH_RECORDS as usize) {
        let end = (begin + BATCH_RECORDS).min(records);
        let batch: Vec<DynamicRecord> = (begin..end).map(record).collect();
        collection.put_all(&batch).await.unwrap();
    }
}

/// Removes all entries of the view of a collection.
async fn empty_view(address: &str, keyspace: &str, collection: &str, recto: &Recto) {
    let views = recto.views().await.unwrap();
    let view = views.iter().find(|view| view.collection == collection).unwrap();
    let session = driver::session(address, keyspace).await;
    let truncate = format!("TRUNCATE {}", view.table);
    session.query_unpaged(truncate, ()).await.unwrap();
}

/// Returns the number of entries that a repair writes per second.
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
