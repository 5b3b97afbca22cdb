//! Digests of pages, to tell whether one has changed.

use xxhash_rust::xxh3::xxh3_128_with_secret;
use zeroize::Zeroizing;

/// What a key's digest secret is derived for (BLAKE3's key derivation).
const CONTEXT: &str = "Recto 2026-11 secret of page digests";
/// As many bytes as XXH3's own secret.
const SECRET_BYTES: usize = 192;

/// What digests are made with: derived from a cursor key, and telling nothing of it.
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

    /// XXH3, 128 bits: its speed is that of memory, where a cryptographic digest would take a tenth of a
    /// page's time.
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
