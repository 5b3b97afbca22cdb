//! Place tokens: encrypted checkpoints of long-running work over a store, such as `verify`. Only the store
//! that encrypted a token can continue the work.
//!
//! The engine defines the content of a token, which is only bytes for this module. The content
//! includes findings of the work so far, with keys of records. Tokens are therefore encrypted like
//! cursors, with the same keys. The section Place token of `docs/format.md` describes the bytes.

use recto_model::Environment;

use crate::cursor::KeyRing;
use crate::cursor::envelope::{Kind, Unopened};

/// Maximum length of a place token (checkpoint of long-running work), in characters.
pub const MAX_PLACE_TOKEN_CHARACTERS: usize = 256 * 1024;

/// First byte of every place token (checkpoint). Cursors begin with their format version instead.
const MARK: u8 = b'P';
/// Version of the outer layout of a place token (checkpoint): the header, the encryption algorithm
/// and the authenticated bytes.
const FORMAT_VERSION: u8 = 1;

/// Format of place tokens (checkpoints): their first bytes, and the limits of their length.
pub(crate) const PLACE_TOKEN: Kind = Kind {
    prefix: &[MARK, FORMAT_VERSION],
    max_characters: MAX_PLACE_TOKEN_CHARACTERS,
    min_content_bytes: 1,
};

/// Reason why a place token (called checkpoint in messages) was not opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceTokenError {
    /// The text is empty.
    #[error("the checkpoint token is empty")]
    Empty,
    /// The text is longer than any place token.
    #[error("the checkpoint token has {characters} characters; it has at most {MAX_PLACE_TOKEN_CHARACTERS}")]
    TooLong {
        /// Length of the text, in characters.
        characters: usize,
    },
    /// The text is not base64url without padding, or not in its canonical form.
    #[error("the checkpoint token is not base64url text: character {position} is not allowed")]
    NotBase64 {
        /// Position of the first wrong character, counted in bytes from 1.
        position: usize,
    },
    /// The text is too short for a place token, or it has a length that base64url text cannot have.
    #[error("the checkpoint token is incomplete, or has an extra character")]
    Truncated,
    /// The text does not begin like a place token.
    #[error("this is not a checkpoint token")]
    NotOfPlace,
    /// The token has a format that this release does not know.
    #[error("the checkpoint token has format {version}, which this release does not support")]
    UnknownFormat {
        /// Version of the token's format.
        version: u8,
    },
    /// The token was altered, or it was encrypted with a key that is not in the key ring. The two
    /// cases cannot be distinguished.
    #[error("the checkpoint token was altered, or was created with an unknown key")]
    NotOurs,
}

impl From<Unopened> for PlaceTokenError {
    fn from(reason: Unopened) -> Self {
        match reason {
            Unopened::Empty => Self::Empty,
            Unopened::TooLong { characters } => Self::TooLong { characters },
            Unopened::NotBase64 { position } => Self::NotBase64 { position },
            Unopened::Truncated => Self::Truncated,
            Unopened::NotOurs
            | Unopened::OtherCollection
            | Unopened::OtherSortOrder
            | Unopened::OtherQuery
            | Unopened::Expired { .. } => Self::NotOurs,
        }
    }
}

/// Encrypts `place`, the state of long-running work, as a token with the active key of `ring`.
/// Returns `None` if the token would be longer than [`MAX_PLACE_TOKEN_CHARACTERS`].
pub fn seal(ring: &KeyRing, environment: &Environment, place: &[u8]) -> Option<String> {
    PLACE_TOKEN.seal(ring, environment, place.len(), |out| out.copy_from_slice(place))
}

/// Decrypts a token, and returns the state of the work that the token contains.
///
/// # Errors
/// [`PlaceTokenError`] if the text is not an unaltered place token of a key in `ring`.
pub fn open(ring: &KeyRing, environment: &Environment, text: &str) -> Result<Vec<u8>, PlaceTokenError> {
    PLACE_TOKEN.open(ring, environment, text, check_prefix, |_, place| {
        Ok(place.to_vec())
    })
}

fn check_prefix(sealed: &[u8]) -> Result<(), PlaceTokenError> {
    match sealed {
        [MARK, FORMAT_VERSION, ..] => Ok(()),
        [MARK, version, ..] => Err(PlaceTokenError::UnknownFormat { version: *version }),
        [] | [MARK] => Err(PlaceTokenError::Truncated),
        _ => Err(PlaceTokenError::NotOfPlace),
    }
}

#[cfg(test)]
mod tests {
    use recto_model::Environment;
    use recto_model::golden::bytes_of_hex;

    use super::*;
    use crate::cursor;

    fn ring(key: u8) -> KeyRing {
        KeyRing::new(7, [key; 32])
    }

    #[test]
    fn tokens_of_before_open() {
        let mut ring = KeyRing::new(1, std::array::from_fn(|at| at as u8));
        ring.add(2_712_847_316, std::array::from_fn(|at| 255 - at as u8))
            .expect("there is room for two keys");
        let golden = include_str!("../tests/golden/place-token-v1.txt");
        let mut opened = 0;
        for line in golden.lines().filter(|line| !line.starts_with('#')) {
            let [_, _, content, token] = line.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{line}");
            };
            let place = open(&ring, &Environment::system(), token);
            assert_eq!(place.ok(), Some(bytes_of_hex(content)), "{line}");
            opened += 1;
        }
        assert_eq!(opened, 3);
    }

    #[test]
    fn opens_unaltered_tokens_with_their_key_only() {
        let environment = Environment::system();
        let token = seal(&ring(1), &environment, b"so far").expect("it is short");
        let opened = open(&ring(1), &environment, &token);
        assert_eq!(opened.as_deref(), Ok(&b"so far"[..]));
        assert_eq!(cursor::key_id(&token), Some(7));
        assert_eq!(
            open(&ring(2), &environment, &token),
            Err(PlaceTokenError::NotOurs)
        );
        for at in 0..token.len() {
            let mut altered = token.clone().into_bytes();
            altered[at] = if altered[at] == b'A' { b'B' } else { b'A' };
            let altered = String::from_utf8(altered).expect("it is text");
            assert!(open(&ring(1), &environment, &altered).is_err(), "{at}");
            assert!(open(&ring(1), &environment, &token[..at]).is_err(), "{at}");
        }
        let sealed = &token.into_bytes();
        assert_ne!(sealed[0], b'A', "cursors begin with a small version");
        let too_long = vec![0; MAX_PLACE_TOKEN_CHARACTERS];
        assert_eq!(seal(&ring(1), &environment, &too_long), None);
        assert_eq!(
            open(&ring(1), &environment, &"A".repeat(60)),
            Err(PlaceTokenError::NotOfPlace)
        );
    }
}
