//! How values compare: the one definition, Cassandra's.

use std::cmp::Ordering;

use crate::Type;

/// Compares two valid cells of an orderable type, ascending, as Cassandra compares them.
///
/// # Panics
/// If `ty` is not [orderable](Type::is_orderable).
pub fn compare(ty: &Type, left: &[u8], right: &[u8]) -> Ordering {
    let _ = (ty, left, right);
    todo!()
}
