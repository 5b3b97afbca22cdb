//! Check that the memory of an operation is at most proportional to its input.

/// Memory in bytes that each input may use in addition, for fixed buffers and error messages.
const FREE_BYTES: usize = 64 << 10;

/// Runs `work` and returns its result. At any time, `work` may use `factor` times the size of its input, and
/// a fixed amount of memory in addition.
///
/// # Panics
/// `work` used more memory.
/// `work` used more memory.
pub(crate) fn limited<T>(input_bytes: usize, factor: usize, work: impl FnOnce() -> T) -> T {
    limited_beside(FREE_BYTES, input_bytes, factor, work)
}

/// Like [`limited`], but the caller sets the fixed amount of memory.
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
