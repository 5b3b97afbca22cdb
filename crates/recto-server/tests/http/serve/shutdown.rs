//! Checks requests that are in flight when the server shuts down.

use recto::session::Records as _;
use std::time::Duration;

use recto_server::ServeError;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::support::{Served, eventually, read_to_end, serve};

const BODY: &str = r#"{"tenant":"acme","id":1,"note":"finished"}"#;

/// Sends a put request with a part of its body, so that it stays in flight.
async fn begun(served: &Served) -> TcpStream {
    let mut stream = served.connect().await;
    let head = format!(
        "PUT /v1/collections/orders/records/acme,1 HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{}",
        BODY.len(),
        &BODY[..10]
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    eventually("the request is in flight", || async {
        served.metric("recto_http_in_flight").await > 1.5
    })
    .await;
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_in_flight_is_answered_and_no_other_begins() {
    let mut served = serve(|_| {}).await;
    let idle = served.connect().await;
    let mut stream = begun(&served).await;
    served.tell();
    let address = served.address;
    eventually("it listens no more", || async move {
        TcpStream::connect(address).await.is_err()
    })
    .await;
    stream.write_all(&BODY.as_bytes()[10..]).await.unwrap();
    let answer = read_to_end(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 20"), "{answer}");
    served.ended().await.unwrap();
    let record = served
        .session
        .get("orders", &["acme".into(), "1".into()])
        .await
        .unwrap();
    assert_eq!(record.unwrap().record["note"], "finished");
    drop(idle);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_does_not_end_is_cut_when_the_time_is_over() {
    let mut served = serve(|config| config.limits.shutdown_time = Duration::from_millis(200)).await;
    let stream = begun(&served).await;
    served.tell();
    let error = served.ended().await.unwrap_err();
    assert!(
        matches!(error, ServeError::Unfinished { connections: 1, .. }),
        "{error}"
    );
    assert_eq!(
        error.to_string(),
        "the server stopped after 200 ms, before all work had ended: 1 connection"
    );
    drop(stream);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_at_rest_stops_at_once() {
    let served = serve(|_| {}).await;
    let began = std::time::Instant::now();
    served.stop().await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(5));
}
