//! Ring of body tables: they are used in rotation, and each is emptied as a whole.
//!
//! In a store with transactions, bodies are deleted with their segments, and there is no ring. In other
//! stores, each process that keeps queues open runs the maintenance of the ring. The maintenance ends
//! rotation intervals and updates the heads of all shards. It copies remaining bodies to the open table, and
//! empties tables that nothing refers to. Several processes may run it at the same time. Each continues work
//! that another process did not finish.
//!
//! | module | content |
//! |---|---|
//! | `recycler` | state of the maintenance, and commands to the ring |
//! | `rotation` | steps of the maintenance, and their times |
//! | `references` | references to the tables |
//! | `fencing`, `rehoming`, `emptying` | closing a table, copying bodies from it, and emptying it |
//! | `sizes` | number of messages and bytes in a table |
//! | [`status`] | state of the ring, for users |

mod emptying;
mod fencing;
mod recycler;
mod references;
mod rehoming;
pub(crate) mod rotation;
mod sizes;
pub mod status;

pub(crate) use recycler::TableRecycler;
