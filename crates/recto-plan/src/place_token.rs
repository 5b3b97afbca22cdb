//! How far long work over a store is, sealed so that only this store goes on with it.
//!
//! What a token says is the engine's; here it is bytes. It holds what the work found so far, keys of records among it, so it
//! is sealed as cursors are, with the same keys. The bytes are written down in `docs/format.md`, section Place token.

use recto_model::Environment;

use crate::cursor::KeyRing;
use crate::cursor::envelope::{Kind, Unopened};

/// The longest place token, in characters.
pub const MAX_PLACE_TOKEN_CHARACTERS: usize = 256 * 1024;

/// The first byte of place tokens; cursors begin with the version of their format.
const MARK: u8 = b'P';
/// The version of the outer bytes: header, algorithm, what is authenticated.
const FORMAT_VERSION: u8 = 1;

/// How place tokens are sealed.
pub(crate) const PLACE_TOKEN: Kind = Kind {
    prefix: &[MARK, FORMAT_VERSION],
    max_characters: MAX_PLACE_TOKEN_CHARACTERS,
    min_content_bytes: 1,
};

/// Why a place token was not opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceTokenError {
    /// There is no text.
    #[error("the token of the place is empty")]
    Empty,
    /// The text is longer than any token.
    #[error(
        "the token of the place is {characters} characters long; none is longer than {MAX_PLACE_TOKEN_CHARACTERS}"
    )]
    TooLong {
        /// How long it is.
        characters: usize,
    },
    /// The text is not base64url without padding, or not in its one canonical form.
    #[error("the token of the place is not base64url text: character {position} does not belong there")]
    NotBase64 {
        /// The first character that is wrong, counted in bytes from 1.
        position: usize,
    },
    /// The text has a length that no token has.
    #[error("the token of the place is not whole: characters are missing, or there is one too many")]
    Truncated,
    /// It is something else.
    #[error("this is not the token of a place")]
    NotOfPlace,
    /// The token says that it is of a format that this release does not know.
    #[error("the token of the place is of format {version}, which this release does not know")]
    UnknownFormat {
        /// The version of its format.
        version: u8,
    },
    /// It was not sealed with a key of the ring, or was altered since: these cannot be told apart.
    #[error("the token of the place was altered, or was made with a key that is not known here")]
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

/// Seals a place with the active key of `ring`; none if the token would be longer than
/// [`MAX_PLACE_TOKEN_CHARACTERS`].
pub fn seal(ring: &KeyRing, environment: &Environment, place: &[u8]) -> Option<String> {
    PLACE_TOKEN.seal(ring, environment, place.len(), |out| out.copy_from_slice(place))
}

/// Opens a token: the place that was sealed in it.
///
/// # Errors
/// [`PlaceTokenError`].
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
    fn what_is_sealed_opens_with_its_key_only_and_as_nothing_else() {
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
