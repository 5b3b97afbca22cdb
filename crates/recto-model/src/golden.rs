//! Decoder of hexadecimal digits in golden files (stored bytes of earlier releases), for the tests
//! of every crate.

/// Returns the bytes that hexadecimal digits encode.
///
/// # Panics
/// If `digits` does not consist of pairs of hexadecimal digits.
pub fn bytes_of_hex(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks_exact(2);
    assert!(pairs.remainder().is_empty(), "{digits}");
    let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Option<Vec<u8>> = pairs.map(byte).collect();
    bytes.expect("hexadecimal digits")
}
