//! What may be done with collections, with queues and with the store, and by whom.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use axum::http::Method;
use recto_api::operations;
pub use recto_api::rights::Right;
use tokio::sync::watch;

/// What a token allows in one collection, with one queue, or with the store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Grant {
    /// The rights allowed.
    pub rights: Vec<Right>,
    /// Filter text that every row read or written satisfies; empty for all rows.
    pub rows: String,
}

static EVERYTHING: LazyLock<Grant> = LazyLock::new(|| Grant {
    rights: Right::OF_COLLECTION.to_vec(),
    rows: String::new(),
});

/// What the bearer of a request may do. It stands in the request's extensions: the guard of a
/// server without tokens puts [`Access::all`] there.
#[derive(Debug, Clone)]
pub struct Access {
    /// Who it is, for logs: a token's name.
    pub name: Arc<str>,
    /// The public id of the token; absent where none was asked for.
    pub token_id: Option<Arc<str>>,
    grants: Grants,
    /// None for ever.
    validity: Option<Validity>,
    /// Whether the server itself rejects every change.
    is_read_only: bool,
}

/// For how long a token is taken.
#[derive(Debug, Clone)]
pub(crate) struct Validity(watch::Receiver<bool>);

impl Validity {
    /// Until this is true, or its sender is gone.
    pub(crate) fn new(is_over: watch::Receiver<bool>) -> Self {
        Self(is_over)
    }

    /// Returns when the token is revoked, changed, or its time over.
    pub(crate) async fn ended(mut self) {
        // An error says that the token is there no more.
        let _ = self.0.wait_for(|over| *over).await;
    }
}

#[derive(Debug, Clone)]
enum Grants {
    All,
    /// By collection; `*` stands for all that are not named. The store is none of them.
    Some {
        collections: Arc<BTreeMap<String, Grant>>,
        /// By queue; `*` stands for all that are not named.
        queues: Arc<BTreeMap<String, Vec<Right>>>,
        store: Arc<[Right]>,
    },
}

/// The name that stands for every collection that is not named.
pub const EVERY_COLLECTION: &str = "*";
/// The name that stands for the store itself. No collection has it: `@` is in none of their names.
pub const STORE: &str = "@store";
/// What a name begins with that stands for a queue: its own follows, or `*` for every queue that is not named. No
/// collection has such a name: `.` is in none of theirs.
pub const QUEUE_PREFIX: &str = "queue.";
/// The name that stands for every queue that is not named, after [`QUEUE_PREFIX`].
pub const EVERY_QUEUE: &str = "*";

impl Access {
    /// May do everything: for a server that listens on loopback without tokens.
    pub fn all() -> Self {
        Self {
            name: "anyone".into(),
            token_id: None,
            grants: Grants::All,
            validity: None,
            is_read_only: false,
        }
    }

    /// May do what is granted by collection ([`EVERY_COLLECTION`] for those not named), by queue ([`QUEUE_PREFIX`] before
    /// its name), and with the [`STORE`]: nothing, if only some rows of a collection are granted.
    pub fn granted(name: impl Into<Arc<str>>, mut grants: BTreeMap<String, Grant>) -> Self {
        let store = grants.remove(STORE).map(|grant| grant.rights);
        let mut queues = BTreeMap::new();
        grants.retain(|name, grant| match name.strip_prefix(QUEUE_PREFIX) {
            None => true,
            Some(queue) => {
                // Messages are no rows: what restricts to some of them lets nothing through.
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

    /// Whether it may do this with the store.
    pub fn allows_store(&self, right: Right) -> bool {
        if self.is_read_only && right.changes() {
            return false;
        }
        match &self.grants {
            Grants::All => true,
            Grants::Some { store, .. } => store.contains(&right),
        }
    }

    /// Whether it may do anything with the store itself.
    pub(crate) fn operates_store(&self) -> bool {
        Right::OF_STORE.into_iter().any(|right| self.allows_store(right))
    }

    /// What it may do with a queue, or with a work unit, which is as its queue. With none of them it is as if the queue were not there.
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

    /// Whether it may do this with every queue, whatever there is.
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

    /// Whether it may do this with any queue.
    pub(crate) fn allows_some_queue(&self, right: Right) -> bool {
        if self.is_read_only && right.changes() {
            return false;
        }
        match &self.grants {
            Grants::All => true,
            Grants::Some { queues, .. } => queues.values().any(|one| one.contains(&right)),
        }
    }

    /// The same, by the token of this id.
    #[must_use]
    pub fn by_token(mut self, id: impl Into<Arc<str>>) -> Self {
        self.token_id = Some(id.into());
        self
    }

    /// The same, for as long as its token is taken and is as it is.
    #[must_use]
    pub(crate) fn while_it_holds(mut self, validity: Validity) -> Self {
        self.validity = Some(validity);
        self
    }

    /// For how long it may, if not for ever.
    pub(crate) fn validity(&self) -> Option<&Validity> {
        self.validity.as_ref()
    }

    /// Returns when its token is taken no more, or allows something else.
    pub(crate) async fn ended(&self) {
        match &self.validity {
            Some(validity) => validity.clone().ended().await,
            None => std::future::pending().await,
        }
    }

    /// What is granted, by collection; nothing where it may do everything.
    pub(crate) fn grants(&self) -> impl Iterator<Item = (&String, &Grant)> {
        let some = match &self.grants {
            Grants::All => None,
            Grants::Some { collections, .. } => Some(collections.iter()),
        };
        some.into_iter().flatten()
    }

    /// What is granted, by queue; nothing where it may do everything.
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

    /// Whether it may do this with the collection at all.
    pub fn allows(&self, collection: &str, right: Right) -> bool {
        let is_rejected = self.is_read_only && right.changes();
        let grant = self.grant(collection).filter(|_| !is_rejected);
        grant.is_some_and(|grant| grant.rights.contains(&right))
    }

    /// Rejects every change from now on, also one that is granted.
    #[must_use]
    pub(crate) fn read_only(mut self) -> Self {
        self.is_read_only = true;
        self
    }

    /// Whether the server rejects every change, also one that is granted.
    pub(crate) fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Whether it may read all rows of every collection.
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

    /// Returns the rights in a collection as bits. The highest bit says whether they are for all of its rows.
    pub(crate) fn rights(&self, collection: &str) -> u16 {
        const ALL_ROWS: u16 = 1 << 15;
        const { assert!((Right::Manage as u16) < 15) };
        let Some(grant) = self.grant(collection) else {
            return 0;
        };
        let of_rows = if grant.rows.is_empty() { ALL_ROWS } else { 0 };
        of_rows | bits(grant.rights.iter().copied())
    }

    /// What it may do with the store, as bits.
    pub(crate) fn store_rights(&self) -> u16 {
        bits(Right::OF_STORE.into_iter().filter(|one| self.allows_store(*one)))
    }

    /// Returns the rights with any queue, and those with every queue, as bits.
    pub(crate) fn queue_rights(&self) -> [u16; 2] {
        let rights = || Right::OF_QUEUE.into_iter();
        [
            bits(rights().filter(|one| self.allows_some_queue(*one))),
            bits(rights().filter(|one| self.allows_every_queue(*one))),
        ]
    }

    /// Whether it sees the collection: without any right it is as if it were not there.
    pub fn sees(&self, collection: &str) -> bool {
        self.grant(collection)
            .is_some_and(|grant| !grant.rights.is_empty())
    }
}

/// The queue of a work unit, which is called `QUEUE/UNIT`; of a queue, itself.
pub(crate) fn queue_of(name: &str) -> &str {
    name.split_once('/').map_or(name, |(queue, _)| queue)
}

/// A bit for each right.
fn bits(rights: impl Iterator<Item = Right>) -> u16 {
    rights.fold(0, |bits, right| bits | 1 << right as u16)
}

/// Returns whether a request may change the store. A request that is of no operation counts as one that does, unless its
/// method only reads.
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
            "/v1/collections/orders/buckets:mend",
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
