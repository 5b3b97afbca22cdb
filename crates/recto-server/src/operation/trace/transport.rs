//! HTTP connection to an `OpenTelemetry` collector, for the exporter.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::body::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry_http::{HttpClient, HttpError, Request, Response};
use tokio::runtime::Handle;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::export::Counts;
use super::settings::Settings;

/// Maximum size of a collector's reply, in bytes. Replies are short: they contain the number of
/// rejected spans.
const MAX_ANSWER_BYTES: usize = 64 << 10;

type HttpsClient = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// HTTP connection to a collector, which runs on the server's runtime.
pub(super) struct Transport {
    client: HttpsClient,
    runtime: Handle,
    time: Duration,
    counts: Arc<Counts>,
}

impl std::fmt::Debug for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transport").finish_non_exhaustive()
    }
}

impl Transport {
    /// Creates the connection to a collector. Sends nothing until the first export.
    ///
    /// # Errors
    /// A certificate or a key cannot be used.
    pub(super) fn new(settings: &Settings, runtime: Handle, counts: Arc<Counts>) -> Result<Self, String> {
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(settings.export_time));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls(settings)?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        Ok(Self {
            client: Client::builder(TokioExecutor::new()).build(connector),
            runtime,
            time: settings.export_time,
            counts,
        })
    }
}

#[async_trait]
impl HttpClient for Transport {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (client, time) = (self.client.clone(), self.time);
        // Use the server's runtime: the exporter calls the function from its own thread, which has
        // no runtime.
        let exchange = async move { tokio::time::timeout(time, exchange(client, request)).await };
        let answer = match self.runtime.spawn(exchange).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(format!("the endpoint did not reply within {} ms", time.as_millis()).into()),
            Err(_) => Err("the server has stopped".into()),
        };
        if let Err(error) = &answer {
            self.counts.note_reason(reasons(&**error));
        }
        answer
    }
}

async fn exchange(client: HttpsClient, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
    let (head, body) = client.request(request.map(Full::new)).await?.into_parts();
    let body = Limited::new(body, MAX_ANSWER_BYTES).collect().await?.to_bytes();
    Ok(Response::from_parts(head, body))
}

/// Returns the texts of an error and of all its causes. The outermost text says only that the
/// request failed.
fn reasons(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// Returns the TLS configuration for the collector: trusted authorities, and the server's
/// certificate.
fn tls(settings: &Settings) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    if let Some(file) = &settings.certificate {
        for certificate in chain(file)? {
            roots
                .add(certificate)
                .map_err(|error| format!("{}: {error}", file.display()))?;
        }
    } else if settings.is_https {
        let (added, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if added == 0 {
            return Err(
                "this machine trusts no certificate authorities; name a file of them in \
                 OTEL_EXPORTER_OTLP_CERTIFICATE"
                    .to_owned(),
            );
        }
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    let Some((certificate, key)) = &settings.client else {
        return Ok(builder.with_no_client_auth());
    };
    // The message may contain the library's error, which never contains the key.
    let private = PrivateKeyDer::from_pem_file(key)
        .map_err(|error| format!("{}: no PEM private key can be read: {error}", key.display()))?;
    builder
        .with_client_auth_cert(chain(certificate)?, private)
        .map_err(|error| {
            format!(
                "{}: it cannot be used with its key: {error}",
                certificate.display()
            )
        })
}

fn chain(file: &std::path::Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(chain) if !chain.is_empty() => Ok(chain),
        Ok(_) => Err(format!("{}: the file has no PEM certificate", file.display())),
        Err(error) => Err(format!(
            "{}: no PEM certificate can be read: {error}",
            file.display()
        )),
    }
}
