//! Counter of queries in a build that designs no views. It counts nothing.

/// Counts no queries.
#[derive(Debug, Default)]
pub(crate) struct AskedQueries {}
