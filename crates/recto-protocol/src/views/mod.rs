//! How the views of a collection are kept, so that none ever shows what is not so: the protocol as step functions.
//!
//! Nothing here does I/O, is async, or reads a clock. The engine says what happened and does what it is told; the models
//! in the tests drive the same functions through all that may happen. Why it is so stands in `docs/design/views.md`.
//!
//! # Where a store has transactions
//! [`transaction`] says what a change makes of a record and of its entries, and all of it is applied or nothing.
//!
//! # On Cassandra
//! The base row is the truth. A [`Write`] reads it, beside which it stores an intent; then it changes it by one
//! conditional write, whose row says what [must go](Row::must_go); then it writes the entries, plainly, at the
//! row's [`Version`], and answers. Whoever leaves on the way leaves an intent; [`Write::resolve`] replaces the row's
//! token, so that nothing that is still on its way can be applied, and writes the entries once more.
//!
//! | module | holds |
//! |---|---|
//! | [`arranged`] | [`Arranged`]: where a collection's records stand in its views |
//! | [`collection`] | [`ViewedCollection`]: the same of a collection of the schema |
//! | [`misfit`] | records that a view should have and cannot hold |
//! | [`claims`] | who holds the values of unique constraints |
//! | [`claimed`] | what a change makes of a record's claims |
//! | [`taking`] | how a record takes them where the store has no transactions |
//! | [`row`] | what is stored of a record: base row, tokens, versions, entries |
//! | [`change`] | what a change makes of a record, what must come and what must go |
//! | [`mod@write`] | [`Write`]: a change under way, or the resolving of an intent |
//! | [`segments`] | where a process keeps its intents |
//! | [`member`] | who writes: registration, lease, and who is dead |
//! | [`building`] | how a view is added meanwhile |
//! | [`stored`], [`base`], [`writers`] | the bytes of all that, and the tables that they stand in |
//! | [`mod@judge`] | whether an entry is true, and how it is mended |

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
    After, Change, Entries, EntryOperation, Refusal, Request, Transaction, decide, entries_of, operations,
    transaction,
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
pub use write::{Action, Answer, Conditional, Decision, Event, Fate, Here, NotWritten, Write};
pub use writers::{Incarnation, Intent, Writer};
