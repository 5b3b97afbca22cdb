//! Placeholder for TLS in a build without TLS.

use std::convert::Infallible;
use std::future::Ready;
use std::io;
use std::path::Path;

use tokio::net::TcpStream;

use super::ServeError;

/// Placeholder for the server's certificate, of which no value exists in the build.
#[derive(Debug)]
pub(crate) struct Tls(Infallible);

impl Tls {
    /// Returns an error: a server with a configured certificate must not serve without TLS.
    pub(crate) fn open(certificate: &Path, _key: &Path) -> Result<Self, ServeError> {
        Err(ServeError::Certificate {
            path: certificate.to_owned(),
            reason: "this build of Recto has no TLS; build it with the feature tls".into(),
        })
    }

    pub(crate) fn accept(&self, _stream: TcpStream) -> Ready<io::Result<TcpStream>> {
        match self.0 {}
    }

    pub(crate) fn reload(&self) -> Result<bool, ServeError> {
        match self.0 {}
    }
}
