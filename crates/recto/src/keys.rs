//! The keys that cursors and resume tokens are sealed with.

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

/// The most cursor keys beside the one that encrypts.
pub const MAX_EARLIER_CURSOR_KEYS: u32 = 15;
/// How many cursor keys beside the one that encrypts a rotation should keep, unless asked for otherwise.
pub const DEFAULT_EARLIER_CURSOR_KEYS: u32 = 3;

/// How soon after one look at the catalog for cursor keys the next may follow, in nanoseconds. Anybody can
/// write a cursor that names an unknown key: however many come, the catalog is read this often at most.
const KEYS_PAUSE_NANOS: u64 = 1_000_000_000;

/// The keys of an open store, and how long what they seal is good for.
pub(crate) struct CursorKeys {
    store: Arc<dyn Store>,
    environment: Environment,
    /// Changes when the first schema is applied, which makes the lasting keys, and when they rotate.
    ring: RwLock<Arc<KeyRing>>,
    /// Whether the keys come from configuration, so that the catalog has nothing to say on them.
    pub(crate) are_given: bool,
    /// When the catalog was last asked for keys, as the monotonic clock says; held while it is asked.
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

    /// The keys there are.
    pub(crate) fn ring(&self) -> Arc<KeyRing> {
        Arc::clone(&self.ring.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Seals with these keys from now on.
    pub(crate) fn replace(&self, ring: KeyRing) {
        *self.ring.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(ring);
    }

    /// Seals with these keys from now on if they are newer: a rotation always adds a key of a higher
    /// number, and what is known here may be newer than what was read.
    pub(crate) fn replace_if_newer(&self, ring: KeyRing) {
        let mut current = self.ring.write().unwrap_or_else(PoisonError::into_inner);
        if ring.active_id() > current.active_id() {
            *current = Arc::new(ring);
        }
    }

    /// Learns of keys that another process made, if `text` is a cursor that names one not known here:
    /// the catalog is read once, and not again before [`KEYS_PAUSE_NANOS`] have passed. A cursor that
    /// is met in between is opened with the keys there are, which refuses it.
    pub(crate) async fn learn(&self, text: &str, timeout: Duration) -> Result<()> {
        let unknown = cursor::key_id(text).filter(|id| !self.ring().has(*id));
        let (Some(unknown), false) = (unknown, self.are_given) else {
            return Ok(());
        };
        // Wait for a request for the new keys that is under way, instead of sending another one.
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

    /// From when on what is sealed now opens no more, in seconds since 1970; never without it.
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

    /// What a cursor holds, and which of a query's plans goes on with it: the first that is in its order.
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
            // If it is of none, the first says why.
            let found = numbered
                .find(|(_, plan)| is_of(plan))
                .or(plans.enumerate().next());
            let (index, plan) = found.expect("a query that is answered has a plan");
            let opened = cursor.bind(&plan.identity, || of_version_1(plan));
            let opened = opened.map_err(|error| match error {
                // The order is the sort's that was asked for, if one was.
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

/// Its cause lets those who call cursors otherwise say it in their words.
#[cold]
fn refused(error: CursorError) -> Error {
    of_cursor(&error, CursorName::Cursor).with_source(error)
}

/// A position of this plan's identity holds cells of its order's types; anything else is a defect
/// of whoever sealed it, and must not reach a store.
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
