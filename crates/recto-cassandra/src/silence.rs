//! Check for addresses that accept a connection but never answer a TLS handshake: a frozen process,
//! or another kind of server.
//!
//! The driver limits the time of a connection and of its requests, but not of the TLS handshake
//! between the two. A single address that does not answer would delay opening a store up to the
//! maximum time to connect, even if other nodes answer. If TLS is used, this module therefore
//! checks each address first, within a time limit. If a connection was closed without a reason, the
//! module contacts the addresses once more to read the lost TLS alert.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use scylla::errors::TranslationError;
use scylla::policies::address_translator::{AddressTranslator, UntranslatedPeer};
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpStream, ToSocketAddrs};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Checker of addresses: finds those that do not answer a TLS handshake.
pub(crate) struct Listener {
    connector: TlsConnector,
    timeout: Duration,
}

impl Listener {
    /// Returns a checker that waits at most `timeout` for the TLS handshake of an address.
    pub(crate) fn new(context: Arc<ClientConfig>, timeout: Duration) -> Self {
        Self {
            connector: TlsConnector::from(context),
            timeout,
        }
    }

    /// Returns whether an address does not answer in time. A rejected connection or handshake is an
    /// answer: the driver gets the same answer and interprets it.
    pub(crate) async fn hears_nothing(&self, address: impl ToSocketAddrs) -> bool {
        let handshake = self.handshake(address);
        tokio::time::timeout(self.timeout, handshake).await.is_err()
    }

    /// Returns the error with which an address ends an idle connection after the handshake. Returns
    /// `None` if the connection does not end in time.
    pub(crate) async fn last_word(&self, address: impl ToSocketAddrs) -> Option<io::Error> {
        let ended = async {
            let mut stream = self.handshake(address).await?;
            stream.read_u8().await
        };
        tokio::time::timeout(self.timeout, ended).await.ok()?.err()
    }

    async fn handshake(&self, address: impl ToSocketAddrs) -> io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(address).await?;
        // Use the address as the name of the server. The name does not matter here, because the
        // driver's own handshake checks it.
        let name = ServerName::from(stream.peer_addr()?.ip());
        self.connector.connect(name, stream).await
    }
}

/// Checks each node before the driver connects to it. Returns the address unchanged.
#[async_trait]
impl AddressTranslator for Listener {
    async fn translate_address(&self, peer: &UntranslatedPeer) -> Result<SocketAddr, TranslationError> {
        let address = peer.untranslated_address();
        if self.hears_nothing(address).await {
            let silent = io::Error::new(
                io::ErrorKind::TimedOut,
                format!("{address} does not answer a TLS handshake"),
            );
            return Err(TranslationError::IoError(Arc::new(silent)));
        }
        Ok(address)
    }
}
