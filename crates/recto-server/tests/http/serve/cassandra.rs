//! A server whose Cassandra stalls, dies and comes back: on a node of this test's own.

use std::time::{Duration, Instant};

use recto::{CassandraAddress, StoreAddress};
use recto_testkit::rig::{Cluster, Nodes};

use super::support::{Reply, Served, serve_store, store_at};

/// How long a request to the store may take.
const REQUEST_TIME: Duration = Duration::from_secs(1);
/// How long the store may take to say that it is there, as the guide has it.
const READY_TIME: Duration = Duration::from_secs(2);
/// How much longer than its time an answer may take here, on a busy machine.
const GRACE: Duration = Duration::from_secs(2);
/// How long the driver may take to find a node that came back.
const COMES_BACK: Duration = Duration::from_secs(60);
/// Requests of each kind that are sent side by side while the store is away.
const SIDE_BY_SIDE: usize = 8;

const RECORD: &str = "/v1/collections/orders/records/acme,1";
const LIST: &str = "/v1/collections/orders/records?filter=tenant%20%3D%20%22acme%22";
const EXPORT: &str = "/v1/collections/orders/records:export";
const BATCH: &str = "/v1/collections/orders/records:batchWrite";
const CONSOLE: &str = "/collections/orders?filter=tenant%20%3D%20%22acme%22";

async fn timed(asked: impl Future<Output = Reply>) -> (Reply, Duration) {
    let began = Instant::now();
    let reply = asked.await;
    (reply, began.elapsed())
}

/// Readiness and health while the store is away.
async fn is_not_ready(served: &Served) {
    let (ready, took) = timed(served.get("/readyz")).await;
    assert_eq!(
        (ready.status, ready.body.as_str()),
        (503, "the store does not answer\n")
    );
    assert!(took < READY_TIME + GRACE, "it took {took:?}");
    let (healthy, took) = timed(served.get("/healthz")).await;
    assert_eq!(healthy.status, 200);
    assert!(took < GRACE, "it took {took:?}");
}

/// Every kind of request is answered in time, by a problem that says what happened.
async fn all_are_told(served: &Served) {
    let write = r#"{"note":"while it was away"}"#;
    let batch = r#"{"changes":[{"delete":["acme",2]},{"put":{"tenant":"acme","id":3,"note":"x"}}]}"#;
    let requests = [
        ("GET", LIST, ""),
        ("GET", RECORD, ""),
        ("PUT", RECORD, write),
        ("DELETE", RECORD, ""),
        ("POST", BATCH, batch),
        ("GET", EXPORT, ""),
        ("GET", CONSOLE, ""),
    ];
    let asked = (0..SIDE_BY_SIDE)
        .flat_map(|_| requests)
        .map(|(method, path, body)| async move {
            let (reply, took) = timed(served.ask(method, path, &[], body)).await;
            let what = format!("{method} {path}: {} after {took:?}: {}", reply.status, reply.body);
            assert!(matches!(reply.status, 503 | 504), "{what}");
            // Also a write whose outcome is unknown, which is sent again before that is said.
            assert!(took < REQUEST_TIME + GRACE, "{what}");
            if path == CONSOLE {
                assert!(
                    reply.header("content-type").unwrap().starts_with("text/html"),
                    "{what}"
                );
                assert!(reply.body.contains("role=\"alert\""), "{what}");
            } else {
                assert_eq!(
                    reply.header("content-type"),
                    Some("application/problem+json"),
                    "{what}"
                );
                let kind = reply.json()["type"].as_str().unwrap().to_owned();
                let kind = kind.rsplit(':').next().unwrap();
                let is_write = method != "GET";
                assert!(
                    matches!(kind, "unavailable" | "timeout") || (is_write && kind == "outcome-unknown"),
                    "{what}"
                );
            }
        });
    futures::future::join_all(asked).await;
}

/// The store is found again; then all goes on as before.
async fn comes_back(served: &Served) {
    let began = Instant::now();
    while served.get("/readyz").await.status != 200 {
        assert!(began.elapsed() < COMES_BACK);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(served.get(LIST).await.status, 200);
    assert_eq!(served.get(CONSOLE).await.status, 200);
    // Who was away for long has no lease for a while.
    loop {
        let written = served.ask("PUT", RECORD, &[], r#"{"note":"back"}"#).await;
        if matches!(written.status, 200..=204) {
            break;
        }
        assert!(began.elapsed() < COMES_BACK, "{}", written.body);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(served.get(RECORD).await.json()["note"], "back");
}

/// A server over the node whose requests to it may take so long.
async fn serve_node(cluster: &Cluster, request_time: Option<Duration>) -> Served {
    let mut address = CassandraAddress::new(cluster.addresses(), "served");
    address.request_timeout = request_time;
    let session = store_at(&StoreAddress::Cassandra(Box::new(address))).await;
    serve_store(session, tempfile::tempdir().unwrap(), |_| {}).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_away_is_told_and_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(Nodes::One, folder.path()).expect("tests need a Cassandra");
    let served = serve_node(&cluster, Some(REQUEST_TIME)).await;
    // Readiness has a time of its own, however long pages may take.
    let patient = serve_node(&cluster, None).await;
    comes_back(&served).await;

    // Hangs: nothing is refused, nothing is answered.
    cluster.node(1).pause().unwrap();
    // What was asked a moment ago still holds.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    tokio::join!(is_not_ready(&served), is_not_ready(&patient));
    all_are_told(&served).await;
    is_not_ready(&served).await;
    cluster.node(1).resume().unwrap();
    tokio::join!(comes_back(&served), comes_back(&patient));

    // Dead: connections are refused.
    cluster.node(1).kill().unwrap();
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    tokio::join!(is_not_ready(&served), is_not_ready(&patient));
    all_are_told(&served).await;
    cluster.node(1).start().unwrap();
    tokio::join!(comes_back(&served), comes_back(&patient));
    served.stop().await.unwrap();
    patient.stop().await.unwrap();
}
