//! The ring: tables of bodies that slices of time take in turn, and that are emptied whole.
//!
//! Where a store has transactions bodies go with their segments, and there is none of this. Elsewhere each process that holds
//! queues open for longer keeps the ring: it ends slices, tells the heads of all shards, has what stays behind copied on, and
//! empties what nothing refers to. Several do no harm; what one leaves another goes on with.
//!
//! | module | does |
//! |---|---|
//! | `known` | what is known of the ring, by which segments are opened |
//! | `ground` | how the ring lies in its table |
//! | `keeper` | what is to be done, and when |
//! | `survey` | what refers to the tables |
//! | `fencing`, `rehoming`, `emptying` | a table is closed, left and emptied |
//! | `sizes` | how many bytes what refers to them has |
//! | [`view`] | how it stands, for people |

mod emptying;
mod fencing;
mod ground;
pub(crate) mod keeper;
mod known;
mod rehoming;
mod sizes;
mod survey;
pub mod view;

pub(crate) use keeper::Keeper;
pub(crate) use known::KnownRing;
