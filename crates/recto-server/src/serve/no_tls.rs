//! TLS in a build without it.

use std::convert::Infallible;
use std::future::Ready;
use std::io;
use std::path::Path;

use tokio::net::TcpStream;

use super::ServeError;

/// The certificate that connections are made with: there is none.
#[derive(Debug)]
pub(crate) struct Tls(Infallible);

impl Tls {
    /// Refuses: whoever names a certificate is not to be served without.
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
