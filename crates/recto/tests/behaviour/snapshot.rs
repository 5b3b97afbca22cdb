//! Checks that each page reads one snapshot of the embedded store: the page shows a batch
//! completely or not at all, even if it merges many partitions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use recto::schema::Schema;
use recto::{DynamicRecord, OpenOptions, Recto, StoreAddress, Value};

const SCHEMA: &str = r#"
[collection.accounts]
fields = { branch = "int", account = "int", round = "int" }
key = ["branch", "account"]
partition = ["branch"]
order = ["account"]
writes = "overwrite"
"#;
const BRANCHES: i32 = 8;
/// Minimum number of pages that the test reads while another task commits batches.
const PAGES: usize = 300;
/// Minimum number of batches that the pages must show. On a busy machine, the test reads further
/// pages until they do.
const BATCHES: usize = 3;
/// Maximum number of pages that the test reads.
const MAX_PAGES: usize = 100_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_over_many_partitions_is_of_one_moment() {
    let folder = tempfile::tempdir().unwrap();
    let address = StoreAddress::Embedded(folder.path().join("store"));
    let recto = Recto::open_with(&address, OpenOptions::new().create())
        .await
        .unwrap();
    recto.apply(&Schema::parse(SCHEMA).unwrap()).await.unwrap();
    put_round(&recto, 0).await;
    let is_done = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn({
        let (recto, is_done) = (recto.clone(), Arc::clone(&is_done));
        async move {
            let mut round = 0;
            while !is_done.load(Ordering::Relaxed) {
                round += 1;
                put_round(&recto, round).await;
            }
        }
    });
    let branches: Vec<String> = (0..BRANCHES).map(|branch| format!("branch = {branch}")).collect();
    let accounts = recto.dynamic("accounts").unwrap();
    let query = accounts
        .query()
        .filter(branches.join(" OR "))
        .order_by("account")
        .page_size(100);
    let mut seen = Vec::new();
    let mut pages = 0;
    while pages < PAGES || seen.len() < BATCHES {
        assert!(pages < MAX_PAGES, "the pages show {} batches", seen.len());
        pages += 1;
        let page = query.clone().await.unwrap();
        let mut rounds: Vec<Value> = page
            .items()
            .iter()
            .map(|record| record.get("round").unwrap().clone())
            .collect();
        assert_eq!(rounds.len(), BRANCHES as usize);
        rounds.dedup();
        assert_eq!(
            rounds.len(),
            1,
            "a page shows parts of several batches: {rounds:?}"
        );
        seen.extend(rounds);
        seen.dedup();
    }
    is_done.store(true, Ordering::Relaxed);
    writer.await.unwrap();
}

/// Writes the number `round` into the account of every branch, in one batch.
async fn put_round(recto: &Recto, round: i32) {
    let accounts = recto.dynamic("accounts").unwrap();
    let definition = Arc::clone(recto.schema().collection("accounts").unwrap());
    let mut batch = recto.batch();
    for branch in 0..BRANCHES {
        let mut record = DynamicRecord::new(Arc::clone(&definition));
        for (field, value) in [("branch", branch), ("account", 1), ("round", round)] {
            record.set(field, Some(Value::Int(value))).unwrap();
        }
        batch.put(&accounts, &record).unwrap();
    }
    batch.commit().await.unwrap();
}
