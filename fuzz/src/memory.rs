//! The limit on memory in proportion to an input.

/// What may be taken whatever the input: fixed buffers, messages of errors.
const FREE_BYTES: usize = 64 << 10;

/// What `work` gives, which may take `factor` times the bytes of its input at most, at any one time.
///
/// # Panics
/// If it takes more.
pub(crate) fn limited<T>(input_bytes: usize, factor: usize, work: impl FnOnce() -> T) -> T {
    limited_beside(FREE_BYTES, input_bytes, factor, work)
}

/// As [`limited`], where so much may be taken whatever the input.
pub(crate) fn limited_beside<T>(
    free_bytes: usize,
    input_bytes: usize,
    factor: usize,
    work: impl FnOnce() -> T,
) -> T {
    let mut result = None;
    let taken = allocation_counter::measure(|| result = Some(work()));
    let limit = (free_bytes + factor * input_bytes) as u64;
    assert!(
        taken.bytes_max <= limit,
        "{} bytes of memory for an input of {input_bytes} bytes; at most {limit} are in proportion",
        taken.bytes_max,
    );
    result.expect("the work was done")
}
