//! Checks clients that are slow, disconnect, or send invalid HTTP.

use std::time::{Duration, Instant};

use recto_server::config::MetricsAccess;
use tokio::io::AsyncWriteExt as _;

use super::support::{Served, eventually, put_large_orders, read_reply, read_to_end, serve};

const SOON: Duration = Duration::from_secs(5);

async fn served() -> Served {
    serve(|config| {
        config.limits.header_time = Duration::from_millis(200);
        config.limits.idle_time = Duration::from_millis(300);
        config.limits.stall_time = Duration::from_millis(300);
        config.metrics = MetricsAccess::Open;
    })
    .await
}

/// Waits until all connections are closed except that of its own requests.
async fn only_one_is_open(served: &Served) {
    eventually("connections end", || async {
        served.metric("recto_http_connections").await < 1.5
    })
    .await;
    // Also wait for requests in flight. A connection that the server has not accepted yet is not
    // counted, and could open after the first check.
    eventually("requests end", || async {
        served.metric("recto_http_in_flight").await < 1.5
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_that_trickle_in_end_the_connection() {
    let served = served().await;
    let began = Instant::now();
    let mut stream = served.connect().await;
    stream.write_all(b"GET /healthz HTTP/1.1\r\n").await.unwrap();
    // Send single bytes at long intervals, which must not extend the time limit for headers.
    for _ in 0..100 {
        if stream.write_all(b"X").await.is_err() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    read_to_end(&mut stream).await;
    assert!(began.elapsed() < SOON);
    only_one_is_open(&served).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_headers_of_a_second_request_are_timed_as_well() {
    let served = served().await;
    let mut stream = served.connect().await;
    stream
        .write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .await
        .unwrap();
    assert_eq!(read_reply(&mut stream).await.status, 200);
    stream.write_all(b"GET /healthz HT").await.unwrap();
    let began = Instant::now();
    read_to_end(&mut stream).await;
    assert!(began.elapsed() < SOON);
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_without_requests_are_closed() {
    let served = served().await;
    let mut silent = served.connect().await;
    let mut kept = served.connect().await;
    kept.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .await
        .unwrap();
    assert_eq!(read_reply(&mut kept).await.status, 200);
    let began = Instant::now();
    assert_eq!(read_to_end(&mut silent).await, "");
    assert_eq!(read_to_end(&mut kept).await, "");
    assert!(began.elapsed() < SOON);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_reads_nothing_is_cut() {
    let served = served().await;
    put_large_orders(&served).await;
    let mut stream = served.connect().await;
    stream
        .write_all(b"GET /v1/collections/orders/records:export HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .await
        .unwrap();
    eventually("it is being answered", || async {
        served.metric("recto_http_connections_accepted_total").await > 1.5
    })
    .await;
    only_one_is_open(&served).await;
    drop(stream);
}

#[tokio::test(flavor = "multi_thread")]
async fn cut_connections_and_what_is_no_http_leave_nothing_behind() {
    let served = served().await;
    let put = "PUT /v1/collections/orders/records/acme,1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{\"to";
    for text in [
        "",
        "G",
        "\r\n\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "GET  / HTTP/1.1\r\n\r\n",
        "\u{16}\u{3}\u{1}\u{2}",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\ngarbage that is no frame at all",
        "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        put,
    ] {
        for _ in 0..5 {
            let mut stream = served.connect().await;
            let _ = stream.write_all(text.as_bytes()).await;
        }
    }
    only_one_is_open(&served).await;
    assert_eq!(served.get("/readyz").await.status, 200);
}
