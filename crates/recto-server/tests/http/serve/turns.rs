//! Checks that pages which need much computation do not delay other requests.

use std::time::{Duration, Instant};

use recto::schema::Schema;
use recto::session::Records as _;
use recto::{LocalSession, OpenOptions, Recto, StoreAddress};
use recto_server::config::MetricsAccess;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::support::{SCHEMA, Served, eventually, read_reply, serve_store};

/// Number of connections that request pages one after another.
const PAGES: usize = 8;
const ROWS: usize = 5_000;
const NOTE_BYTES: usize = 1_000;
/// Size of the store's cache, in bytes. The rows are far larger, so that each page reads the file.
const CACHE_BYTES: usize = 256 << 10;
/// Number of health requests whose response times are measured.
const PROBES: usize = 21;
const SOON: Duration = Duration::from_millis(50);

/// Opens a store whose rows are larger than its cache.
async fn cold() -> (LocalSession, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let address: StoreAddress = folder.path().join("store").to_str().unwrap().parse().unwrap();
    let options = OpenOptions::new().create().cache_bytes(CACHE_BYTES);
    let recto = Recto::open_with(&address, options).await.unwrap();
    recto.apply(&Schema::parse(SCHEMA).unwrap()).await.unwrap();
    let session = LocalSession::new(recto);
    let note = "x".repeat(NOTE_BYTES);
    for batch in 0..ROWS / 1_000 {
        let records = (0..1_000).map(|id| {
            let record = json!({ "tenant": "acme", "id": batch * 1_000 + id, "total": 1.5, "note": note });
            record.as_object().unwrap().clone()
        });
        session.put("orders", records.collect(), None).await.unwrap();
    }
    (session, folder)
}

async fn ask(stream: &mut TcpStream, path: &str) -> u16 {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    read_reply(stream).await.status
}

/// Requests pages on several connections until the tasks are dropped. No row matches their filter,
/// so each page checks all rows.
async fn pages_without_end(served: &Served) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    for _ in 0..PAGES {
        let mut stream = served.connect().await;
        tasks.spawn(async move {
            let query = "filter=tenant%20%3D%20%22acme%22%20AND%20total%20%3D%200&allow_filter_scan=true";
            let path = format!("/v1/collections/orders/records?{query}");
            loop {
                assert_eq!(ask(&mut stream, &path).await, 200);
            }
        });
    }
    tasks
}

/// Sends health requests on the connections in turn. Returns the median response time.
async fn median_probe(streams: &mut [TcpStream]) -> Duration {
    let mut times = Vec::new();
    for probe in 0..PROBES {
        let count = streams.len();
        let began = Instant::now();
        assert_eq!(ask(&mut streams[probe % count], "/healthz").await, 200);
        times.push(began.elapsed());
    }
    times.sort_unstable();
    times[PROBES / 2]
}

/// Checks the median of many response times. Other load on the machine may delay single responses,
/// but a page that does not yield delays most of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_is_told_soon_beside_pages_that_compute() {
    let (session, folder) = cold().await;
    let served = serve_store(session, folder, |config| config.metrics = MetricsAccess::Open).await;
    // Open two connections, because each goes to another one of the two server threads.
    let mut probes = [served.connect().await, served.connect().await];
    for stream in &mut probes {
        assert_eq!(ask(stream, "/healthz").await, 200);
    }
    let pages = pages_without_end(&served).await;
    eventually("all pages are being read", || async {
        served.metric("recto_http_in_flight").await > PAGES as f64 - 0.5
            && served
                .metric("recto_page_rows_scanned_total{shape=\"scan + filter\"}")
                .await
                > 0.0
    })
    .await;
    let median = median_probe(&mut probes).await;
    assert!(median < SOON, "half of the probes took longer than {median:?}");
    assert!(!pages.is_empty());
    drop(pages);
    served.stop().await.unwrap();
}
