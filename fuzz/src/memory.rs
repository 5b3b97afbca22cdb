//! Memory limit in proportion to an input.

/// Memory that every input may use: fixed buffers and error messages.
const FREE_BYTES: usize = 64 << 10;

/// Returns the result of `work`, which may use at most `factor` times the size of its input at any one time, in
/// addition to a fixed amount.
///
/// # Panics
/// `work` used more memory.
pub(crate) fn limited<T>(input_bytes: usize, factor: usize, work: impl FnOnce() -> T) -> T {
    limited_beside(FREE_BYTES, input_bytes, factor, work)
}

/// Works as [`limited`], with this fixed amount of memory.
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
