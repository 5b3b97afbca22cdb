//! Checks that `verify` finds rows in wrong shards (partitions that together contain a bucket), and
//! that `repair` moves them to the right shards. The tests write the misplaced rows with CQL.

use recto::{Environment, Recto, StoreAddress, Value};
use recto_cassandra::CassandraConfig;
use recto_cassandra::testing::PlainCql;
use recto_model::table::Direction;
use recto_model::{Type, key};
use recto_protocol::buckets::{Shard, Shards};
use serde_json::json;

use super::checked_buckets::{hex, verify};
use crate::common::stores::{kind_of, parse};
use crate::common::{Fresh, Kind};

const SCHEMA: &str = r#"
[collection.hot]
fields = { stream = "text", at = "bigint", note = "text" }
key = ["stream", "at"]
partition = ["stream"]
order = ["at"]
writes = "overwrite"
bucket = { target = "64KiB", shards = 3 }
"#;

/// Number of rows of each partition.
const ROWS: i64 = 40;
const SHARDS: u8 = 3;

fn shard_of(at: i64) -> u32 {
    let mut encoded = Vec::new();
    key::encode(
        &Type::BigInt,
        Direction::Ascending,
        &at.to_be_bytes(),
        &mut encoded,
    )
    .unwrap();
    let Shard(shard) = Shards::new(SHARDS).unwrap().of(&encoded);
    shard
}

/// Returns a shard that is wrong for the row with the given key.
fn other_of(at: i64) -> u32 {
    (shard_of(at) + 1) % u32::from(SHARDS)
}

async fn plant(cql: &PlainCql, shard: u32, at: i64, using: &str) {
    let counted = hex(&[&[1][..], &100_u64.to_be_bytes()].concat());
    let text = format!(
        "INSERT INTO hot (stream, recto_bucket, recto_shard, at, recto_row, note) VALUES ('s', 0, {shard}, {at}, {counted}, 'planted'){using}"
    );
    cql.send(&text).await.unwrap();
}

async fn put(recto: &Recto, stream: &str, at: i64) {
    let hot = recto.dynamic("hot").unwrap();
    let row = json!({ "stream": stream, "at": at.to_string(), "note": "put" });
    let row = recto::DynamicRecord::from_json(hot.definition(), row.as_object().unwrap()).unwrap();
    hot.put(&row).await.unwrap();
}

/// Returns the keys of all rows of a partition, and the keys of the rows that the test wrote into a
/// wrong shard.
async fn rows(recto: &Recto, stream: &str) -> (Vec<i64>, Vec<i64>) {
    let hot = recto.dynamic("hot").unwrap();
    let page = hot.query().filter(format!("stream = {stream:?}")).first(1_000);
    let page = page.await.unwrap();
    let (mut all, mut planted) = (Vec::new(), Vec::new());
    for row in page.items() {
        let Some(Value::BigInt(at)) = row.get("at") else {
            panic!("{row:?}")
        };
        all.push(*at);
        if row.get("note") == Some(&Value::Text("planted".into())) {
            planted.push(*at);
        }
    }
    (all, planted)
}

pub(crate) async fn rows_in_others_are_found_and_taken_home(recto: Recto) {
    let fresh = Fresh::new(kind_of(&recto));
    let recto = fresh.open().await;
    recto.apply(&parse(SCHEMA)).await.unwrap();
    for at in 0..ROWS {
        put(&recto, "s", at).await;
    }
    let unmet = (0..).filter(|at| shard_of(*at) != 0).take(5);
    let unmet: Vec<i64> = unmet.collect();
    for at in &unmet {
        put(&recto, "unmet", *at).await;
    }
    let well = verify(&recto, false).await;
    assert_eq!(well.wrong(), 0, "{well:?}");
    assert_eq!(well.buckets[0].rows, (ROWS as u64) + 5);
    let StoreAddress::Cassandra(address) = &fresh.address else {
        assert_eq!(fresh.kind, Kind::Embedded);
        return;
    };
    let config = CassandraConfig::new(address.hosts.clone(), address.keyspace.clone());
    let cql = PlainCql::connect(config, Environment::system()).await.unwrap();
    let (lower, upper) = (ROWS + 5, ROWS + 6);
    plant(&cql, other_of(lower), lower, "").await;
    plant(&cql, 9, upper, "").await;
    plant(&cql, other_of(3), 3, " USING TIMESTAMP 1700000000000000").await;
    let unmark = "DELETE recto_root FROM hot WHERE stream = 'unmet' AND recto_bucket = 0 AND recto_shard = 0";
    cql.send(unmark).await.unwrap();
    let found = verify(&recto, false).await;
    let expected = [("unmarked_root", 1), ("stray", 2), ("double", 1)];
    let expected = expected.map(|(kind, count)| (kind.to_owned(), count));
    assert_eq!(found.buckets[0].found, expected.into(), "{found:?}");
    let before: Vec<i64> = (0..ROWS).collect();
    // Pages merge all shards, so they also show rows in a wrong shard. A read by key reads only the
    // shard of the key.
    let (mut shown, planted) = rows(&recto, "s").await;
    shown.dedup();
    assert_eq!(
        (shown, planted),
        ([&before[..], &[lower]].concat(), vec![3, lower])
    );
    let repaired = verify(&recto, true).await;
    assert_eq!((repaired.wrong(), repaired.left()), (4, 0), "{repaired:?}");
    let left = verify(&recto, false).await;
    assert_eq!(left.wrong(), 0, "{left:?}");
    let all = before.into_iter().chain([lower, upper]).collect();
    assert_eq!(rows(&recto, "s").await, (all, vec![lower, upper]));
    assert_eq!(rows(&recto, "unmet").await.0, unmet);
}
