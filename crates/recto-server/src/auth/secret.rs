//! Text of a token, and the hash that is stored for it.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use recto::Environment;

/// Prefix of every token, so that programs that look for leaked secrets find it.
const PREFIX: &str = "recto_";
/// Length of the public part of a token, in bytes.
const ID_BYTES: usize = 8;
/// Length of the secret part of a token, in bytes. The hash has the same length, so guessing a secret is as hard as
/// guessing a hash.
const SECRET_BYTES: usize = 32;
/// Context of the hash. The same secret has a different hash in any other context.
const PURPOSE: &str = "recto 2026 http token secret";

/// Text of a token as its holder has it: `recto_` id `_` secret. Neither `Debug` nor any message shows the secret.
/// Only [`reveal`](Self::reveal) returns it, once, for the creator of the token.
pub struct TokenText {
    id: String,
    secret: [u8; SECRET_BYTES],
}

impl TokenText {
    /// Creates a token with a random id and secret.
    pub(crate) fn new(environment: &Environment) -> Self {
        let id = environment.random::<ID_BYTES>();
        Self {
            id: id.iter().map(|byte| format!("{byte:02x}")).collect(),
            secret: environment.random(),
        }
    }

    /// Reads a token. Returns `None` if the text is not a token.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (id, secret) = text.strip_prefix(PREFIX)?.split_at_checked(2 * ID_BYTES)?;
        let mut bytes = [0; SECRET_BYTES];
        let length = URL_SAFE_NO_PAD
            .decode_slice(secret.strip_prefix('_')?, &mut bytes)
            .ok()?;
        (length == SECRET_BYTES && is_id(id)).then(|| Self {
            id: id.to_owned(),
            secret: bytes,
        })
    }

    /// Returns the public part, which identifies the token.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the whole text, with the secret.
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}_{}", self.id, URL_SAFE_NO_PAD.encode(self.secret))
    }

    /// Returns the hash to store. The secret has as many random bytes as the hash, so it cannot be guessed, and one
    /// pass of a fast hash is enough. The comparison of two hashes takes constant time.
    pub(crate) fn hash(&self) -> blake3::Hash {
        blake3::derive_key(PURPOSE, &self.secret).into()
    }
}

impl fmt::Debug for TokenText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenText")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// Returns whether a text is the public part of a token.
pub(crate) fn is_id(text: &str) -> bool {
    text.len() == 2 * ID_BYTES && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_it_was_written_and_no_other_text_is() {
        let token = TokenText::new(&Environment::seeded(1, 0));
        let text = token.reveal();
        let read = TokenText::parse(&text).unwrap();
        assert_eq!((read.id(), read.hash()), (token.id(), token.hash()));
        assert!(!format!("{token:?}").contains(&text[23..]));
        for end in 0..text.len() {
            assert!(TokenText::parse(&text[..end]).is_none(), "{end}");
        }
        for spoilt in [
            "recto_é",
            "recto_ABCDEFABCDEFABCD_",
            "",
            "Bearer x",
            &format!("{text}A"),
            &format!("{text}="),
        ] {
            assert!(TokenText::parse(spoilt).is_none(), "{spoilt}");
        }
    }

    #[test]
    fn another_secret_has_another_hash() {
        let environment = Environment::seeded(2, 0);
        assert_ne!(
            TokenText::new(&environment).hash(),
            TokenText::new(&environment).hash()
        );
    }
}
