//! TLS certificates for Cassandra nodes and clients. Each test creates its own.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};

use super::RigError;

/// Certificate authority that a test creates.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    file: PathBuf,
    dir: PathBuf,
}

/// Certificate and private key, as PEM files.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// File with the certificate alone.
    pub certificate: PathBuf,
    /// File with the private key alone.
    pub key: PathBuf,
    /// File with the certificate and the private key, in the form that Cassandra's
    /// `PEMBasedSslContextFactory` reads as a keystore.
    pub keystore: PathBuf,
}

impl Authority {
    /// Creates a certificate authority, with its files in `dir`.
    pub fn new(name: &str, dir: &Path) -> Result<Self, RigError> {
        fs::create_dir_all(dir).map_err(RigError::io("make", dir))?;
        let key = KeyPair::generate().map_err(unusable)?;
        let mut parameters = CertificateParams::default();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        parameters.distinguished_name.push(DnType::CommonName, name);
        let certificate = parameters.self_signed(&key).map_err(unusable)?;
        let file = dir.join(format!("{name}.pem"));
        write(&file, &certificate.pem())?;
        Ok(Self {
            issuer: Issuer::new(parameters, key),
            file,
            dir: dir.to_owned(),
        })
    }

    /// Returns the PEM file of the authority's own certificate. A process that trusts the authority
    /// loads it.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Issues a certificate for these host names or IP addresses. The names of its files begin with
    /// `file_name`, and existing files are replaced.
    pub fn issue(&self, file_name: &str, names: &[&str]) -> Result<Certificate, RigError> {
        let key = KeyPair::generate().map_err(unusable)?;
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut parameters = CertificateParams::new(names).map_err(unusable)?;
        parameters.distinguished_name.push(DnType::CommonName, file_name);
        let certificate = parameters.signed_by(&key, &self.issuer).map_err(unusable)?.pem();
        let key = key.serialize_pem();
        let path = |suffix: &str| self.dir.join(format!("{file_name}{suffix}.pem"));
        let issued = Certificate {
            certificate: path(""),
            key: path("-key"),
            keystore: path("-keystore"),
        };
        write(&issued.certificate, &certificate)?;
        write(&issued.key, &key)?;
        write(&issued.keystore, &format!("{key}{certificate}"))?;
        Ok(issued)
    }
}

/// Returns the value of `client_encryption_options` in `cassandra.yaml`, for a node with the
/// certificate `keystore`. If `clients` is given, each client must present a certificate of that
/// authority.
pub fn client_encryption(keystore: &Certificate, clients: Option<&Authority>) -> String {
    let truststore = clients.map_or_else(String::new, |authority| {
        format!(
            ", require_client_auth: true, truststore: \"{}\"",
            authority.file.display()
        )
    });
    format!(
        "{{enabled: true, optional: false, keystore: \"{}\"{truststore}, ssl_context_factory: \
         {{class_name: org.apache.cassandra.security.PEMBasedSslContextFactory}}}}",
        keystore.keystore.display()
    )
}

fn write(file: &Path, text: &str) -> Result<(), RigError> {
    fs::write(file, text).map_err(RigError::io("write", file))
}

fn unusable(error: rcgen::Error) -> RigError {
    RigError::Certificate {
        why: error.to_string(),
    }
}
