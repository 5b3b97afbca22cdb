//! Whole output against a session that answers from fixed rows.

pub(crate) mod fake;
