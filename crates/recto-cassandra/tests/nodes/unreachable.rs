//! Tests of hosts that drop all packets, like machines without power or with a broken network. Such
//! hosts neither reject connections nor respond.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use recto_cassandra::{CassandraConfig, CassandraStore};
use recto_model::Environment;
use recto_store::StoreErrorKind;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::common::{self, Keyspace};

static KEYSPACE: Keyspace = Keyspace::new();

/// Time that a call may take in these tests in addition to its timeout.
const GRACE: Duration = Duration::from_secs(3);
/// Number of connections that fills the kernel's queue of a listener that accepts none.
const FILLING: usize = 4;

/// Port that neither accepts nor rejects further connections, because its queue is full.
struct Silence {
    _listener: TcpListener,
    _waiting: Vec<TcpStream>,
    address: SocketAddr,
}

impl Silence {
    async fn new() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(0).unwrap();
        let address = listener.local_addr().unwrap();
        let mut waiting = Vec::new();
        for _ in 0..FILLING {
            let connecting = TcpStream::connect(address);
            if let Ok(connected) = tokio::time::timeout(Duration::from_millis(200), connecting).await {
                waiting.push(connected.unwrap());
            }
        }
        assert!(waiting.len() < FILLING, "the port takes all");
        Self {
            _listener: listener,
            _waiting: waiting,
            address,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_silent_host_does_not_keep_from_the_others() {
    let silence = Silence::new().await;
    let keyspace = KEYSPACE.name().await;
    let hosts = [
        silence.address.to_string(),
        common::config(keyspace).hosts[0].clone(),
    ];
    // Connect several times, because the driver contacts hosts in its own order.
    let connecting = (0..4).map(|_| {
        let mut config = CassandraConfig::new(hosts.clone(), keyspace);
        config.connect_timeout = Duration::from_secs(8);
        CassandraStore::connect(config, Environment::system())
    });
    for connected in futures::future::join_all(connecting).await {
        connected.unwrap();
    }
    KEYSPACE.drop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silence_is_unavailable_in_time() {
    let silence = Silence::new().await;
    let mut config = CassandraConfig::new([silence.address.to_string()], "absent");
    config.connect_timeout = Duration::from_secs(2);
    let begun = Instant::now();
    let connected = CassandraStore::connect(config, Environment::system()).await;
    let error = connected.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error:?}");
    assert!(error.hint().is_some(), "{error:?}");
    assert!(
        begun.elapsed() < Duration::from_secs(2) + GRACE,
        "{:?}",
        begun.elapsed()
    );
}
