//! Text of an access token, and the hash that the server stores for it.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use recto::Environment;

/// Prefix of every access token, by which scanners for leaked secrets recognize it.
const PREFIX: &str = "recto_";
/// Length of the id of an access token (its public part), in bytes.
const ID_BYTES: usize = 8;
/// Length of the secret of an access token, in bytes. It is that of the hash, so guessing a secret
/// is as hard as guessing a hash.
const SECRET_BYTES: usize = 32;
/// Context string of the hash, which separates it from hashes of the same secret for other
/// purposes.
const PURPOSE: &str = "recto 2026 http token secret";

/// Text of an access token as its holder has it: `recto_` id `_` secret. `Debug` and messages never
/// show the secret. Only [`reveal`](Self::reveal) returns it, for the creator of the token.
pub struct TokenText {
    id: String,
    secret: [u8; SECRET_BYTES],
}

impl TokenText {
    /// Creates an access token with a random id and a random secret.
    pub(crate) fn new(environment: &Environment) -> Self {
        let id = environment.random::<ID_BYTES>();
        Self {
            id: id.iter().map(|byte| format!("{byte:02x}")).collect(),
            secret: environment.random(),
        }
    }

    /// Parses the text of an access token; `None` if it has another form.
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

    /// Returns the public id of the token, which contains no secret.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the whole text of the token, with its secret.
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}_{}", self.id, URL_SAFE_NO_PAD.encode(self.secret))
    }

    /// Returns the hash of the secret. A fast hash is enough: the secret has 32 random bytes, so it
    /// cannot be guessed. Hashes are compared in constant time.
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

/// Returns whether a text has the form of a token's id: 16 lower-case hexadecimal digits.
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
