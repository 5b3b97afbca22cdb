//! The operations of Recto's HTTP API.
//!
//! Each request is a struct. The server reads it from a URL or from a JSON body, and the client
//! writes it in both forms. The fields of the struct are also arguments of the command line, and
//! their doc comments are the descriptions in the API. An option is thus declared once in this
//! crate, and the engine implements it.
//!
//! | module | content |
//! |---|---|
//! | [`operations`] | table of all operations |
//! | [`rights`] | rights of tokens |
//! | [`parameters`] | reading and writing the parameters of a request |
//! | [`pages`] | pages of a collection: list, query, explain |
//! | [`scans`] | all records of a collection: export |
//! | [`records`] | single records and batches |
//! | [`address`] | address of a server |
//! | [`buckets`] | buckets of a collection |
//! | [`collections`] | descriptions of collections |
//! | [`csv`] | options for CSV files |
//! | [`display`] | numbers, sizes and times as text for people |
//! | [`error`] | the error type |
//! | [`explanation`] | explanations of queries |
//! | [`loads`] | loading a file |
//! | [`description`] | requests and replies as JSON Schema |
//! | [`misfits`] | records that do not fit a view |
//! | [`queues`] | queues and their messages |
//! | [`store`] | maintenance of the store |
//! | [`problem`] | problems as JSON, and their types with statuses and exit codes |
//! | [`suggestion`] | a view or a collection that would serve a query |
//! | [`text`] | percent-encoding |
//! | [`views`] | views with their states |
//! | [`words`] | errors of JSON in the terms of the API |

pub mod address;
pub mod buckets;
pub mod collections;
pub mod csv;
pub mod description;
pub mod display;
pub mod error;
pub mod explanation;
pub mod loads;
pub mod misfits;
pub mod operations;
pub mod pages;
pub mod parameters;
pub mod problem;
pub mod queues;
pub mod records;
pub mod rights;
pub mod scans;
pub mod store;
pub mod suggestion;
pub mod text;
pub mod views;
pub mod words;

mod error_kind;
mod problem_body;

pub use error::{Error, ErrorPart, Result};
pub use error_kind::ErrorKind;
