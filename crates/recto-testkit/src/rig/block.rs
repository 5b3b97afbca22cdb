//! Blocks of loopback addresses. Each cluster has its own block, so that several clusters can run
//! at the same time.

use std::env;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;

use rustix::process::getuid;

use super::{CQL_PORT, RigError};

/// TCP port for the communication between Cassandra nodes.
const STORAGE_PORT: u16 = 7000;
/// Index of the last block that [`Block::claim`] tries.
const LAST_BLOCK: u8 = 99;

/// Reserved block of loopback addresses for one cluster: 127.0.B.1 to .3, with their JMX ports,
/// where B is `number`. A file lock reserves the block as long as this value exists.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) number: u8,
    _lock: File,
}

impl Block {
    /// Reserves the first block from `first` on that no process has reserved, and whose ports are
    /// free.
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

/// Returns the folder for lock files, which all test processes of this user share.
pub(super) fn lock_dir() -> Result<PathBuf, RigError> {
    let dir = env::temp_dir().join(format!("recto-rig-{}", getuid().as_raw()));
    fs::create_dir_all(&dir).map_err(RigError::io("make", &dir))?;
    Ok(dir)
}

/// Returns the IP address of a node, for clients and for other nodes. `node` counts from 1.
pub(super) fn ip(block: u8, node: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, block, node as u8)
}

/// Returns the address at which a node serves CQL clients. `node` counts from 1.
pub(super) fn cql_address(block: u8, node: usize) -> SocketAddr {
    SocketAddr::from((ip(block, node), CQL_PORT))
}

/// Returns the port for JMX (management by nodetool) of a node. All nodes use 127.0.0.1 for JMX, so
/// each node needs a different port. The ports are below the ephemeral ports.
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
