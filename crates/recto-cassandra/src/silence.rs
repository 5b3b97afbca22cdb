//! Addresses that take a connection and never speak TLS: a frozen process, or whatever else listens there.
//!
//! The driver limits how long a connection may take and how long its requests, but not the handshake of TLS
//! between the two. One silent node would hold up opening a store for as long as that may take, whichever
//! others answer. So where TLS is spoken, addresses are asked here first, within limits; and once more if a
//! connection was cut without a reason, for the alert that was lost.

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

/// Asks addresses whether they speak TLS.
pub(crate) struct Listener {
    connector: TlsConnector,
    timeout: Duration,
}

impl Listener {
    /// Which waits so long for an address.
    pub(crate) fn new(context: Arc<ClientConfig>, timeout: Duration) -> Self {
        Self {
            connector: TlsConnector::from(context),
            timeout,
        }
    }

    /// Whether nothing comes from an address in time. A connection or a handshake that is refused is an answer:
    /// what it means is found by the driver, which gets the same.
    pub(crate) async fn hears_nothing(&self, address: impl ToSocketAddrs) -> bool {
        let handshake = self.handshake(address);
        tokio::time::timeout(self.timeout, handshake).await.is_err()
    }

    /// With what an address ends a connection on which nothing is sent after the handshake, if it does so
    /// in time.
    pub(crate) async fn last_word(&self, address: impl ToSocketAddrs) -> Option<io::Error> {
        let ended = async {
            let mut stream = self.handshake(address).await?;
            stream.read_u8().await
        };
        tokio::time::timeout(self.timeout, ended).await.ok()?.err()
    }

    async fn handshake(&self, address: impl ToSocketAddrs) -> io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(address).await?;
        // Whether a name is right is decided by the driver's own handshake.
        let name = ServerName::from(stream.peer_addr()?.ip());
        self.connector.connect(name, stream).await
    }
}

/// Nodes that the driver learns of are asked before each attempt at connecting to them. No address is changed.
#[async_trait]
impl AddressTranslator for Listener {
    async fn translate_address(&self, peer: &UntranslatedPeer) -> Result<SocketAddr, TranslationError> {
        let address = peer.untranslated_address();
        if self.hears_nothing(address).await {
            let silent = io::Error::new(
                io::ErrorKind::TimedOut,
                format!("{address} does not answer to TLS"),
            );
            return Err(TranslationError::IoError(Arc::new(silent)));
        }
        Ok(address)
    }
}
