//! Macros that write log lines. In a build without the feature `full`, they write nothing.

#[cfg(feature = "full")]
pub(crate) use tracing::{debug, error, info, warn};

/// Replaces all log macros in a build without the feature `full`. Ignores its arguments.
#[cfg(not(feature = "full"))]
macro_rules! nothing {
    ($($_line:tt)*) => {{}};
}

#[cfg(not(feature = "full"))]
pub(crate) use {nothing as debug, nothing as error, nothing as info, nothing as warn};
