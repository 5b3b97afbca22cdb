//! Checks HTTP/2, with prior knowledge and over TLS: many requests on one connection, and clients
//! that misuse it.

use axum::body::Bytes;
use axum::http::{HeaderMap, Request, StatusCode};
use h2::Reason;
use h2::client::{ResponseFuture, SendRequest};
use recto::session::Records as _;
use serde_json::{Value as Json, json};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::task::JoinHandle;

use super::frames::{Frame, Frames, GOAWAY, MAX_CONCURRENT_STREAMS, RST_STREAM, SETTINGS};
use super::support::{PATIENCE, Served, eventually, serve};
use super::tls;

/// Maximum number of concurrent requests of one connection, as the guide documents it.
const MAX_STREAMS: usize = 128;
/// Limit of concurrent requests that a client assumes until the server announces its limit, as RFC
/// 9113 recommends.
const INITIAL_STREAMS: usize = 100;
const LIST: &str = "/v1/collections/orders/records?filter=tenant%20%3D%20%22acme%22";
const BATCH: &str = "/v1/collections/orders/records:batchWrite";

/// HTTP/2 connection of a well-behaved client.
struct Client {
    sender: SendRequest<Bytes>,
    connection: JoinHandle<Result<(), h2::Error>>,
}

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Answer {
    async fn of(response: ResponseFuture) -> Result<Self, h2::Error> {
        let read = async {
            let (parts, mut stream) = response.await?.into_parts();
            let mut body = Vec::new();
            while let Some(bytes) = stream.data().await {
                let bytes = bytes?;
                body.extend_from_slice(&bytes);
                stream.flow_control().release_capacity(bytes.len())?;
            }
            Ok(Self {
                status: parts.status,
                headers: parts.headers,
                body,
            })
        };
        tokio::time::timeout(PATIENCE, read).await.expect("an answer")
    }

    fn json(&self) -> Json {
        serde_json::from_slice(&self.body).unwrap()
    }
}

fn request(method: &str, url: &str) -> Request<()> {
    let request = Request::builder().method(method).uri(url);
    request
        .header("content-type", "application/json")
        .body(())
        .unwrap()
}

impl Client {
    async fn over(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Self {
        let mut builder = h2::client::Builder::new();
        // Limit concurrent requests until the server announces its own limit.
        builder.initial_max_send_streams(INITIAL_STREAMS);
        let (sender, connection) = builder.handshake(stream).await.unwrap();
        Self {
            sender,
            connection: tokio::spawn(connection),
        }
    }

    async fn to(served: &Served) -> Self {
        Self::over(served.connect().await).await
    }

    /// Sends a request. If it has a body, the caller sends the body later.
    async fn begin(
        &mut self,
        request: Request<()>,
        has_body: bool,
    ) -> (ResponseFuture, h2::SendStream<Bytes>) {
        self.sender = self.sender.clone().ready().await.unwrap();
        self.sender.send_request(request, !has_body).unwrap()
    }

    async fn ask(&mut self, method: &str, path: &str, body: &str) -> Answer {
        let url = format!("http://localhost{path}");
        let (response, mut stream) = self.begin(request(method, &url), !body.is_empty()).await;
        if !body.is_empty() {
            stream
                .send_data(Bytes::copy_from_slice(body.as_bytes()), true)
                .unwrap();
        }
        Answer::of(response).await.unwrap()
    }

    /// Closes the connection, and returns its result.
    async fn ended(self) -> Result<(), h2::Error> {
        drop(self.sender);
        tokio::time::timeout(PATIENCE, self.connection)
            .await
            .expect("it ends")
            .unwrap()
    }
}

/// Checks two requests over HTTP/2: a page, and a body that is larger than the flow-control window.
async fn reads_and_writes(served: &Served, client: &mut Client) {
    let page = client.ask("GET", LIST, "").await;
    assert_eq!(page.status, 200);
    assert_eq!(page.headers["x-frame-options"], "DENY");
    assert_eq!(page.json()["records"].as_array().unwrap().len(), 10);
    let note = "long ".repeat(100_000);
    let batch = json!({ "changes": [{ "put": { "tenant": "acme", "id": 100, "note": note } }] });
    let written = client.ask("POST", BATCH, &batch.to_string()).await;
    assert_eq!(
        (written.status, written.json()["puts"].clone()),
        (StatusCode::OK, json!(1))
    );
    let read = client
        .ask("GET", "/v1/collections/orders/records/acme,100", "")
        .await;
    assert_eq!(read.json()["note"], note);
    assert_eq!(
        client
            .ask("DELETE", "/v1/collections/orders/records/acme,100", "")
            .await
            .status,
        204
    );
    assert_eq!(client.ask("GET", "/collections/orders", "").await.status, 200);
    let key = ["acme".to_owned(), "100".to_owned()];
    assert_eq!(served.session.get("orders", &key).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn spoken_by_prior_knowledge() {
    let served = serve(|_| {}).await;
    let mut client = Client::to(&served).await;
    reads_and_writes(&served, &mut client).await;
    // HTTP/2 has the host in `:authority`. The server must check it like `Host` of HTTP/1.1.
    let (response, _) = client.begin(request("GET", "http://evil.example/"), false).await;
    assert_eq!(Answer::of(response).await.unwrap().status, 421);
    let (response, _) = client
        .begin(
            request("GET", &format!("http://localhost/?{}", "x".repeat(17_000))),
            false,
        )
        .await;
    assert_eq!(Answer::of(response).await.unwrap().status, 414);
    assert_eq!(
        client.ask("GET", "/healthz", "").await.status,
        200,
        "the connection goes on"
    );
    client.ended().await.unwrap();
}

/// Checks that responses to HEAD have no body, even for rejected requests. A client would treat a
/// body as a protocol error.
#[tokio::test(flavor = "multi_thread")]
async fn head_has_no_body_whoever_answers() {
    let (served, tokens) = super::support::serve_with_tokens(&["*:all"]).await;
    let mut client = Client::to(&served).await;
    let long = format!("/?{}", "x".repeat(17_000));
    for (url, token, status) in [
        ("http://localhost/healthz", false, 200),
        ("http://localhost/readyz", false, 200),
        ("http://localhost/metrics", true, 200),
        ("http://localhost/metrics", false, 401),
        ("http://localhost/", true, 200),
        ("http://evil.example/", true, 421),
        (&format!("http://localhost{long}"), true, 414),
        (&format!("http://localhost{LIST}"), true, 200),
        ("http://localhost/v1/collections/orders/records:export", true, 200),
        ("http://localhost/nothing", true, 404),
    ] {
        let mut request = request("HEAD", url);
        if token {
            let bearer = format!("Bearer {}", tokens[0]).parse().unwrap();
            request.headers_mut().insert("authorization", bearer);
        }
        let (response, _) = client.begin(request, false).await;
        let answer = Answer::of(response)
            .await
            .unwrap_or_else(|error| panic!("{url:.60}: {error}"));
        assert_eq!(
            (answer.status.as_u16(), answer.body.len()),
            (status, 0),
            "{url:.60}"
        );
    }
    client.ended().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn spoken_by_tls_to_who_offers_it() {
    let folder = tempfile::tempdir().unwrap();
    let trusted = tls::certificate(folder.path());
    let served = tls::served(folder.path()).await;
    let stream = tls::connect(&served, &trusted, &[b"h2", b"http/1.1"])
        .await
        .unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let mut client = Client::over(stream).await;
    reads_and_writes(&served, &mut client).await;
    client.ended().await.unwrap();
    let stream = tls::connect(&served, &trusted, &[b"http/1.1"]).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_side_by_side_get_their_own_answers() {
    let served = serve(|_| {}).await;
    let mut client = Client::to(&served).await;
    let mut responses = Vec::new();
    for number in 0..500 {
        let id = number % 10;
        let url = format!("http://localhost/v1/collections/orders/records/acme,{id}");
        let (response, _) = client.begin(request("GET", &url), false).await;
        responses.push((id, tokio::spawn(Answer::of(response))));
    }
    for (id, response) in responses {
        let answer = response.await.unwrap().unwrap();
        assert_eq!(
            (answer.status, answer.json()["id"].clone()),
            (StatusCode::OK, json!(id))
        );
    }
    assert_eq!(client.sender.current_max_send_streams(), MAX_STREAMS);
    client.ended().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_beyond_the_limit_are_refused_one_by_one() {
    let served = serve(|_| {}).await;
    let mut stream = served.connect().await;
    let beyond = 72;
    let mut frames = Frames::client();
    for number in 0..MAX_STREAMS + beyond {
        frames.put_without_body(number, "/v1/collections/orders/records/acme,1");
    }
    stream.write_all(&frames.bytes()).await.unwrap();
    let mut refused = 0;
    let mut announced = None;
    while refused < beyond {
        let frame = Frame::read(&mut stream).await.expect("the connection goes on");
        match frame.kind {
            SETTINGS => announced = announced.or(frame.setting(MAX_CONCURRENT_STREAMS)),
            RST_STREAM => {
                assert_eq!(frame.code(), u32::from(Reason::REFUSED_STREAM));
                refused += 1;
            }
            GOAWAY => panic!("the connection ends"),
            _ => {}
        }
    }
    assert_eq!(announced, Some(u32::try_from(MAX_STREAMS).unwrap()));
    let in_flight = || served.metric("recto_http_in_flight");
    // Add one, because the request for metrics is also in flight.
    let most = MAX_STREAMS as f64 + 1.0;
    eventually("the others are answered", || async {
        in_flight().await > most - 0.5
    })
    .await;
    assert!(in_flight().await < most + 0.5);
    drop(stream);
    eventually("requests of a connection that is gone end", || async {
        in_flight().await < 1.5
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn closes_a_connection_that_resets_streams_rapidly() {
    let served = serve(|_| {}).await;
    let mut well_behaved = Client::to(&served).await;
    let mut stream = served.connect().await;
    let (mut reading, mut writing) = stream.split();
    let write = async {
        let mut frames = Frames::client();
        for number in 0..20_000 {
            frames.get(number, LIST);
            frames.reset(number);
        }
        // Ignore an error: the server may close the connection before all frames are sent.
        let _ = writing.write_all(&frames.bytes()).await;
    };
    let read = async {
        while let Some(frame) = Frame::read(&mut reading).await {
            if frame.kind == GOAWAY {
                return Some(frame.code());
            }
        }
        None
    };
    let (code, ()) = tokio::join!(read, write);
    assert_eq!(code, Some(u32::from(Reason::ENHANCE_YOUR_CALM)));
    assert_eq!(well_behaved.ask("GET", LIST, "").await.status, 200);
    eventually("what was begun is dropped", || async {
        served.metric("recto_http_in_flight").await < 1.5
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_says_so_and_finishes_what_it_began() {
    let mut served = serve(|_| {}).await;
    let idle = Client::to(&served).await;
    let mut client = Client::to(&served).await;
    assert_eq!(client.ask("GET", "/healthz", "").await.status, 200);
    let url = "http://localhost/v1/collections/orders/records/acme,1";
    let (response, mut body) = client.begin(request("PUT", url), true).await;
    body.send_data(Bytes::from_static(b"{\"note\":"), false).unwrap();
    eventually("the request is in flight", || async {
        served.metric("recto_http_in_flight").await > 1.5
    })
    .await;
    served.tell();
    idle.ended().await.unwrap();
    let sender = client.sender.clone();
    eventually("no other begins", || {
        let mut sender = sender.clone();
        async move {
            let began = sender.send_request(request("GET", "http://localhost/healthz"), true);
            match began {
                Ok((response, _)) => Answer::of(response).await.is_err(),
                Err(_) => true,
            }
        }
    })
    .await;
    body.send_data(Bytes::from_static(b"\"finished\"}"), true)
        .unwrap();
    let answer = Answer::of(response).await.unwrap();
    assert!(answer.status.is_success(), "{}", answer.status);
    drop(sender);
    client.ended().await.unwrap();
    served.ended().await.unwrap();
    let key = ["acme".to_owned(), "1".to_owned()];
    let record = served.session.get("orders", &key).await.unwrap().unwrap();
    assert_eq!(record.record["note"], "finished");
}
