//! A server over real sockets: what it lets in, what it says of itself, how it ends.

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
