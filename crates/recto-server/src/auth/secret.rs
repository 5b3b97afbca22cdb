//! The text of a token, and what is kept of it.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use recto::Environment;

/// What every token begins with, so that programs that look for leaked secrets find it.
const PREFIX: &str = "recto_";
/// Bytes of a token's public part.
const ID_BYTES: usize = 8;
/// Bytes of a token's secret part: as many as its hash has, so that guessing one is as hard.
const SECRET_BYTES: usize = 32;
/// The purpose in the hash, so that the secret's hash for another purpose is another.
const PURPOSE: &str = "recto 2026 http token secret";

/// A token as its bearer has it: `recto_` id `_` secret. Neither `Debug` nor any message shows it;
/// [`reveal`](Self::reveal) does, once, to whoever makes it.
pub struct TokenText {
    id: String,
    secret: [u8; SECRET_BYTES],
}

impl TokenText {
    /// A new one.
    pub(crate) fn new(environment: &Environment) -> Self {
        let id = environment.random::<ID_BYTES>();
        Self {
            id: id.iter().map(|byte| format!("{byte:02x}")).collect(),
            secret: environment.random(),
        }
    }

    /// Reads one; `None` if the text is none.
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

    /// The part that names it, which is no secret.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The whole text.
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}_{}", self.id, URL_SAFE_NO_PAD.encode(self.secret))
    }

    /// What is kept of it. The secret is as random as the hash is long, so one pass is enough: there
    /// is nothing to guess that a slow hash would slow down. Comparing two takes constant time.
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

/// Whether a text is the public part of a token.
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
