//! Query counter in a build that cannot design views. It counts nothing.

/// Placeholder for the query counter in a build without the feature `full`. It counts nothing.
#[derive(Debug, Default)]
pub(crate) struct AskedQueries {}
