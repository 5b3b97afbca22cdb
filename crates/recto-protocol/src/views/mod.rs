//! Protocol that keeps the views of a collection equal to its records, as step functions.
//!
//! No function here does I/O, is async, or reads a clock. The engine reports each event, and executes the returned
//! actions. The models in the tests drive the same functions through all possible events. `docs/design/views.md` gives
//! the reasons.
//!
//! # Stores with transactions
//! [`transaction`] computes the changes of a record and of its view entries. The store applies all
//! of them or none.
//!
//! # Cassandra
//! The *base row* of a record is its row in the base table of the collection. Its *entries* are its rows in the tables
//! of views. An *intent* is a stored note that a process is about to change a record.
//!
//! The base row decides which entries are true. A [`Write`] takes these steps:
//!
//! 1. It reads the base row, and concurrently stores an intent.
//! 2. It changes the row by one conditional write. The new row lists the keys that [must be removed](Row::must_go) from
//!    views.
//! 3. It writes the entries by plain writes, whose write timestamp is the row's [`Version`].
//! 4. It answers.
//!
//! A process that stops before step 4 leaves an intent. [`Write::resolve`] then replaces the row's
//! token, so that no earlier request can still be applied, and writes the entries again.
//!
//! | module | content |
//! |---|---|
//! | [`arranged`] | [`Arranged`]: interface of a collection, which returns the entries of each record |
//! | [`collection`] | [`ViewedCollection`]: the implementation for a collection of the schema |
//! | [`misfit`] | records whose key a view cannot store |
//! | [`claims`] | tables of unique constraints, which record the owner of each value |
//! | [`claimed`] | claims (reserved unique values) that a change keeps, takes and releases |
//! | [`taking`] | steps by which a record takes claims on a store without transactions |
//! | [`row`] | stored state of a record: base row, tokens, versions, entries |
//! | [`change`] | effect of a change on a record, and the entries to put and to remove |
//! | [`mod@write`] | [`Write`]: a change under way, or the resolution of an intent |
//! | [`segments`] | groups of intents of one process, which are deleted together |
//! | [`member`] | processes that write: registration, lease, and detection of dead processes |
//! | [`building`] | steps by which a view is added while records are written |
//! | [`stored`], [`base`], [`writers`] | encoding of stored values, and the tables that contain them |
//! | [`mod@judge`] | check of an entry, and the write that repairs it |

pub mod arranged;
pub mod base;
pub mod building;
pub mod change;
pub mod claimed;
pub mod claims;
pub mod collection;
pub mod judge;
pub mod member;
pub mod misfit;
pub mod row;
pub mod segments;
pub mod stored;
pub mod taking;
pub mod write;
pub mod writers;

mod rules;
#[cfg(test)]
mod tests;

pub use arranged::Arranged;
pub use base::BaseTable;
pub use building::{BuildStep, Built, Progress, ViewState, barrier, next_step};
pub use change::{
    Change, ChangedRecord, Entries, EntryOperation, Refusal, Request, Transaction, decide, entries_of,
    operations, transaction,
};
pub use claimed::untaken;
pub use claims::{ClaimsTable, Refused};
pub use collection::{FieldCells, KeyCells, ViewTable, ViewedCollection};
pub use judge::{BaseRead, Difference, Mend, Seen, Verdict, difference, fill, fill_until, judge, remove};
pub use member::{Joining, Member, Registration, Watch};
pub use misfit::{EntryOutcome, Misfit, MisfitCause};
pub use row::{
    Entry, EntryKey, Found, Generation, Micros, Row, RowClaims, Token, Tokens, Version, ViewNumber,
};
pub use segments::{DeadSegment, IntentPlace, Naming, Segments, dead_segment};
pub use stored::{Head, Life, StoredError};
pub use taking::{Claim, ClaimDecision, Taking, TakingStep};
pub use write::{Action, Answer, Conditional, Decision, Event, Fate, NotWritten, StepContext, Write};
pub use writers::{Incarnation, Intent, Writer};
