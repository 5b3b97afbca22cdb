//! The keys that cursors are sealed with.

use std::fmt;
use std::sync::OnceLock;

use recto_model::Environment;
use zeroize::Zeroizing;

use super::digest::DigestSecret;

/// The most keys a ring holds.
pub const MAX_KEYS: usize = 16;

/// How long a key is.
const KEY_BYTES: usize = 32;
/// The version of the stored bytes. Version 1 did not say when keys were made.
const STORED_VERSION: u8 = 2;
const CHECKSUM_BYTES: usize = 8;
/// Version, active id, count.
const STORED_HEADER_BYTES: usize = 1 + 4 + 1;
/// Id and key, of version 1.
const STORED_KEY_V1_BYTES: usize = 4 + KEY_BYTES;
/// Id, when it was made, key.
const STORED_KEY_BYTES: usize = 4 + 8 + KEY_BYTES;

/// The keys that cursors are sealed with, each with an id that cursors carry. One is active: it
/// seals. All of them open.
///
/// Keys are wiped from memory when the ring is dropped.
#[derive(Clone)]
pub struct KeyRing {
    active: usize,
    /// In the order they were added, never empty.
    keys: Vec<Key>,
}

#[derive(Clone)]
struct Key {
    id: u32,
    /// Seconds since 1970-01-01T00:00:00Z; 0 if it is not known.
    created_at_seconds: u64,
    secret: Zeroizing<[u8; KEY_BYTES]>,
    digest_secret: OnceLock<DigestSecret>,
}

/// What may be told of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyDescription {
    /// Its id, which cursors carry in the clear.
    pub id: u32,
    /// When it was made, in seconds since 1970-01-01T00:00:00Z; absent if that is not known.
    pub created_at_seconds: Option<u64>,
    /// Whether it is the one that seals.
    pub active: bool,
}

/// Why a ring was not read or changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyRingError {
    /// The stored bytes are not a ring.
    #[error("the stored cursor keys are damaged: {reason}")]
    Damaged {
        /// What is wrong.
        reason: &'static str,
    },
    /// The stored bytes are of a later version.
    #[error("the stored cursor keys are of version {version}, which this release does not know")]
    UnknownVersion {
        /// The version.
        version: u8,
    },
    /// There is no key of this id.
    #[error("there is no cursor key {id}")]
    UnknownKey {
        /// The id.
        id: u32,
    },
    /// There is a key of this id already.
    #[error("there is a cursor key {id} already")]
    DuplicateKey {
        /// The id.
        id: u32,
    },
    /// The ring is full.
    #[error("there are {MAX_KEYS} cursor keys already")]
    Full,
    /// The active key cannot be removed.
    #[error("cursor key {id} is the active one")]
    Active {
        /// The id.
        id: u32,
    },
}

impl KeyRingError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Damaged { .. } => {
                "restore the keys from a copy, or make new ones; with new ones, cursors made before stop working"
            }
            Self::UnknownVersion { .. } => "use the release that wrote them, or a later one",
            Self::UnknownKey { .. } => "name the id of a key that is in the ring",
            Self::DuplicateKey { .. } => "give the new key another id",
            Self::Full => "remove the oldest key: cursors sealed with it stop working",
            Self::Active { .. } => "activate another key first",
        }
    }
}

impl KeyRing {
    /// A ring of one key, from configuration. The same id must not name different keys on
    /// different servers.
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

    /// A ring of one new random key, with the id 1.
    pub fn generate(environment: &Environment) -> Self {
        let mut ring = Self::new(1, environment.random());
        ring.keys[0].created_at_seconds = environment.now_seconds();
        ring
    }

    /// Adds a key, which opens cursors but does not seal any until it is
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

    /// Makes the key `id` the one that seals. Where several servers answer, all of them must have
    /// the key before one of them seals with it.
    ///
    /// # Errors
    /// [`KeyRingError::UnknownKey`].
    pub fn activate(&mut self, id: u32) -> Result<(), KeyRingError> {
        self.active = self.index(id).ok_or(KeyRingError::UnknownKey { id })?;
        Ok(())
    }

    /// Adds a new random key and makes it the one that seals; returns its id. Cursors sealed with
    /// the other keys still open.
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

    /// Removes all keys but the active one and those added last of the others, `earlier` of them:
    /// cursors sealed with the removed ones no longer open.
    pub fn retire(&mut self, earlier: usize) {
        let active = self.keys.remove(self.active);
        let surplus = self.keys.len().saturating_sub(earlier);
        self.keys.drain(..surplus);
        self.active = self.keys.len();
        self.keys.push(active);
    }

    /// Removes a key: cursors sealed with it no longer open.
    ///
    /// # Errors
    /// [`KeyRingError::UnknownKey`]; [`KeyRingError::Active`] for the key that seals.
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

    /// The id of the key that seals.
    pub fn active_id(&self) -> u32 {
        self.keys[self.active].id
    }

    /// A digest of a page, to tell whether it has changed: the same wherever this key is the active one.
    /// Nobody without the key can tell which texts have one digest; it authenticates nothing.
    pub fn digest(&self, page: &[u8]) -> u128 {
        let key = &self.keys[self.active];
        let secret = key
            .digest_secret
            .get_or_init(|| DigestSecret::of_key(&key.secret[..]));
        secret.digest(page)
    }

    /// Whether there is a key of this id.
    pub fn has(&self, id: u32) -> bool {
        self.index(id).is_some()
    }

    /// What may be told of the keys, in the order they were added.
    pub fn describe(&self) -> impl ExactSizeIterator<Item = KeyDescription> + '_ {
        self.keys.iter().enumerate().map(|(index, key)| KeyDescription {
            id: key.id,
            created_at_seconds: (key.created_at_seconds > 0).then_some(key.created_at_seconds),
            active: index == self.active,
        })
    }

    /// The ids of all keys, in the order they were added.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        self.keys.iter().map(|key| key.id)
    }

    /// The bytes to store, in the clear: whoever reads them can forge cursors. The layout is in
    /// `docs/format.md`, section Cursor keys.
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let length = STORED_HEADER_BYTES + self.keys.len() * STORED_KEY_BYTES + CHECKSUM_BYTES;
        // Large enough from the start, so that no copy is left behind by growing.
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

    /// The ring of stored bytes.
    ///
    /// # Errors
    /// [`KeyRingError::Damaged`], [`KeyRingError::UnknownVersion`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, KeyRingError> {
        let damaged = |reason| KeyRingError::Damaged { reason };
        let version = *bytes.first().ok_or(damaged("there are no bytes"))?;
        let key_bytes = match version {
            1 => STORED_KEY_V1_BYTES,
            STORED_VERSION => STORED_KEY_BYTES,
            _ => return Err(KeyRingError::UnknownVersion { version }),
        };
        let (content, stored) = bytes
            .split_last_chunk::<CHECKSUM_BYTES>()
            .ok_or(damaged("they are cut short"))?;
        if *stored != checksum(content) {
            return Err(damaged("the checksum does not fit"));
        }
        let (header, keys) = content
            .split_first_chunk::<STORED_HEADER_BYTES>()
            .ok_or(damaged("they are cut short"))?;
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
                read_key(stored).ok_or_else(|| damaged("they are cut short"))?;
            ring.add_made_at(id, created_at_seconds, secret)
                .map_err(|_| damaged("two keys have one id"))?;
        }
        ring.activate(u32::from_be_bytes(active))
            .map_err(|_| damaged("the active key is missing"))?;
        Ok(ring)
    }

    /// The key that seals, with its id.
    pub(super) fn active(&self) -> (u32, &[u8; KEY_BYTES]) {
        let key = &self.keys[self.active];
        (key.id, &key.secret)
    }

    /// The key of this id.
    pub(super) fn find(&self, id: u32) -> Option<&[u8; KEY_BYTES]> {
        self.index(id).map(|index| &*self.keys[index].secret)
    }

    fn index(&self, id: u32) -> Option<usize> {
        self.keys.iter().position(|key| key.id == id)
    }

    /// An id after all others, or the first that is free.
    fn free_id(&self) -> u32 {
        let next = self.ids().max().and_then(|highest| highest.checked_add(1));
        next.or_else(|| (1..=u32::MAX).find(|id| self.index(*id).is_none()))
            .unwrap_or(1)
    }
}

/// Id, when it was made, and secret of a stored key of either version.
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
