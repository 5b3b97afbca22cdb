//! Checks access tokens: their rights, and that no request reaches rows outside their row filter.

use std::time::{Duration, Instant};

use recto_server::auth::TokenFile;
use serde_json::Value as Json;

use tokio::io::AsyncReadExt as _;

use super::support::{
    LARGE_BYTES, ORDERS, begin_export, eventually, make_token, put_large_orders, read_to_end,
    serve_with_tokens,
};

const RECORDS: &str = "/v1/collections/orders/records";
/// Path of a list of one partition's records. No view serves a list of all partitions.
const LIST: &str = "/v1/collections/orders/records?filter=tenant%20%3D%20%22acme%22";

#[tokio::test(flavor = "multi_thread")]
async fn without_a_token_nothing_is_told() {
    let (served, tokens) = serve_with_tokens(&["*:all"]).await;
    for path in [
        "/",
        "/v1/collections",
        RECORDS,
        "/openapi.json",
        "/docs",
        "/metrics",
        "/nothing",
    ] {
        let reply = served.get(path).await;
        assert_eq!(reply.status, 401, "{path}");
        assert!(reply.header("www-authenticate").unwrap().starts_with("bearer"));
        assert!(!reply.body.contains("orders"));
    }
    let spoilt = format!("{}x", tokens[0]);
    let reply = served.with(&spoilt, "GET", LIST, "").await;
    assert_eq!(reply.status, 401);
    assert!(
        reply
            .header("www-authenticate")
            .unwrap()
            .contains("invalid_token")
    );
    assert!(!reply.body.contains(&tokens[0]));
    assert_eq!(served.get("/healthz").await.status, 200);
    assert_eq!(served.get("/readyz").await.status, 200);
    assert_eq!(served.with(&tokens[0], "GET", LIST, "").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_without_token_gets_a_sign_in_page() {
    let (served, _) = serve_with_tokens(&["*:all"]).await;
    let html = ["Accept: text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"];
    for path in ["/", "/collections/orders", "/docs"] {
        let page = served.ask("GET", path, &html, "").await;
        assert_eq!(page.status, 401, "{path}");
        assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
        assert!(
            page.head.contains("www-authenticate: basic realm"),
            "{}",
            page.head
        );
        assert!(page.body.contains("Sign in with any name"), "{}", page.body);
        assert!(!page.body.contains("orders"), "{}", page.body);
    }
    let json = served.get("/").await;
    assert_eq!(json.header("content-type"), Some("application/problem+json"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_does_what_it_is_granted_and_no_more() {
    let (served, tokens) = serve_with_tokens(&["orders:read", "orders:write; secrets:delete"]).await;
    let one = format!("{RECORDS}/acme,1");
    let body = r#"{"tenant":"acme","id":1,"note":"new"}"#;
    for (token, method, path, body, status) in [
        (0, "GET", LIST, "", 200),
        (0, "GET", one.as_str(), "", 200),
        (0, "PUT", one.as_str(), body, 403),
        (0, "DELETE", one.as_str(), "", 403),
        (0, "GET", "/v1/collections/orders/records:export", "", 403),
        (0, "GET", "/v1/collections/secrets/records", "", 404),
        (0, "GET", "/v1/collections/absent/records", "", 404),
        (0, "GET", "/metrics", "", 403),
        (1, "GET", LIST, "", 403),
        (1, "GET", "/v1/collections/secrets/records/1", "", 403),
        (1, "DELETE", one.as_str(), "", 403),
    ] {
        let reply = served.with(&tokens[token], method, path, body).await;
        assert_eq!(reply.status, status, "{token} {method} {path}: {}", reply.body);
    }
    let listed = served.with(&tokens[0], "GET", "/v1/collections", "").await;
    assert!(listed.body.contains("orders") && !listed.body.contains("secrets"));
    let reply = served.with(&tokens[1], "PUT", &one, body).await;
    assert!(reply.status < 300, "{} {}", reply.status, reply.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_server_sees_tokens_come_and_go_within_a_second() {
    let (served, tokens) = serve_with_tokens(&["*:read"]).await;
    let second = make_token(&served.tokens(), "orders:read", None);
    let began = Instant::now();
    eventually("the new token is taken", || async {
        served.with(&second, "GET", LIST, "").await.status == 200
    })
    .await;
    let came = began.elapsed();
    let id = TokenFile::read(&served.tokens()).unwrap().tokens[0].id.clone();
    TokenFile::revoke(&served.tokens(), &id).unwrap();
    let began = Instant::now();
    eventually("the old token is refused", || async {
        served.with(&tokens[0], "GET", LIST, "").await.status == 401
    })
    .await;
    let went = began.elapsed();
    // A token must be revoked within a second. Allow another second for a busy machine.
    let soon = Duration::from_secs(2);
    assert!(came < soon && went < soon, "{came:?} {went:?}");
    assert_eq!(served.with(&second, "GET", LIST, "").await.status, 200);
}

/// Checks that an export ends when its token is revoked, and that its response does not look
/// complete.
#[tokio::test(flavor = "multi_thread")]
async fn an_export_ends_with_its_token() {
    let (served, tokens) = serve_with_tokens(&["*:all", "*:all"]).await;
    put_large_orders(&served).await;
    let mut cut = begin_export(&served, &tokens[0]).await;
    let mut whole = begin_export(&served, &tokens[1]).await;
    let id = TokenFile::read(&served.tokens()).unwrap().tokens[0].id.clone();
    TokenFile::revoke(&served.tokens(), &id).unwrap();
    eventually("the token is refused", || async {
        served.with(&tokens[0], "GET", LIST, "").await.status == 401
    })
    .await;
    let came = read_to_end(&mut cut).await;
    assert!(came.len() < LARGE_BYTES / 2, "{} bytes came", came.len());
    assert!(!came.ends_with("\r\n0\r\n\r\n"));
    // An export of another token continues.
    let mut came = 0;
    let mut buffer = vec![0; 1 << 16];
    while came < LARGE_BYTES {
        came += whole.read(&mut buffer).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_over_is_refused_and_says_so() {
    let (served, _) = serve_with_tokens(&["*:read"]).await;
    let brief = make_token(&served.tokens(), "*:read", Some(0));
    eventually("it is known", || async {
        let reply = served.with(&brief, "GET", LIST, "").await;
        assert_eq!(reply.status, 401);
        reply.header("www-authenticate").unwrap().contains("expired")
    })
    .await;
}

/// Checks that a response contains no row of another tenant.
fn of_acme_only(what: &str, body: &str) {
    assert!(!body.contains("umbrella\""), "{what}: {body}");
    assert!(!body.contains("of umbrella"), "{what}: {body}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_reaches_rows_beyond_the_filter() {
    let rows = "orders:all where tenant = \"acme\"";
    let (served, tokens) = serve_with_tokens(&[rows, "*:all"]).await;
    let (scoped, all) = (&tokens[0], &tokens[1]);

    let umbrella = "filter=tenant%20%3D%20%22umbrella%22";
    let widening = [
        umbrella.to_owned(),
        "filter=tenant%20IN%20(%22acme%22,%22umbrella%22)".to_owned(),
        "filter=tenant%20%3D%20%22acme%22%20OR%20tenant%20%3D%20%22umbrella%22".to_owned(),
        "filter=NOT%20tenant%20%3D%20%22acme%22".to_owned(),
        "filter=tenant%20%3E%20%22acme%22&allow_filter_scan=true".to_owned(),
        "filter=%22)%20OR%20(tenant%20%3D%20%22umbrella".to_owned(),
        "order_by=tenant%20desc,id".to_owned(),
        "from=%5B%22umbrella%22,0%5D".to_owned(),
        "last=true".to_owned(),
        String::new(),
    ];
    for query in &widening {
        for suffix in ["", ":explain"] {
            let path = format!("{RECORDS}{suffix}?{query}&row_page_tokens=true");
            let path = if suffix.is_empty() {
                path
            } else {
                format!("{RECORDS}{suffix}?{query}")
            };
            let reply = served.with(scoped, "GET", &path, "").await;
            assert!(
                matches!(reply.status, 200 | 400 | 403),
                "{path}: {}",
                reply.status
            );
            if suffix.is_empty() && reply.status == 200 {
                of_acme_only(&path, &reply.body);
            }
        }
    }
    let own = served.with(scoped, "GET", RECORDS, "").await;
    assert_eq!(
        own.json()["records"].as_array().unwrap().len(),
        usize::try_from(ORDERS).unwrap()
    );

    // A page token of a client that sees more rows must not be valid for a restricted client.
    let page = served
        .with(
            all,
            "GET",
            &format!("{RECORDS}?{umbrella}&page_size=3&row_page_tokens=true"),
            "",
        )
        .await
        .json();
    let next = page["next_page_token"].as_str().unwrap().to_owned();
    let row = page["row_page_tokens"][1]
        .as_str()
        .unwrap_or_else(|| panic!("{page}"))
        .to_owned();
    for query in [
        format!("{umbrella}&page_size=3&page_token={next}"),
        format!("page_size=3&page_token={next}"),
        format!("{umbrella}&around={row}"),
        format!("around={row}"),
    ] {
        let reply = served
            .with(scoped, "GET", &format!("{RECORDS}?{query}"), "")
            .await;
        assert!(
            matches!(reply.status, 200 | 400 | 403),
            "{query}: {}",
            reply.status
        );
        of_acme_only(&query, &reply.body);
    }
    keys_and_batches(&served, scoped, all).await;
}

async fn keys_and_batches(served: &super::support::Served, scoped: &str, all: &str) {
    let theirs = format!("{RECORDS}/umbrella,1");
    let body = r#"{"tenant":"umbrella","id":1,"note":"taken over"}"#;
    assert_eq!(served.with(scoped, "GET", &theirs, "").await.status, 404);
    assert!(served.with(scoped, "PUT", &theirs, body).await.status >= 400);
    assert!(served.with(scoped, "DELETE", &theirs, "").await.status >= 400);
    // The path has a permitted key, but the body has the key of another tenant.
    assert!(
        served
            .with(scoped, "PUT", &format!("{RECORDS}/acme,1"), body)
            .await
            .status
            >= 400
    );
    let batch = r#"{"changes":[{"put":{"tenant":"acme","id":77,"note":"mine"}},
        {"put":{"tenant":"umbrella","id":1,"note":"taken over"}}]}"#;
    assert!(
        served
            .with(scoped, "POST", &format!("{RECORDS}:batchWrite"), batch)
            .await
            .status
            >= 400
    );
    let batch = r#"{"changes":[{"delete":["umbrella",2]}]}"#;
    assert!(
        served
            .with(scoped, "POST", &format!("{RECORDS}:batchWrite"), batch)
            .await
            .status
            >= 400
    );
    let export = served.with(scoped, "GET", &format!("{RECORDS}:export"), "").await;
    assert_eq!(export.status, 200);
    of_acme_only("export", &export.body);
    assert!(export.body.contains("of acme"));

    for body in [
        "{}",
        r#"{"filter":"tenant = \"umbrella\""}"#,
        r#"{"resume_tokens":true}"#,
    ] {
        for verb in ["query", "export"] {
            let target = format!("{RECORDS}:{verb}");
            let reply = served.with(scoped, "POST", &target, body).await;
            assert!(matches!(reply.status, 200 | 400), "{verb} {body}: {}", reply.body);
            of_acme_only(&target, &reply.body);
        }
    }

    let mine = served
        .with(scoped, "GET", &format!("{RECORDS}/acme,77"), "")
        .await;
    assert_eq!(mine.status, 404, "a batch is refused whole");
    for id in [1, 2] {
        let reply = served
            .with(all, "GET", &format!("{RECORDS}/umbrella,{id}"), "")
            .await;
        let record: Json = reply.json();
        assert_eq!(record["note"], "of umbrella", "{}", reply.body);
    }
}
