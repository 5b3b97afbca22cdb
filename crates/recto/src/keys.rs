//! Keys that encrypt cursors and resume tokens, and their rotation.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use recto_model::schema::Collection;
use recto_model::{Environment, cell};
use recto_plan::cursor::{self, Cursor, CursorError, CursorName, KeyRing, OpenedCursor};
use recto_plan::{Plan, Position, Travel, planner};
use recto_store::Store;

use crate::catalog::Catalog;
use crate::error::{Error, Result, of_cursor};
use crate::options::OpenOptions;

/// Maximum number of earlier cursor keys that a store keeps to decrypt old cursors.
pub const MAX_EARLIER_CURSOR_KEYS: u32 = 15;
/// Default number of earlier cursor keys that a rotation keeps to decrypt old cursors.
pub const DEFAULT_EARLIER_CURSOR_KEYS: u32 = 3;

/// Minimum time in nanoseconds between two reads of the cursor keys in the catalog. Anybody can
/// send cursors that name unknown keys, so their number must not determine the number of reads.
const KEYS_PAUSE_NANOS: u64 = 1_000_000_000;

/// Cursor keys of an open store, and the lifetime of cursors.
pub(crate) struct CursorKeys {
    store: Arc<dyn Store>,
    environment: Environment,
    /// Current keys. Applying the first schema replaces them with permanent keys, and each rotation
    /// adds a key.
    ring: RwLock<Arc<KeyRing>>,
    /// True if the keys come from the configuration. Keys in the catalog are then ignored.
    pub(crate) are_given: bool,
    /// Time of the last read of keys in the catalog, in nanoseconds of the monotonic clock; `None`
    /// before the first read. The lock is held during the read.
    asked_nanos: tokio::sync::Mutex<Option<u64>>,
    lifetime: Option<Duration>,
}

impl CursorKeys {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        environment: Environment,
        ring: KeyRing,
        options: &OpenOptions,
    ) -> Self {
        Self {
            store,
            environment,
            ring: RwLock::new(Arc::new(ring)),
            are_given: options.has_cursor_keys(),
            asked_nanos: tokio::sync::Mutex::new(None),
            lifetime: options.cursor_lifetime,
        }
    }

    /// Returns the current cursor keys.
    pub(crate) fn ring(&self) -> Arc<KeyRing> {
        Arc::clone(&self.ring.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the current cursor keys, even if they are newer than `ring`.
    pub(crate) fn replace(&self, ring: KeyRing) {
        *self.ring.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(ring);
    }

    /// Replaces the current keys if `ring` is newer. Another task may already have replaced them
    /// with newer keys. A rotation always adds a key with a higher id, so the higher active id is
    /// newer.
    pub(crate) fn replace_if_newer(&self, ring: KeyRing) {
        let mut current = self.ring.write().unwrap_or_else(PoisonError::into_inner);
        if ring.active_id() > current.active_id() {
            *current = Arc::new(ring);
        }
    }

    /// Reads the keys in the catalog, if the cursor `text` names an unknown key: another process
    /// may have created it. Within [`KEYS_PAUSE_NANOS`] after a read, this function reads nothing,
    /// and an unknown key is rejected later.
    pub(crate) async fn learn(&self, text: &str, timeout: Duration) -> Result<()> {
        let unknown = cursor::key_id(text).filter(|id| !self.ring().has(*id));
        let (Some(unknown), false) = (unknown, self.are_given) else {
            return Ok(());
        };
        // Wait for a read of keys that another call has begun, instead of starting a second read.
        let mut asked_nanos = self.asked_nanos.lock().await;
        let now_nanos = self.environment.monotonic_nanos();
        let recently = asked_nanos.is_some_and(|asked| now_nanos < asked.saturating_add(KEYS_PAUSE_NANOS));
        if recently || self.ring().has(unknown) {
            return Ok(());
        }
        *asked_nanos = Some(now_nanos);
        let catalog = Catalog::new(&self.store, &self.environment, Some(timeout));
        if let Some(keys) = catalog.decided_cursor_keys().await? {
            self.replace(keys);
        }
        Ok(())
    }

    /// Returns the time at which cursors that are created now expire, in seconds since 1970.
    /// `None`: they never expire.
    pub(crate) fn expires_at_seconds(&self) -> Option<u64> {
        self.lifetime
            .map(|lifetime| self.environment.now_seconds().saturating_add(lifetime.as_secs()))
    }

    pub(crate) fn seal(&self, plan: &Plan, position: &Position, travel: Travel) -> Cursor {
        cursor::seal(
            &self.ring(),
            &self.environment,
            &plan.identity,
            position,
            travel,
            None,
            self.expires_at_seconds(),
        )
        .expect("keys within the stores' limits fit into a cursor")
    }

    /// Opens a cursor. Returns its content, and the index of the first of the query's plans that
    /// has the order of the cursor.
    pub(crate) fn open<'p>(
        &self,
        definition: &Collection,
        plans: impl Iterator<Item = &'p Plan> + Clone,
        text: &str,
    ) -> Result<(usize, OpenedCursor)> {
        let of_version_1 = |plan: &Plan| planner::identity_of_version_1(definition, plan);
        let open = || {
            let cursor = cursor::open(&self.ring(), &self.environment, text)?;
            let is_of = |plan: &Plan| cursor.check(&plan.identity, || of_version_1(plan)).is_ok();
            let mut numbered = plans.clone().enumerate();
            // If no plan has the order of the cursor, the first plan determines the error.
            let found = numbered
                .find(|(_, plan)| is_of(plan))
                .or(plans.enumerate().next());
            let (index, plan) = found.expect("a query that is answered has a plan");
            let opened = cursor.bind(&plan.identity, || of_version_1(plan));
            let opened = opened.map_err(|error| match error {
                // If the request names a sort order, the plan has that order. A cursor with another
                // order therefore belongs to another query.
                CursorError::OtherSortOrder if plan.query.sorts().next().is_some() => CursorError::OtherQuery,
                error => error,
            })?;
            Ok::<_, CursorError>((index, plan, opened))
        };
        let (index, plan, opened) = open().map_err(refused)?;
        check_position(plan, &opened.position)?;
        Ok((index, opened))
    }
}

/// Converts a cursor error to an API error that uses the word "cursor". The source is kept, so that
/// callers with another name for cursors can create their own message.
#[cold]
fn refused(error: CursorError) -> Error {
    of_cursor(&error, CursorName::Cursor).with_source(error)
}

/// Checks that the cells of a position have the types of the plan's order. A position that fails
/// the check comes from a defective creator of the cursor, and must not reach a store.
pub(crate) fn check_position(plan: &Plan, position: &Position) -> Result<()> {
    let unknown = || refused(CursorError::UnknownContent);
    if position.values.len() > plan.order.len() {
        return Err(unknown());
    }
    for (term, value) in plan.order.iter().zip(position.values.iter()) {
        let value = value.ok_or_else(unknown)?;
        cell::validate(plan.sort_order.type_of(term.column), value).map_err(|_| unknown())?;
    }
    Ok(())
}
