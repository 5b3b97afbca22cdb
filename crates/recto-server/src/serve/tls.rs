//! TLS whose certificate can be replaced while the server runs.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use tokio::net::TcpStream;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::{Accept, TlsAcceptor};

use super::ServeError;

/// HTTP protocols that TLS negotiates (ALPN), in order of preference.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];
/// Maximum number of certificates in a chain.
const MAX_CHAIN: usize = 16;

/// Certificate chain and key that new connections use.
pub(crate) struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    current: RwLock<Current>,
}

struct Current {
    config: Arc<ServerConfig>,
    changed: [Option<SystemTime>; 2],
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls")
            .field("certificate", &self.certificate)
            .finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads the certificate chain and the key from their files.
    pub(crate) fn open(certificate: &Path, key: &Path) -> Result<Self, ServeError> {
        let changed = changed(certificate, key);
        let config = read(certificate, key)?;
        Ok(Self {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            current: RwLock::new(Current { config, changed }),
        })
    }

    /// Starts the TLS handshake of a connection, with the current certificate.
    pub(crate) fn accept(&self, stream: TcpStream) -> Accept<TcpStream> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        TlsAcceptor::from(Arc::clone(&current.config)).accept(stream)
    }

    /// Reads the certificate and the key again if a file changed. Returns whether one changed. The
    /// previous certificate stays in use until both files match.
    pub(crate) fn reload(&self) -> Result<bool, ServeError> {
        let changed = changed(&self.certificate, &self.key);
        if self
            .current
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .changed
            == changed
        {
            return Ok(false);
        }
        let config = read(&self.certificate, &self.key)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Current { config, changed };
        Ok(true)
    }
}

fn changed(certificate: &Path, key: &Path) -> [Option<SystemTime>; 2] {
    [certificate, key].map(|path| {
        std::fs::metadata(path)
            .and_then(|metadata| metadata.modified())
            .ok()
    })
}

fn read(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, ServeError> {
    let failed = |path: &Path, reason: String| ServeError::Certificate {
        path: path.to_owned(),
        reason,
    };
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(|certificates| certificates.take(MAX_CHAIN).collect::<Result<Vec<_>, _>>())
        .map_err(|error| failed(certificate, format!("no PEM certificate can be read: {error}")))?;
    if chain.is_empty() {
        return Err(failed(certificate, "it has no PEM certificate".into()));
    }
    // The message may contain the library's error, which never contains the key.
    let private = PrivateKeyDer::from_pem_file(key)
        .map_err(|error| failed(key, format!("no PEM private key can be read: {error}")))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, private))
        .map_err(|error| failed(certificate, format!("it cannot be used with its key: {error}")))?;
    config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
    Ok(Arc::new(config))
}
