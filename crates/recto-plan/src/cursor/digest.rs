//! Digests of pages, to detect whether a page has changed.

use xxhash_rust::xxh3::xxh3_128_with_secret;
use zeroize::Zeroizing;

/// Context string with which BLAKE3 derives the digest secret from a cursor key.
const CONTEXT: &str = "Recto 2026-11 secret of page digests";
/// Length of a secret of XXH3, in bytes.
const SECRET_BYTES: usize = 192;

/// Secret of the page digests. It is derived from a cursor key, and does not reveal the key.
#[derive(Clone)]
pub(super) struct DigestSecret(Zeroizing<[u8; SECRET_BYTES]>);

impl DigestSecret {
    pub(super) fn of_key(key: &[u8]) -> Self {
        let mut secret = Zeroizing::new([0; SECRET_BYTES]);
        let mut hasher = blake3::Hasher::new_derive_key(CONTEXT);
        hasher.update(key);
        hasher.finalize_xof().fill(&mut secret[..]);
        Self(secret)
    }

    /// Returns the 128-bit XXH3 digest of `bytes`, keyed with the secret. XXH3 is as fast as
    /// reading memory, while a cryptographic digest would take a tenth of the time of a page.
    pub(super) fn digest(&self, bytes: &[u8]) -> u128 {
        xxh3_128_with_secret(bytes, &self.0[..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_differ_by_key_and_by_every_byte() {
        let (one, other) = (DigestSecret::of_key(&[1; 32]), DigestSecret::of_key(&[2; 32]));
        let text = [7; 500];
        assert_eq!(one.digest(&text), DigestSecret::of_key(&[1; 32]).digest(&text));
        assert_ne!(one.digest(&text), other.digest(&text));
        for at in 0..text.len() {
            let mut changed = text;
            changed[at] ^= 1;
            assert_ne!(one.digest(&text), one.digest(&changed), "{at}");
        }
    }
}
