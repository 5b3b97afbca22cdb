//! Encrypted texts: the common part of cursors, of the resume tokens of scans, and of place tokens.
//!
//! An encrypted text is the base64url form of a prefix, the id of a key, a nonce, an encrypted content, and a
//! tag. The prefix identifies the kind and the version. The tag authenticates the content and all bytes
//! before it (XChaCha20-Poly1305). The prefixes of two kinds differ in their first byte, which is
//! authenticated. A text of one kind therefore never opens as a text of another kind.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chacha20poly1305::{AeadInOut, KeyInit, Tag, XChaCha20Poly1305, XNonce};
use recto_model::Environment;

use super::{KeyRing, QueryIdentity};

const KEY_ID_BYTES: usize = 4;
const NONCE_BYTES: usize = 24;
const TAG_BYTES: usize = 16;
/// Length in characters of the start of a text that contains the prefix and the key id, for every
/// kind of encrypted text.
const KEY_ID_CHARACTERS: usize = 8;
/// Maximum length of an encrypted text, in bytes, that is processed without a heap allocation. Most
/// cursors are far smaller.
const INLINE_BYTES: usize = 512;

/// Kind of encrypted text, such as cursors or resume tokens.
pub(crate) struct Kind {
    /// First bytes of a text, which identify the kind and the version.
    pub(crate) prefix: &'static [u8],
    /// Maximum length of the text, in characters.
    pub(crate) max_characters: usize,
    /// Minimum length of the decrypted content, in bytes.
    pub(crate) min_content_bytes: usize,
}

/// Reason why an encrypted text of any kind was not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unopened {
    Empty,
    TooLong {
        characters: usize,
    },
    /// The text is not base64url. `position` is the first wrong character, counted in bytes from 1.
    NotBase64 {
        position: usize,
    },
    Truncated,
    NotOurs,
    OtherCollection,
    OtherSortOrder,
    OtherQuery,
    Expired {
        expired_at_seconds: u64,
    },
}

/// Checks that `found`, the identity in a decrypted text, equals `identity`, the identity of the
/// query for which the text is used.
pub(crate) fn check_identity(found: &QueryIdentity, identity: &QueryIdentity) -> Result<(), Unopened> {
    if found.collection != identity.collection {
        return Err(Unopened::OtherCollection);
    }
    if found.order != identity.order {
        return Err(Unopened::OtherSortOrder);
    }
    if found.query != identity.query {
        return Err(Unopened::OtherQuery);
    }
    Ok(())
}

/// Checks that a decrypted text has not expired. Times are seconds since 1970-01-01T00:00:00Z.
pub(crate) fn check_time(expires_at_seconds: Option<u64>, now_seconds: u64) -> Result<(), Unopened> {
    match expires_at_seconds {
        Some(expired_at_seconds) if now_seconds >= expired_at_seconds => {
            Err(Unopened::Expired { expired_at_seconds })
        }
        _ => Ok(()),
    }
}

impl Kind {
    const fn header_bytes(&self) -> usize {
        self.prefix.len() + KEY_ID_BYTES + NONCE_BYTES
    }

    /// Returns the length of the encrypted form of a content, in bytes, before base64url encoding.
    pub(crate) const fn sealed_bytes(&self, content_bytes: usize) -> usize {
        self.header_bytes() + content_bytes + TAG_BYTES
    }

    /// Returns the maximum length of the encrypted form, in bytes, before base64url encoding.
    const fn max_sealed_bytes(&self) -> usize {
        self.max_characters / 4 * 3
    }

    /// Encrypts a content of `length` bytes, which `write` writes, with the active key of `ring`. Returns
    /// `None` if the text would be too long.
    pub(crate) fn seal(
        &self,
        ring: &KeyRing,
        environment: &Environment,
        length: usize,
        write: impl FnOnce(&mut [u8]),
    ) -> Option<String> {
        let sealed_bytes = self.sealed_bytes(length);
        if sealed_bytes > self.max_sealed_bytes() {
            return None;
        }
        let sealed = with_buffer(sealed_bytes, |sealed| {
            let (header, rest) = sealed.split_at_mut(self.header_bytes());
            let (content, tag) = rest.split_at_mut(length);
            let (id, key) = ring.active();
            let nonce: [u8; NONCE_BYTES] = environment.random();
            let (prefix, id_and_nonce) = header.split_at_mut(self.prefix.len());
            prefix.copy_from_slice(self.prefix);
            id_and_nonce[..KEY_ID_BYTES].copy_from_slice(&id.to_be_bytes());
            id_and_nonce[KEY_ID_BYTES..].copy_from_slice(&nonce);
            write(content);
            let computed = XChaCha20Poly1305::new(key.into())
                .encrypt_inout_detached(&XNonce::from(nonce), header, content.into())
                .expect("the cipher accepts up to 256 GiB");
            tag.copy_from_slice(&computed);
            URL_SAFE_NO_PAD.encode(sealed)
        });
        Some(sealed)
    }

    /// Authenticates and decrypts a text. `check` receives the bytes before they are authenticated,
    /// and may reject them because of their prefix. `read` receives the current time, in seconds
    /// since 1970-01-01T00:00:00Z, and the authentic content.
    pub(crate) fn open<T, E: From<Unopened>>(
        &self,
        ring: &KeyRing,
        environment: &Environment,
        text: &str,
        check: impl FnOnce(&[u8]) -> Result<(), E>,
        read: impl FnOnce(u64, &[u8]) -> Result<T, E>,
    ) -> Result<T, E> {
        if text.is_empty() {
            return Err(Unopened::Empty.into());
        }
        if text.len() > self.max_characters {
            return Err(Unopened::TooLong {
                characters: text.len(),
            }
            .into());
        }
        with_buffer(base64::decoded_len_estimate(text.len()), |buffer| {
            let length = decode(text, buffer)?;
            let now_seconds = environment.now_seconds();
            let sealed = &mut buffer[..length];
            check(sealed)?;
            read(now_seconds, self.authenticate(ring, sealed)?)
        })
    }

    /// Authenticates `sealed`, the decoded bytes of a text, decrypts them in place, and returns the
    /// content.
    fn authenticate<'b>(&self, ring: &KeyRing, sealed: &'b mut [u8]) -> Result<&'b [u8], Unopened> {
        if sealed.len() < self.sealed_bytes(self.min_content_bytes) {
            return Err(Unopened::Truncated);
        }
        let (header, rest) = sealed.split_at_mut(self.header_bytes());
        let (content, tag) = rest.split_at_mut(rest.len() - TAG_BYTES);
        let (id, nonce) = header[self.prefix.len()..].split_at(KEY_ID_BYTES);
        let id = u32::from_be_bytes(array(id));
        let nonce = XNonce::from(array::<NONCE_BYTES>(nonce));
        let expected = Tag::from(array::<TAG_BYTES>(tag));
        // If the key is unknown, decrypt with the active key, because otherwise the duration would
        // reveal which keys exist.
        let known = ring.find(id);
        let key = known.unwrap_or_else(|| ring.active().1);
        let authentic = XChaCha20Poly1305::new(key.into())
            .decrypt_inout_detached(&nonce, header, (&mut *content).into(), &expected)
            .is_ok();
        if authentic && known.is_some() {
            Ok(content)
        } else {
            Err(Unopened::NotOurs)
        }
    }

    /// Returns the key id in the header of an encrypted text, or `None` if the text does not begin
    /// like a text of this kind. The id is not authenticated: anybody can write it.
    pub(crate) fn key_id(&self, text: &str) -> Option<u32> {
        let mut bytes = [0; KEY_ID_CHARACTERS / 4 * 3];
        URL_SAFE_NO_PAD
            .decode_slice(text.as_bytes().get(..KEY_ID_CHARACTERS)?, &mut bytes)
            .ok()?;
        let id = bytes.strip_prefix(self.prefix)?.first_chunk()?;
        Some(u32::from_be_bytes(*id))
    }
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(bytes);
    array
}

/// Decodes base64url `text` into `buffer`. Returns the number of bytes written.
fn decode(text: &str, buffer: &mut [u8]) -> Result<usize, Unopened> {
    use base64::{DecodeError, DecodeSliceError};
    URL_SAFE_NO_PAD
        .decode_slice(text, buffer)
        .map_err(|error| match error {
            DecodeSliceError::DecodeError(
                DecodeError::InvalidByte(offset, _) | DecodeError::InvalidLastSymbol { offset, .. },
            ) => Unopened::NotBase64 { position: offset + 1 },
            DecodeSliceError::DecodeError(DecodeError::InvalidPadding) => Unopened::NotBase64 {
                position: text.find('=').map_or(text.len(), |offset| offset + 1),
            },
            DecodeSliceError::DecodeError(DecodeError::InvalidLength(_))
            | DecodeSliceError::OutputSliceTooSmall => Unopened::Truncated,
        })
}

/// Calls `work` with a buffer of `length` zero bytes, on the stack if the buffer is small.
fn with_buffer<T>(length: usize, work: impl FnOnce(&mut [u8]) -> T) -> T {
    if length <= INLINE_BYTES {
        work(&mut [0; INLINE_BYTES][..length])
    } else {
        work(&mut vec![0; length])
    }
}
