//! TLS context of the connections, with rustls.

use std::sync::Arc;

use recto_store::{StoreError, StoreErrorKind};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::config::TlsConfig;

/// Returns the driver's TLS context for `config`.
///
/// # Errors
/// [`StoreErrorKind::Invalid`] if a file cannot be read or contains no certificate or key. The
/// error contains the names of files, and never their content.
pub(crate) fn context(config: &TlsConfig) -> Result<Arc<ClientConfig>, StoreError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable("the TLS library's defaults", &error))?;
    let roots = Arc::new(authorities(config)?);
    let builder = if config.check_server_name {
        builder.with_root_certificates(roots)
    } else {
        let verifier = AnyName::new(roots, provider)?;
        builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
    };
    let context = match &config.client {
        None => builder.with_no_client_auth(),
        Some(client) => {
            let name = client.certificate_file.display().to_string();
            let chain = certificates(&client.certificate_file)?;
            let key = PrivateKeyDer::from_pem_file(&client.key_file)
                .map_err(|error| unusable(&client.key_file.display().to_string(), &error))?;
            builder
                .with_client_auth_cert(chain, key)
                .map_err(|error| unusable(&name, &error))?
        }
    };
    Ok(Arc::new(context))
}

fn authorities(config: &TlsConfig) -> Result<RootCertStore, StoreError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&config.ca_file)? {
        roots
            .add(certificate)
            .map_err(|error| unusable(&config.ca_file.display().to_string(), &error))?;
    }
    Ok(roots)
}

fn certificates(file: &std::path::Path) -> Result<Vec<CertificateDer<'static>>, StoreError> {
    let name = file.display().to_string();
    let certificates: Vec<_> = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect)
        .map_err(|error| unusable(&name, &error))?;
    if certificates.is_empty() {
        return Err(unusable(&name, &"it has no certificate"));
    }
    Ok(certificates)
}

fn unusable(what: &str, reason: &dyn std::fmt::Display) -> StoreError {
    StoreError::new(
        StoreErrorKind::Invalid,
        format!("{what} cannot be used for TLS: {reason}"),
    )
    .with_hint("use PEM files for certificates and keys")
}

/// Verifier that accepts any certificate that the authorities signed, with any name.
#[derive(Debug)]
struct AnyName {
    chains: Arc<WebPkiServerVerifier>,
}

impl AnyName {
    fn new(roots: Arc<RootCertStore>, provider: Arc<CryptoProvider>) -> Result<Self, StoreError> {
        let chains = WebPkiServerVerifier::builder_with_provider(roots, provider)
            .build()
            .map_err(|error| unusable("the file of authorities", &error))?;
        Ok(Self { chains })
    }
}

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        // The verifier checks the name last, so an error about the name means that it has accepted
        // the chain.
        match self
            .chains
            .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
        {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chains
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chains
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
}
