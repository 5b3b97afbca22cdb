//! Access of a request: the rights of its token in collections, for queues and for the store.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use axum::http::Method;
use recto_api::operations;
pub use recto_api::rights::Right;
use tokio::sync::watch;

/// Rights of an access token in one collection, for one queue, or for the store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Grant {
    /// Rights that the token has.
    pub rights: Vec<Right>,
    /// Filter that restricts the token to the rows that satisfy it. Empty for all rows.
    pub rows: String,
}

static EVERYTHING: LazyLock<Grant> = LazyLock::new(|| Grant {
    rights: Right::OF_COLLECTION.to_vec(),
    rows: String::new(),
});

/// Access of a request: the rights of its token. On a server without tokens, it is [`Access::all`].
/// The guard (the checks before handlers) attaches it to the request.
#[derive(Debug, Clone)]
pub struct Access {
    /// Name of the access token, for logs.
    pub name: Arc<str>,
    /// Public id of the access token; `None` on a server without tokens.
    pub token_id: Option<Arc<str>>,
    grants: Grants,
    /// Validity of the access token; `None` for access that never ends.
    validity: Option<Validity>,
    /// True if the server is read-only, so that all rights to change are without effect.
    is_read_only: bool,
}

/// Validity of an access token, which can end while a request runs.
#[derive(Debug, Clone)]
pub(crate) struct Validity(watch::Receiver<bool>);

impl Validity {
    /// Creates the validity of a token. It ends when `is_over` becomes true, or when the sender of
    /// `is_over` is dropped.
    pub(crate) fn new(is_over: watch::Receiver<bool>) -> Self {
        Self(is_over)
    }

    /// Waits until the token expires, or is revoked or changed.
    pub(crate) async fn ended(mut self) {
        // Treat an error as the end, too: the sender was dropped, because the token no longer
        // exists.
        let _ = self.0.wait_for(|over| *over).await;
    }
}

#[derive(Debug, Clone)]
enum Grants {
    All,
    /// Only the rights of the listed grants.
    Some {
        /// Grants by collection. `*` stands for every collection without an entry. Rights for the
        /// store are in `store`.
        collections: Arc<BTreeMap<String, Grant>>,
        /// Rights by queue. `*` stands for every queue without an entry.
        queues: Arc<BTreeMap<String, Vec<Right>>>,
        store: Arc<[Right]>,
    },
}

/// Name in a grant for every collection that no other grant names.
pub const EVERY_COLLECTION: &str = "*";
/// Name in a grant for the store. No collection has the name, because names of collections have no
/// `@`.
pub const STORE: &str = "@store";
/// Prefix in a grant for a queue. The name of the queue follows, or `*` for every queue that no
/// other grant names. No collection has such a name, because names of collections have no `.`.
pub const QUEUE_PREFIX: &str = "queue.";
/// Name in a grant, after [`QUEUE_PREFIX`], for every queue that no other grant names.
pub const EVERY_QUEUE: &str = "*";

impl Access {
    /// Returns access with all rights, for a server without tokens that listens on a loopback address.
    pub fn all() -> Self {
        Self {
            name: "anyone".into(),
            token_id: None,
            grants: Grants::All,
            validity: None,
            is_read_only: false,
        }
    }

    /// Returns access with the rights of the given grants. The key of a grant is one of these:
    ///
    /// - the name of a collection, or [`EVERY_COLLECTION`] for all collections without a grant
    /// - [`QUEUE_PREFIX`] and the name of a queue
    /// - [`STORE`]; such a grant is ignored if another grant has a row filter
    pub fn granted(name: impl Into<Arc<str>>, mut grants: BTreeMap<String, Grant>) -> Self {
        let store = grants.remove(STORE).map(|grant| grant.rights);
        let mut queues = BTreeMap::new();
        grants.retain(|name, grant| match name.strip_prefix(QUEUE_PREFIX) {
            None => true,
            Some(queue) => {
                // Ignore a grant for a queue with a row filter: messages are not rows, so it would
                // allow nothing.
                if grant.rows.is_empty() {
                    queues.insert(queue.to_owned(), std::mem::take(&mut grant.rights));
                }
                false
            }
        });
        let sees_all_rows = grants.values().all(|grant| grant.rows.is_empty());
        Self {
            name: name.into(),
            token_id: None,
            grants: Grants::Some {
                collections: Arc::new(grants),
                queues: Arc::new(queues),
                store: store.filter(|_| sees_all_rows).unwrap_or_default().into(),
            },
            validity: None,
            is_read_only: false,
        }
    }

    /// Returns whether the token has a right for the store.
    pub fn allows_store(&self, right: Right) -> bool {
        if self.is_read_only && right.changes() {
            return false;
        }
        match &self.grants {
            Grants::All => true,
            Grants::Some { store, .. } => store.contains(&right),
        }
    }

    /// Returns whether the token has any right for the store.
    pub(crate) fn operates_store(&self) -> bool {
        Right::OF_STORE.into_iter().any(|right| self.allows_store(right))
    }

    /// Returns the rights for a queue. For a work unit (temporary queue), returns those for its
    /// queue. Without rights, the server answers as if the queue did not exist.
    pub fn of_queue(&self, queue: &str) -> &[Right] {
        let granted = match &self.grants {
            Grants::All => &Right::OF_QUEUE,
            Grants::Some { queues, .. } => queues
                .get(queue_of(queue))
                .or_else(|| queues.get(EVERY_QUEUE))
                .map(Vec::as_slice)
                .unwrap_or_default(),
        };
        match self.is_read_only {
            true if granted.contains(&Right::Read) => &[Right::Read],
            true => &[],
            false => granted,
        }
    }

    /// Returns whether the token has a right for every queue, including queues that are created
    /// later.
    pub(crate) fn allows_every_queue(&self, right: Right) -> bool {
        if self.is_read_only && right.changes() {
            return false;
        }
        match &self.grants {
            Grants::All => true,
            Grants::Some { queues, .. } => {
                queues.contains_key(EVERY_QUEUE) && queues.values().all(|one| one.contains(&right))
            }
        }
    }

    /// Returns whether the token has a right for at least one queue.
    pub(crate) fn allows_some_queue(&self, right: Right) -> bool {
        if self.is_read_only && right.changes() {
            return false;
        }
        match &self.grants {
            Grants::All => true,
            Grants::Some { queues, .. } => queues.values().any(|one| one.contains(&right)),
        }
    }

    /// Adds the id of the token to the access.
    #[must_use]
    pub fn by_token(mut self, id: impl Into<Arc<str>>) -> Self {
        self.token_id = Some(id.into());
        self
    }

    /// Adds the validity of the token to the access.
    #[must_use]
    pub(crate) fn while_it_holds(mut self, validity: Validity) -> Self {
        self.validity = Some(validity);
        self
    }

    /// Returns the validity of the token; `None` for access that never ends.
    pub(crate) fn validity(&self) -> Option<&Validity> {
        self.validity.as_ref()
    }

    /// Waits until the token expires, or is revoked or changed. Waits forever for access that never
    /// ends.
    pub(crate) async fn ended(&self) {
        match &self.validity {
            Some(validity) => validity.clone().ended().await,
            None => std::future::pending().await,
        }
    }

    /// Returns the grants by collection; none if the access has all rights anyway.
    pub(crate) fn grants(&self) -> impl Iterator<Item = (&String, &Grant)> {
        let some = match &self.grants {
            Grants::All => None,
            Grants::Some { collections, .. } => Some(collections.iter()),
        };
        some.into_iter().flatten()
    }

    /// Returns the rights by queue; none if the access has all rights anyway.
    pub(crate) fn queue_grants(&self) -> impl Iterator<Item = (&String, &Vec<Right>)> {
        let some = match &self.grants {
            Grants::All => None,
            Grants::Some { queues, .. } => Some(queues.iter()),
        };
        some.into_iter().flatten()
    }

    pub(crate) fn grant(&self, collection: &str) -> Option<&Grant> {
        match &self.grants {
            Grants::All => Some(&EVERYTHING),
            Grants::Some { collections, .. } => collections
                .get(collection)
                .or_else(|| collections.get(EVERY_COLLECTION)),
        }
    }

    /// Returns whether the token has a right in a collection, for all rows or only for some.
    pub fn allows(&self, collection: &str, right: Right) -> bool {
        let is_rejected = self.is_read_only && right.changes();
        let grant = self.grant(collection).filter(|_| !is_rejected);
        grant.is_some_and(|grant| grant.rights.contains(&right))
    }

    /// Returns the access as a read-only server grants it, without rights to change.
    #[must_use]
    pub(crate) fn read_only(mut self) -> Self {
        self.is_read_only = true;
        self
    }

    /// Returns whether the server is read-only and rejects every change.
    pub(crate) fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Returns whether the token may read all rows of every collection.
    pub(crate) fn reads_everything(&self) -> bool {
        let unrestricted = |grant: &Grant| grant.rows.is_empty() && grant.rights.contains(&Right::Read);
        match &self.grants {
            Grants::All => true,
            Grants::Some { collections, .. } => {
                collections.contains_key(EVERY_COLLECTION) && collections.values().all(unrestricted)
            }
        }
    }

    pub(crate) fn sees_every_collection(&self) -> bool {
        match &self.grants {
            Grants::All => true,
            Grants::Some { collections, .. } => collections.contains_key(EVERY_COLLECTION),
        }
    }

    /// Returns the rights in a collection as bits, to compare tokens. The highest bit is set if
    /// they apply to all rows.
    pub(crate) fn rights(&self, collection: &str) -> u16 {
        const ALL_ROWS: u16 = 1 << 15;
        const { assert!((Right::Manage as u16) < 15) };
        let Some(grant) = self.grant(collection) else {
            return 0;
        };
        let of_rows = if grant.rows.is_empty() { ALL_ROWS } else { 0 };
        of_rows | bits(grant.rights.iter().copied())
    }

    /// Returns the rights for the store as bits, to compare tokens.
    pub(crate) fn store_rights(&self) -> u16 {
        bits(Right::OF_STORE.into_iter().filter(|one| self.allows_store(*one)))
    }

    /// Returns two sets of rights as bits, to compare tokens: the rights for at least one queue,
    /// and for every queue.
    pub(crate) fn queue_rights(&self) -> [u16; 2] {
        let rights = || Right::OF_QUEUE.into_iter();
        [
            bits(rights().filter(|one| self.allows_some_queue(*one))),
            bits(rights().filter(|one| self.allows_every_queue(*one))),
        ]
    }

    /// Returns whether the token has any right in a collection. Without a right, the server answers
    /// as if the collection did not exist.
    pub fn sees(&self, collection: &str) -> bool {
        self.grant(collection)
            .is_some_and(|grant| !grant.rights.is_empty())
    }
}

/// Returns the name of the queue in `QUEUE` or `QUEUE/UNIT` (the name of a work unit).
pub(crate) fn queue_of(name: &str) -> &str {
    name.split_once('/').map_or(name, |(queue, _)| queue)
}

/// Returns a set of rights as an integer, with one bit per right.
fn bits(rights: impl Iterator<Item = Right>) -> u16 {
    rights.fold(0, |bits, right| bits | 1 << right as u16)
}

/// Returns whether a request may change the store. A POST, PUT, PATCH or DELETE that the table of
/// operations lacks counts as a change, except the console's search for views.
pub(crate) fn changes_store(method: &Method, path: &str) -> bool {
    if matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) {
        return false;
    }
    let is_design = path.starts_with("/collections/") && path.ends_with("/design");
    let found = operations::Method::of(method.as_str()).and_then(|method| operations::find(method, path));
    match found {
        Some(operation) => operation.changes,
        None => !(is_design && *method == Method::POST),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_questions_read() {
        for path in [
            "/v1/store:check",
            "/v1/collections/orders/records:query",
            "/collections/orders/design",
        ] {
            assert!(!changes_store(&Method::POST, path), "{path}");
            assert!(changes_store(&Method::PUT, path), "{path}");
        }
        for path in [
            "/v1/store:apply",
            "/v1/store:rotateCursorKeys",
            "/v1/collections/orders/records:batchWrite",
            "/v1/collections/orders/buckets:rebalance",
            "/v1/queues/mail/messages:receive",
            "/v1/queues/mail/units/u:begin",
            "/v1/queues/mail/units/records:query",
            "/collections/orders/new",
            "/queues/design/send",
        ] {
            assert!(changes_store(&Method::POST, path), "{path}");
            assert!(!changes_store(&Method::GET, path), "{path}");
        }
    }
}
