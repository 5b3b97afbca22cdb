//! Key ring: the secret keys that encrypt cursors.

use std::fmt;
use std::sync::OnceLock;

use recto_model::Environment;
use zeroize::Zeroizing;

use super::digest::DigestSecret;

/// Maximum number of keys of a key ring.
pub const MAX_KEYS: usize = 16;

/// Length of the secret of a key, in bytes.
const KEY_BYTES: usize = 32;
/// Version of the stored bytes of a key ring. Version 1 did not contain the creation times of keys.
const STORED_VERSION: u8 = 2;
const CHECKSUM_BYTES: usize = 8;
/// Length of the header of a stored key ring, in bytes: the version, the id of the active key, and
/// the number of keys.
const STORED_HEADER_BYTES: usize = 1 + 4 + 1;
/// Length of one key in a stored ring of version 1, in bytes: its id and its secret.
const STORED_KEY_V1_BYTES: usize = 4 + KEY_BYTES;
/// Length of one key in a stored ring of version 2, in bytes: its id, its creation time, and its
/// secret.
const STORED_KEY_BYTES: usize = 4 + 8 + KEY_BYTES;

/// Key ring: the secret keys that encrypt cursors. Each key has an id, which cursors contain. The
/// active key encrypts new cursors. All keys decrypt.
///
/// Keys are erased from memory when the ring is dropped.
#[derive(Clone)]
pub struct KeyRing {
    active: usize,
    /// Keys in the order in which they were added; never empty.
    keys: Vec<Key>,
}

#[derive(Clone)]
struct Key {
    id: u32,
    /// Creation time, in seconds since 1970-01-01T00:00:00Z; 0 if it is not known.
    created_at_seconds: u64,
    secret: Zeroizing<[u8; KEY_BYTES]>,
    digest_secret: OnceLock<DigestSecret>,
}

/// Public properties of a cursor key, without its secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyDescription {
    /// Id of the key. Cursors contain it in the clear.
    pub id: u32,
    /// Creation time, in seconds since 1970-01-01T00:00:00Z. `None` if it is not known.
    pub created_at_seconds: Option<u64>,
    /// True if the key is the active key, which encrypts new cursors.
    pub active: bool,
}

/// Reason why a key ring could not be read or changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyRingError {
    /// The stored bytes are not a valid key ring.
    #[error("the stored cursor keys are damaged: {reason}")]
    Damaged {
        /// Fault of the bytes, as the end of an error message.
        reason: &'static str,
    },
    /// The stored bytes have a version that this release does not support.
    #[error("the stored cursor keys have version {version}, which this release does not support")]
    UnknownVersion {
        /// Version of the stored bytes.
        version: u8,
    },
    /// The ring has no key of this id.
    #[error("there is no cursor key {id}")]
    UnknownKey {
        /// Id that no key of the ring has.
        id: u32,
    },
    /// The ring already has a key of this id.
    #[error("cursor key {id} exists already")]
    DuplicateKey {
        /// Id that a key of the ring already has.
        id: u32,
    },
    /// The ring already has [`MAX_KEYS`] keys.
    #[error("the store has the maximum number of cursor keys, {MAX_KEYS}")]
    Full,
    /// The key to remove is the active key, which cannot be removed.
    #[error("cursor key {id} is active")]
    Active {
        /// Id of the active key.
        id: u32,
    },
}

impl KeyRingError {
    /// Returns a hint that says how to resolve the error.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Damaged { .. } => {
                "restore the keys from a backup, or create new keys; new keys invalidate existing cursors"
            }
            Self::UnknownVersion { .. } => "use the release that wrote the keys, or a later one",
            Self::UnknownKey { .. } => "use the id of an existing key",
            Self::DuplicateKey { .. } => "use another id for the new key",
            Self::Full => "remove the oldest key, which invalidates its cursors",
            Self::Active { .. } => "activate another key first",
        }
    }
}

impl KeyRing {
    /// Returns a key ring with one key, which the server's configuration sets. All servers that
    /// share a store must use the same key for the same id.
    pub fn new(id: u32, key: [u8; KEY_BYTES]) -> Self {
        Self {
            active: 0,
            keys: vec![Key {
                id,
                created_at_seconds: 0,
                secret: Zeroizing::new(key),
                digest_secret: OnceLock::new(),
            }],
        }
    }

    /// Returns a key ring with one new random key, with the id 1.
    pub fn generate(environment: &Environment) -> Self {
        let mut ring = Self::new(1, environment.random());
        ring.keys[0].created_at_seconds = environment.now_seconds();
        ring
    }

    /// Adds a key. The key decrypts cursors, but encrypts none until it is
    /// [activated](Self::activate).
    ///
    /// # Errors
    /// [`KeyRingError::DuplicateKey`], [`KeyRingError::Full`].
    pub fn add(&mut self, id: u32, key: [u8; KEY_BYTES]) -> Result<(), KeyRingError> {
        self.add_made_at(id, 0, Zeroizing::new(key))
    }

    fn add_made_at(
        &mut self,
        id: u32,
        created_at_seconds: u64,
        secret: Zeroizing<[u8; KEY_BYTES]>,
    ) -> Result<(), KeyRingError> {
        if self.find(id).is_some() {
            return Err(KeyRingError::DuplicateKey { id });
        }
        if self.keys.len() == MAX_KEYS {
            return Err(KeyRingError::Full);
        }
        self.keys.push(Key {
            id,
            created_at_seconds,
            secret,
            digest_secret: OnceLock::new(),
        });
        Ok(())
    }

    /// Makes the key `id` the active key, which encrypts new cursors. If several servers share the
    /// store, add the key to all of them before one of them activates it.
    ///
    /// # Errors
    /// [`KeyRingError::UnknownKey`].
    pub fn activate(&mut self, id: u32) -> Result<(), KeyRingError> {
        self.active = self.index(id).ok_or(KeyRingError::UnknownKey { id })?;
        Ok(())
    }

    /// Adds a new random key, makes it the active key, and returns its id. Cursors that were
    /// encrypted with the other keys still open.
    ///
    /// # Errors
    /// [`KeyRingError::Full`]: remove a key first.
    pub fn rotate(&mut self, environment: &Environment) -> Result<u32, KeyRingError> {
        let id = self.free_id();
        let secret = Zeroizing::new(environment.random());
        self.add_made_at(id, environment.now_seconds(), secret)?;
        self.activate(id)?;
        Ok(id)
    }

    /// Removes old keys: all except the active key and the `earlier` other keys that were added
    /// last. Cursors that were encrypted with the removed keys no longer open.
    pub fn retire(&mut self, earlier: usize) {
        let active = self.keys.remove(self.active);
        let surplus = self.keys.len().saturating_sub(earlier);
        self.keys.drain(..surplus);
        self.active = self.keys.len();
        self.keys.push(active);
    }

    /// Removes the key `id`. Cursors that were encrypted with it no longer open.
    ///
    /// # Errors
    /// [`KeyRingError::UnknownKey`]. [`KeyRingError::Active`] if the key is the active one.
    pub fn remove(&mut self, id: u32) -> Result<(), KeyRingError> {
        let index = self.index(id).ok_or(KeyRingError::UnknownKey { id })?;
        if index == self.active {
            return Err(KeyRingError::Active { id });
        }
        self.keys.remove(index);
        if index < self.active {
            self.active -= 1;
        }
        Ok(())
    }

    /// Returns the id of the active key, which encrypts new cursors.
    pub fn active_id(&self) -> u32 {
        self.keys[self.active].id
    }

    /// Returns a digest of a page, to detect whether the page has changed. Servers with the same
    /// active key compute the same digest. Nobody can construct pages with the same digest without
    /// the key. Do not use the digest as proof of origin.
    pub fn digest(&self, page: &[u8]) -> u128 {
        let key = &self.keys[self.active];
        let secret = key
            .digest_secret
            .get_or_init(|| DigestSecret::of_key(&key.secret[..]));
        secret.digest(page)
    }

    /// Returns whether the key ring has a key of this id.
    pub fn has(&self, id: u32) -> bool {
        self.index(id).is_some()
    }

    /// Returns the public properties of the keys, in the order in which they were added.
    pub fn describe(&self) -> impl ExactSizeIterator<Item = KeyDescription> + '_ {
        self.keys.iter().enumerate().map(|(index, key)| KeyDescription {
            id: key.id,
            created_at_seconds: (key.created_at_seconds > 0).then_some(key.created_at_seconds),
            active: index == self.active,
        })
    }

    /// Returns the ids of all keys in the ring, in the order in which they were added.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        self.keys.iter().map(|key| key.id)
    }

    /// Returns the bytes of the key ring to store. The bytes are not encrypted: a person who can
    /// read them can forge cursors. The section Cursor keys of `docs/format.md` describes the
    /// layout.
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let length = STORED_HEADER_BYTES + self.keys.len() * STORED_KEY_BYTES + CHECKSUM_BYTES;
        // Allocate the full length at once: a buffer that grows would leave copies of the secrets
        // in freed memory.
        let mut out = Zeroizing::new(Vec::with_capacity(length));
        out.push(STORED_VERSION);
        out.extend_from_slice(&self.active_id().to_be_bytes());
        out.push(self.keys.len() as u8);
        for key in &self.keys {
            out.extend_from_slice(&key.id.to_be_bytes());
            out.extend_from_slice(&key.created_at_seconds.to_be_bytes());
            out.extend_from_slice(&key.secret[..]);
        }
        let checksum = checksum(&out);
        out.extend_from_slice(&checksum);
        out
    }

    /// Reads a key ring from the bytes that [`to_bytes`](Self::to_bytes) returned.
    ///
    /// # Errors
    /// [`KeyRingError::Damaged`], [`KeyRingError::UnknownVersion`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, KeyRingError> {
        let damaged = |reason| KeyRingError::Damaged { reason };
        let version = *bytes.first().ok_or(damaged("they are empty"))?;
        let key_bytes = match version {
            1 => STORED_KEY_V1_BYTES,
            STORED_VERSION => STORED_KEY_BYTES,
            _ => return Err(KeyRingError::UnknownVersion { version }),
        };
        let (content, stored) = bytes
            .split_last_chunk::<CHECKSUM_BYTES>()
            .ok_or(damaged("bytes are missing"))?;
        if *stored != checksum(content) {
            return Err(damaged("the checksum is wrong"));
        }
        let (header, keys) = content
            .split_first_chunk::<STORED_HEADER_BYTES>()
            .ok_or(damaged("bytes are missing"))?;
        let [_, active @ .., count] = *header;
        let count = usize::from(count);
        if count == 0 || count > MAX_KEYS || keys.len() != count * key_bytes {
            return Err(damaged("the number of keys is wrong"));
        }
        let mut ring = Self {
            active: 0,
            keys: Vec::with_capacity(count),
        };
        for stored in keys.chunks_exact(key_bytes) {
            let (id, created_at_seconds, secret) =
                read_key(stored).ok_or_else(|| damaged("bytes are missing"))?;
            ring.add_made_at(id, created_at_seconds, secret)
                .map_err(|_| damaged("two keys have the same id"))?;
        }
        ring.activate(u32::from_be_bytes(active))
            .map_err(|_| damaged("the active key is missing"))?;
        Ok(ring)
    }

    /// Returns the id and the secret of the active key.
    pub(super) fn active(&self) -> (u32, &[u8; KEY_BYTES]) {
        let key = &self.keys[self.active];
        (key.id, &key.secret)
    }

    /// Returns the secret of the key with this id, or `None` if the ring has no such key.
    pub(super) fn find(&self, id: u32) -> Option<&[u8; KEY_BYTES]> {
        self.index(id).map(|index| &*self.keys[index].secret)
    }

    fn index(&self, id: u32) -> Option<usize> {
        self.keys.iter().position(|key| key.id == id)
    }

    /// Returns an id for a new key: the highest id plus one. If that exceeds the range of `u32`,
    /// returns the lowest unused id.
    fn free_id(&self) -> u32 {
        let next = self.ids().max().and_then(|highest| highest.checked_add(1));
        next.or_else(|| (1..=u32::MAX).find(|id| self.index(*id).is_none()))
            .unwrap_or(1)
    }
}

/// Reads the id, the creation time and the secret from the stored bytes of one key. Version 1 has
/// no creation time, so its keys get the time 0.
fn read_key(stored: &[u8]) -> Option<(u32, u64, Zeroizing<[u8; KEY_BYTES]>)> {
    let (id, rest) = stored.split_first_chunk()?;
    let (made_at, secret) = rest.split_last_chunk()?;
    let created_at_seconds = match made_at {
        [] => 0,
        made_at => u64::from_be_bytes(made_at.try_into().ok()?),
    };
    Some((
        u32::from_be_bytes(*id),
        created_at_seconds,
        Zeroizing::new(*secret),
    ))
}

fn checksum(bytes: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut out = [0; CHECKSUM_BYTES];
    out.copy_from_slice(&blake3::hash(bytes).as_bytes()[..CHECKSUM_BYTES]);
    out
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyRing")
            .field("active", &self.active_id())
            .field("ids", &self.ids().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
