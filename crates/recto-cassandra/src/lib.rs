//! The Apache Cassandra store of Recto, on the scylla driver. The only crate that names the driver.
//!
//! Where a request goes: [`store`] is the [`Store`](recto_store::Store) and hands everything to a
//! client; reads become statements by [`pieces`] (which statements make a slice) and `cql` (their
//! text and values); the client prepares each shape once, sends it within its deadline and retries
//! on purpose only; answers come back as the protocol's own cells, copied once.
//!
//! | module | holds |
//! |---|---|
//! | [`config`] | [`CassandraConfig`]: how to reach a cluster, what to ask of it |
//! | `connect`, `tls`, `silence` | connecting, keyspaces; encryption; addresses that never answer to it |
//! | `client` | prepared statements, deadlines, retries |
//! | `clock` | comparing the local clock with those of coordinators |
//! | `coordinator` | which node a request of Paxos goes to |
//! | `metrics` | what is counted of requests, by node |
//! | [`pieces`] | slices as Cassandra can read them; pure |
//! | `cql`, `values`, `literal` | statements; their values as sent; and as people write them |
//! | `rows` | the rows of an answer, as they lie in its frame |
//! | `read`, `scan` | slices, rows, static cells; whole tables in token order |
//! | `partitions`, `position` | the partitions of a table; where such scans stop |
//! | `write`, `cas` | plain writes; conditional writes |
//! | `pace` | how many writes of a bulk are in flight |
//! | `columns` | whether a writer knows all columns of a table |
//! | `settings` | what one request may hold, as the cluster says |
//! | `release` | releases of the nodes, and features that Recto needs |
//! | [`attached`] | tables that other programs made |
//! | `ddl`, `schema` | tables as CQL and back; what tables there are |
//! | `tables` | making, extending, listing, emptying, dropping them |
//! | `error` | the driver's errors in the store's words |
//! | `testing` (a feature) | plain statements and their traces, for tests |

pub mod attached;
mod cas;
mod client;
mod clock;
mod columns;
pub mod config;
mod connect;
mod coordinator;
mod cql;
mod ddl;
mod error;
mod escape;
mod handshake;
mod keyspace;
mod literal;
mod metrics;
mod pace;
mod partitions;
pub mod pieces;
mod points;
mod position;
mod read;
mod release;
mod rows;
mod scan;
mod schema;
mod settings;
mod silence;
pub mod store;
mod tables;
mod taken;
#[cfg(feature = "testing")]
pub mod testing;
mod tls;
mod values;
mod write;

pub use attached::{ColumnThere, TableThere, ViewThere};
pub use config::{CassandraConfig, ClientCertificate, Replication, TlsConfig};
pub use connect::{create_keyspace, drop_keyspace, plan_keyspace};
pub use ddl::{add_columns_cql, create_table_cql, drop_table_cql};
pub use keyspace::KeyspaceReport;
pub use scan::MAX_TOKEN_RANGES;
pub use store::CassandraStore;
