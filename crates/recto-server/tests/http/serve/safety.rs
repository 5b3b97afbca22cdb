//! Checks that pages of other sites cannot change data, and that every response has security
//! headers.

use recto_server::{Config, ServeError, Server};

use super::support::{serve, serve_with_tokens, store};

const RECORD: &str = "/v1/collections/orders/records/acme,1";

#[tokio::test]
async fn other_machines_are_not_served_without_tokens_and_tls() {
    let folder = tempfile::tempdir().unwrap();
    let session = store(&folder).await;
    let mut config = Config {
        listen: "0.0.0.0:0".parse().unwrap(),
        ..Config::default()
    };
    let error = Server::bind(session.clone(), &config).await.unwrap_err();
    assert!(matches!(error, ServeError::Config(_)), "{error}");
    assert!(error.hint().unwrap().contains("recto token create"));
    let path = folder.path().join("tokens.toml");
    super::support::make_token(&path, "*:read", None);
    config.tokens = Some(path);
    let error = Server::bind(session.clone(), &config).await.unwrap_err();
    assert!(error.to_string().contains("without encryption"));
    config.behind_proxy = true;
    Server::bind(session, &config).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn only_hosts_of_its_own_are_served_on_loopback() {
    let served = serve(|config| config.hosts = vec!["db.example".into()]).await;
    for host in ["localhost", "127.0.0.1:8080", "[::1]", "DB.example:1"] {
        let reply = served
            .ask("GET", "/v1/collections", &[&format!("Host: {host}")], "")
            .await;
        assert_eq!(reply.status, 200, "{host}");
    }
    for path in ["/v1/collections", "/", "/metrics"] {
        let reply = served.ask("GET", path, &["Host: rebound.example"], "").await;
        assert_eq!(reply.status, 421, "{path}");
    }
    let none = served.send(b"GET /v1/collections HTTP/1.0\r\n\r\n").await;
    assert_eq!(none.status, 421);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_other_sites_change_nothing() {
    let (served, tokens) = serve_with_tokens(&["*:all"]).await;
    let basic = {
        use base64::Engine as _;
        let text = format!("me:{}", tokens[0]);
        format!(
            "Authorization: Basic {}",
            base64::engine::general_purpose::STANDARD.encode(text)
        )
    };
    for other in [
        "Sec-Fetch-Site: cross-site",
        "Origin: https://evil.example",
        "Origin: null",
    ] {
        for method in ["PUT", "DELETE", "POST", "PATCH"] {
            let reply = served.ask(method, RECORD, &[&basic, other], "{}").await;
            assert_eq!(reply.status, 403, "{method} {other}");
            assert_eq!(reply.json()["type"], "urn:recto:problem:cross-site");
        }
    }
    let same = format!("Origin: http://localhost:{}", served.address.port());
    let body = r#"{"tenant":"acme","id":1,"note":"same"}"#;
    let reply = served
        .ask(
            "PUT",
            RECORD,
            &[&basic, &same, "Sec-Fetch-Site: same-origin"],
            body,
        )
        .await;
    assert!(reply.status < 300, "{} {}", reply.status, reply.body);
    // Accept a bearer token from any origin. Browsers never add a bearer token on their own, so a
    // program sent the request.
    let bearer = format!("Authorization: Bearer {}", tokens[0]);
    let reply = served
        .ask("PUT", RECORD, &[&bearer, "Origin: https://tool.example"], body)
        .await;
    assert!(reply.status < 300, "{} {}", reply.status, reply.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_carries_the_security_headers_and_a_request_id() {
    let (served, tokens) = serve_with_tokens(&["*:read"]).await;
    let mut replies = Vec::new();
    for path in [
        "/",
        "/v1/collections",
        "/nothing",
        "/v1/collections/nothing/records",
        "/healthz",
        "/metrics",
    ] {
        replies.push(served.with(&tokens[0], "GET", path, "").await);
        replies.push(served.get(path).await);
    }
    replies.push(served.ask("GET", "/", &["Host: rebound.example"], "").await);
    for reply in replies {
        let policy = reply.header("content-security-policy").unwrap();
        assert!(
            policy.contains("default-src 'self'") && policy.contains("frame-ancestors 'none'"),
            "{policy}"
        );
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(reply.header("x-frame-options"), Some("deny"));
        assert_eq!(reply.header("referrer-policy"), Some("no-referrer"));
        assert!(!reply.header("x-request-id").unwrap().is_empty());
        assert_eq!(reply.header("strict-transport-security"), None, "this is no TLS");
        assert_eq!(reply.header("access-control-allow-origin"), None);
    }
}
