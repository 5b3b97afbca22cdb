//! Apache Cassandra store of Recto, on the scylla driver. Only this crate names the driver.
//!
//! Path of a request: [`store`] implements [`Store`](recto_store::Store) and passes every call to a
//! client. For a read, [`pieces`] computes the statements that read a slice, and `cql` writes their
//! text and values. The client prepares each shape of statement once, sends it within its deadline
//! and retries only the requests that are safe to repeat. The cells of a response are copied once,
//! and keep the bytes of the protocol.
//!
//! | module | content |
//! |---|---|
//! | [`config`] | [`CassandraConfig`]: address of a cluster and options of its requests |
//! | `connect`, `tls`, `silence` | connections and keyspaces; encryption; addresses that do not answer TLS |
//! | `client` | prepared statements, deadlines, retries |
//! | `clock` | comparison of the local clock with those of coordinators |
//! | `coordinator` | choice of the node that receives a Paxos request |
//! | `metrics` | counters of requests, by node |
//! | [`pieces`] | slices as Cassandra can read them; pure functions |
//! | `cql`, `values`, `literal` | statements; their values as sent; literals as people write them |
//! | `rows` | rows of a response, read from its frame |
//! | `read`, `scan` | slices, rows, static cells; whole tables in token order |
//! | `partitions`, `position` | partitions of a table; positions where such scans stop |
//! | `write`, `cas` | plain writes; conditional writes |
//! | `pace` | number of bulk writes in flight |
//! | `columns` | check that a writer knows all columns of a table |
//! | `settings` | size limits of one request, from the cluster's settings |
//! | `capabilities`, `probe` | what the nodes can do, by their releases and settings |
//! | [`attached`] | tables that other programs created |
//! | `ddl`, `schema` | tables as CQL, and CQL as tables; list of existing tables |
//! | `tables` | creating, extending, listing, emptying and dropping tables |
//! | `error` | the driver's errors as errors of the store |
//! | `testing` (a feature) | plain statements and their traces, for tests |

pub mod attached;
mod capabilities;
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
mod probe;
mod read;
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
pub use capabilities::{ClusterStatus, Need};
pub use config::{CassandraConfig, ClientCertificate, Replication, TlsConfig};
pub use connect::{KeyspacePlan, create_keyspace, drop_keyspace, plan_keyspace};
pub use ddl::{Dialect, drop_table_cql};
pub use keyspace::KeyspaceReport;
pub use scan::MAX_TOKEN_RANGES;
pub use store::CassandraStore;
