//! Checks TLS: requests, time limits, and replacement of the certificate while the server runs.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::support::{Served, eventually, read_to_end, serve};

/// Writes a certificate for localhost and its key to a folder. Returns the certificate.
pub(crate) fn certificate(folder: &Path) -> CertificateDer<'static> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    std::fs::write(folder.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    std::fs::write(folder.join("cert.pem"), made.cert.pem()).unwrap();
    made.cert.der().clone()
}

pub(crate) async fn served(folder: &Path) -> Served {
    serve(|config| {
        config.tls_certificate = Some(folder.join("cert.pem"));
        config.tls_key = Some(folder.join("key.pem"));
        config.limits.header_time = Duration::from_millis(300);
    })
    .await
}

/// Connects over TLS. Trusts only the certificate `trusted`, and offers the given protocols.
pub(crate) async fn connect(
    served: &Served,
    trusted: &CertificateDer<'static>,
    protocols: &[&[u8]],
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    let stream = served.connect().await;
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// Requests `/healthz` over TLS. Trusts only the certificate `trusted`.
async fn ask(served: &Served, trusted: &CertificateDer<'static>) -> std::io::Result<String> {
    let mut stream = connect(served, trusted, &[]).await?;
    stream
        .write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .await?;
    Ok(read_to_end(&mut stream).await.to_ascii_lowercase())
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_is_spoken_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let trusted = certificate(folder.path());
    let served = served(folder.path()).await;
    let answer = ask(&served, &trusted).await.unwrap();
    assert!(answer.starts_with("http/1.1 200"), "{answer}");
    assert!(
        answer.contains("strict-transport-security: max-age=31536000"),
        "{answer}"
    );

    let mut plain = served.connect().await;
    plain
        .write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .await
        .unwrap();
    assert!(!read_to_end(&mut plain).await.contains("200"));
    let mut silent: TcpStream = served.connect().await;
    assert_eq!(read_to_end(&mut silent).await, "", "a handshake has its time");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_certificate_is_taken_while_the_server_runs() {
    let folder = tempfile::tempdir().unwrap();
    let old = certificate(folder.path());
    let served = served(folder.path()).await;
    ask(&served, &old).await.unwrap();
    let new = certificate(folder.path());
    eventually("the new one is used", || async {
        ask(&served, &new).await.is_ok()
    })
    .await;
    ask(&served, &old).await.unwrap_err();
    // An invalid key file must not replace the certificate and the key in use.
    std::fs::write(folder.path().join("key.pem"), "no key").unwrap();
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    ask(&served, &new).await.unwrap();
}
