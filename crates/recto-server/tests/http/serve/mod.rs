//! A server over real sockets: its limits, its reports about itself, and its shutdown.

mod cassandra;
mod frames;
mod http2;
mod limits;
mod operation;
mod queues;
mod safety;
mod shutdown;
mod slow_clients;
mod support;
mod tls;
mod tokens;
mod turns;
mod upkeep;
