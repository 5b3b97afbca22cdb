//! The shapes of queries, in a build that designs no views: nothing counts them.

/// Counts no queries.
#[derive(Debug, Default)]
pub(crate) struct AskedQueries {}
