//! Loopback addresses, one block per cluster, so that clusters run side by side.

use std::env;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;

use rustix::process::getuid;

use super::{CQL_PORT, RigError};

/// The port of Cassandra nodes among themselves.
const STORAGE_PORT: u16 = 7000;
/// The last block that is tried.
const LAST_BLOCK: u8 = 99;

/// The addresses 127.0.B.1, .2, .3 with their JMX ports, claimed by a lock for as long as this lives.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) number: u8,
    _lock: File,
}

impl Block {
    /// The first block from `first` on which nobody has claimed and on whose ports nobody listens.
    pub(super) fn claim(first: u8, nodes: usize) -> Result<Self, RigError> {
        let dir = lock_dir()?;
        for number in first..=LAST_BLOCK {
            let path = dir.join(format!("block-{number}.lock"));
            let lock = File::create(&path).map_err(RigError::io("make", &path))?;
            if lock.try_lock().is_ok() && (1..=nodes).all(|node| is_free(number, node)) {
                return Ok(Self { number, _lock: lock });
            }
        }
        Err(RigError::NoFreeAddress {
            first: cql_address(first, 1),
            last_block: LAST_BLOCK,
        })
    }
}

/// Returns the folder of the locks that all rigs of this user share.
pub(super) fn lock_dir() -> Result<PathBuf, RigError> {
    let dir = env::temp_dir().join(format!("recto-rig-{}", getuid().as_raw()));
    fs::create_dir_all(&dir).map_err(RigError::io("make", &dir))?;
    Ok(dir)
}

/// Where a node listens, for clients and for the others.
pub(super) fn ip(block: u8, node: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, block, node as u8)
}

/// Where a node speaks CQL.
pub(super) fn cql_address(block: u8, node: usize) -> SocketAddr {
    SocketAddr::from((ip(block, node), CQL_PORT))
}

/// The port of a node's JMX, which is on 127.0.0.1 for every node of every block. Below the ephemeral ports.
pub(super) fn jmx_port(block: u8, node: usize) -> u16 {
    let base = if block == 0 {
        7198
    } else {
        17_000 + 10 * u16::from(block)
    };
    base + node as u16
}

fn is_free(block: u8, node: usize) -> bool {
    let ip = ip(block, node);
    [
        (ip, CQL_PORT),
        (ip, STORAGE_PORT),
        (Ipv4Addr::LOCALHOST, jmx_port(block, node)),
    ]
    .into_iter()
    .all(|address| TcpListener::bind(address).is_ok())
}
