//! Certificate authorities that a client trusts for `https://`.

use std::path::Path;
use std::sync::Arc;

use recto_api::address::HttpAddress;
use recto_api::{Error, ErrorKind, Result};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// Returns the TLS configuration of a client. It trusts the authorities in the file `tls_ca`, or
/// without that file the authorities that the machine trusts. `http://` connections do not use it.
///
/// # Errors
/// The file cannot be used, or the machine trusts no authority.
pub(crate) fn config(address: &HttpAddress) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    if let Some(file) = &address.tls_ca {
        for certificate in certificates(file)? {
            roots
                .add(certificate)
                .map_err(|error| unusable(&file.display().to_string(), &error))?;
        }
    } else if address.tls {
        let (added, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if added == 0 {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "this machine trusts no certificate authorities",
            )
            .with_hint(
                "name a PEM file of trusted authorities: ?tls_ca=FILE (Debian: apt-get install \
                 ca-certificates)",
            ));
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable("the TLS library's defaults", &error))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let name = file.display().to_string();
    let certificates: Vec<_> = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect)
        .map_err(|error| unusable(&name, &error))?;
    if certificates.is_empty() {
        return Err(unusable(&name, &"it has no certificate"));
    }
    Ok(certificates)
}

fn unusable(what: &str, reason: &dyn std::fmt::Display) -> Error {
    Error::new(
        ErrorKind::InvalidArgument,
        format!("{what} cannot be used for TLS: {reason}"),
    )
    .with_hint("use a PEM file with certificates")
}
