//! Checks a server whose Cassandra node hangs, dies and restarts. The test starts a node of its
//! own.

use std::time::{Duration, Instant};

use recto::{CassandraAddress, StoreAddress};
use recto_testkit::rig::{Cluster, Nodes};

use super::support::{Reply, Served, serve_store, store_at};

/// Time limit of the requests that the server sends to its store.
const REQUEST_TIME: Duration = Duration::from_secs(1);
/// Time limit of the store's reply to a readiness check, as the guide documents it.
const READY_TIME: Duration = Duration::from_secs(2);
/// Extra time for a response, because the machine may be busy.
const GRACE: Duration = Duration::from_secs(2);
/// Maximum time until the Cassandra driver reconnects to a restarted node.
const COMES_BACK: Duration = Duration::from_secs(60);
/// Number of concurrent requests of each kind while the store is unreachable.
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

/// Checks that `/readyz` fails while the store is unreachable, and `/healthz` succeeds.
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

/// Checks that each kind of request fails in time, with a problem that names the unreachable store.
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
            // The time limit also holds for a write with an unknown outcome, which the server sends
            // again before it replies.
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

/// Checks that the server reconnects to the store, and reads and writes.
async fn comes_back(served: &Served) {
    let began = Instant::now();
    while served.get("/readyz").await.status != 200 {
        assert!(began.elapsed() < COMES_BACK);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(served.get(LIST).await.status, 200);
    assert_eq!(served.get(CONSOLE).await.status, 200);
    // Repeat the write. A process that could not reach the store for long has lost its lease as a
    // writer, and needs time for a new lease.
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

/// Starts a server over the node. `request_time` is the time limit of requests to the node.
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
    // `patient` has no short time limit for requests to the store, but its readiness check has the
    // usual time limit.
    let patient = serve_node(&cluster, None).await;
    comes_back(&served).await;

    // The node hangs: it neither rejects nor answers requests.
    cluster.node(1).pause().unwrap();
    // Wait until the cached result of the readiness check expires.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    tokio::join!(is_not_ready(&served), is_not_ready(&patient));
    all_are_told(&served).await;
    is_not_ready(&served).await;
    cluster.node(1).resume().unwrap();
    tokio::join!(comes_back(&served), comes_back(&patient));

    // The node is dead: it rejects connections.
    cluster.node(1).kill().unwrap();
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    tokio::join!(is_not_ready(&served), is_not_ready(&patient));
    all_are_told(&served).await;
    cluster.node(1).start().unwrap();
    tokio::join!(comes_back(&served), comes_back(&patient));
    served.stop().await.unwrap();
    patient.stop().await.unwrap();
}
