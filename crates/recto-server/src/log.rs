//! Lines of the log. A build without the feature `full` writes none.

#[cfg(feature = "full")]
pub(crate) use tracing::{debug, error, info, warn};

/// Replacement of all log macros. It ignores its arguments and writes nothing.
#[cfg(not(feature = "full"))]
macro_rules! nothing {
    ($($_line:tt)*) => {{}};
}

#[cfg(not(feature = "full"))]
pub(crate) use {nothing as debug, nothing as error, nothing as info, nothing as warn};
