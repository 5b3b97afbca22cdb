//! A process whose clock is ahead deletes nothing that others wrote. Nodes of Cassandra have clocks to compare with.

use std::time::Duration;

use recto::queues::{NewMessage, QueueOptions, Receive};
use recto::session::{MendRequest, PageRequest, Pages, Session};
use recto::{DynamicRecord, Environment, LocalSession, OpenOptions, Recto};
use serde_json::json;

use crate::common::clocks::Clocks;
use crate::common::stores::parse;
use crate::common::{Fresh, Kind, Scope, Suite, run};

static TESTS: Suite = Suite::new(module_path!(), 2);

const SECOND_MICROS: i64 = 1_000_000;
const DAY_MICROS: i64 = 86_400 * SECOND_MICROS;

const SCHEMA: &str = r#"
[collection.readings]
fields = { at = "timestamp", id = "int" }
key = ["at", "id"]
partition = []
order = ["at"]
writes = "append"
bucket = { time = "at", width = "1 day", keep = "90 days" }
"#;

async fn open_ahead(store: &Fresh, micros: i64) -> Recto {
    let environment: Environment = Clocks::off_by(micros).environment();
    store.open_with(OpenOptions::new().environment(environment)).await
}

#[test]
fn expires_no_messages_of_others() {
    let _scope = Scope::new(&TESTS);
    run(async {
        let store = Fresh::new(Kind::Cassandra);
        let right = store.open().await;
        let options = QueueOptions {
            retention_seconds: Some(120),
            ..QueueOptions::default()
        };
        let jobs = right
            .queues()
            .await
            .unwrap()
            .create("jobs", options)
            .await
            .unwrap();
        for body in ["a", "b", "c"] {
            jobs.send(NewMessage::new(body)).await.unwrap();
        }
        let ahead = open_ahead(&store, 180 * SECOND_MICROS).await;
        let jobs_ahead = ahead.queues().await.unwrap().get("jobs").await.unwrap();
        let received = jobs_ahead.receive(Receive::up_to(1)).await.unwrap();
        assert_eq!(received.len(), 1, "it is not expired by the clock of the nodes");
        // The upkeep of queues runs each 30 seconds.
        tokio::time::sleep(Duration::from_secs(35)).await;
        assert_eq!(jobs.receive(Receive::up_to(10)).await.unwrap().len(), 2);
        let status = jobs.stats().await.unwrap();
        assert_eq!(status.messages, 3, "{status:?}");
        ahead.close().await.unwrap();
        right.close().await.unwrap();
    });
}

#[test]
fn drops_no_records_of_others() {
    let _scope = Scope::new(&TESTS);
    run(async {
        let store = Fresh::new(Kind::Cassandra);
        let right = store.open().await;
        right.apply(&parse(SCHEMA)).await.unwrap();
        let readings = right.dynamic("readings").unwrap();
        let definition = readings.definition();
        for day in 0..5_i32 {
            let at = jiff::Timestamp::now() - Duration::from_secs(86_400 * u64::from(day.unsigned_abs()));
            let record = json!({ "at": at.round(jiff::Unit::Second).unwrap().to_string(), "id": day });
            let record = DynamicRecord::from_json(definition.clone(), record.as_object().unwrap()).unwrap();
            readings.put(&record).await.unwrap();
        }
        let ahead = open_ahead(&store, 365 * DAY_MICROS).await;
        let session = LocalSession::new(ahead);
        let tools = session.tools().unwrap();
        let request = MendRequest::default();
        tools.mend_buckets("readings", &request, &|_| {}).await.unwrap();
        let page = LocalSession::new(right.clone());
        let page = page.page("readings", &PageRequest::default()).await.unwrap();
        assert_eq!(page.records.len(), 5);
        right.close().await.unwrap();
    });
}
