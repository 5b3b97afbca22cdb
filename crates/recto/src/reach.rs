//! State of the connections to keyspaces with attached tables. While a keyspace is unreachable,
//! only reads of its tables fail.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use recto_store::{AttachedStore, Store};

use crate::error::{Error, ErrorKind, Result};

/// Wait between attempts to reach unreachable keyspaces.
pub(crate) const REACH_INTERVAL: Duration = Duration::from_secs(2);
/// Maximum time for a keyspace to report the version of its tables.
const LOOK_TIME: Duration = Duration::from_secs(1);
/// Number of consecutive late answers after which a keyspace counts as unreachable.
const MAX_LATE_LOOKS: u32 = 3;

/// Reason why the tables of a keyspace cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Away {
    pub(crate) kind: ErrorKind,
    pub(crate) message: String,
    pub(crate) hint: String,
}

impl Away {
    fn new(error: &Error) -> Self {
        let hint = error.hint().unwrap_or("check that its nodes are up");
        Self {
            kind: match error.kind() {
                ErrorKind::Timeout => ErrorKind::Unavailable,
                kind => kind,
            },
            message: error.message().to_owned(),
            hint: format!(
                "{hint}. Recto retries every {} s; other collections stay available",
                REACH_INTERVAL.as_secs()
            ),
        }
    }
}

/// Returns the message that a keyspace is unreachable at an address. It omits the parameters of the
/// address, because they contain file names of this machine.
pub(crate) fn away_message(keyspace: &str, address: &str, cause: &str) -> String {
    let address = address.split('?').next().unwrap_or_default();
    format!("keyspace {keyspace}, which has attached tables, cannot be reached at {address}: {cause}")
}

/// Returns the error for an unreachable keyspace. It has the hint of `cause`, if there is one.
pub(crate) fn away(keyspace: &str, address: &str, cause: &Error) -> Error {
    let error = Error::new(cause.kind(), away_message(keyspace, address, cause.message()));
    match cause.hint() {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}

/// State of the connection to a keyspace.
#[derive(Debug)]
struct Link {
    address: String,
    /// True if no attempt to reach the keyspace at `address` has ended yet.
    is_new: bool,
    away: Option<Away>,
    late_looks: u32,
    /// Version of the keyspace's tables at the last check.
    version: String,
}

#[derive(Debug, Default)]
struct Links {
    by_keyspace: BTreeMap<String, Link>,
    /// True if a background task tries to reach keyspaces.
    is_reaching: bool,
    is_closed: bool,
}

/// Connections to all keyspaces that contain attached tables of a store.
pub(crate) struct Reach {
    store: Arc<AttachedStore>,
    links: Mutex<Links>,
}

impl Reach {
    pub(crate) fn new(store: Arc<AttachedStore>) -> Self {
        Self {
            store,
            links: Mutex::default(),
        }
    }

    fn links(&self) -> MutexGuard<'_, Links> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn close(&self) {
        self.links().is_closed = true;
    }

    /// Returns the keyspaces that are unreachable, with the reasons.
    pub(crate) fn away(&self) -> BTreeMap<String, Away> {
        let links = self.links();
        let away = links
            .by_keyspace
            .iter()
            .filter_map(|(keyspace, link)| Some((keyspace.clone(), link.away.clone()?)));
        away.collect()
    }

    /// Records the result of an attempt to reach a keyspace at `address`. Ignores the result if the
    /// keyspace has another address by now.
    pub(crate) fn tried(&self, keyspace: &str, address: &str, ended: Result<Arc<dyn Store>>) {
        let mut links = self.links();
        let link = links
            .by_keyspace
            .entry(keyspace.to_owned())
            .or_insert_with(|| Link::to(address));
        if link.address != address {
            return;
        }
        link.is_new = false;
        link.late_looks = 0;
        match ended {
            Ok(store) => {
                link.away = None;
                self.store.reach(keyspace, store);
            }
            Err(error) => link.away = Some(Away::new(&error)),
        }
    }

    /// Records that a keyspace was reached at an address. From then on, reads of its tables use the
    /// connection `store`.
    #[cfg_attr(not(feature = "cassandra"), allow(dead_code))]
    pub(crate) fn reached(&self, keyspace: &str, address: &str, store: Arc<dyn Store>) {
        self.links()
            .by_keyspace
            .insert(keyspace.to_owned(), Link::to(address));
        self.tried(keyspace, address, Ok(store));
    }

    /// Records that a keyspace did not answer. The keyspace then counts as unreachable.
    pub(crate) fn lost(&self, keyspace: &str, error: &Error) {
        let mut links = self.links();
        if let Some(link) = links.by_keyspace.get_mut(keyspace) {
            link.away = Some(Away::new(&away(keyspace, &link.address, error)));
        }
    }

    /// Records changed addresses of known keyspaces. Returns the other keyspaces of `keyspaces`
    /// with their addresses, for a first attempt to reach them.
    pub(crate) fn unknown<'a>(
        &self,
        keyspaces: &BTreeSet<&str>,
        addresses: &'a BTreeMap<String, String>,
    ) -> Vec<(&'a str, &'a str)> {
        let mut links = self.links();
        let mut unknown = Vec::new();
        for (keyspace, address) in addresses {
            match links.by_keyspace.get_mut(keyspace) {
                Some(link) if link.address == *address => {}
                // Keep the connection to the old address, which serves the keyspace until the new
                // address is reached.
                Some(link) => {
                    address.clone_into(&mut link.address);
                    link.is_new = true;
                }
                None if keyspaces.contains(keyspace.as_str()) => {
                    unknown.push((keyspace.as_str(), address.as_str()));
                }
                None => {}
            }
        }
        unknown
    }

    /// Returns the keyspaces that must be reached, with their addresses. If the list is empty, the
    /// calling task must end, because this call has allowed the start of another task.
    pub(crate) fn wanted(&self) -> Vec<(String, String)> {
        let mut links = self.links();
        let wanted: Vec<(String, String)> = links
            .by_keyspace
            .iter()
            .filter(|(_, link)| link.is_wanted())
            .map(|(keyspace, link)| (keyspace.clone(), link.address.clone()))
            .collect();
        if links.is_closed || wanted.is_empty() {
            links.is_reaching = false;
            return Vec::new();
        }
        wanted
    }

    /// Returns whether a keyspace must be reached and no task tries to reach it. If true, the
    /// caller must start a task that tries.
    pub(crate) fn takes_task(&self) -> bool {
        let mut links = self.links();
        let is_wanted = links.by_keyspace.values().any(Link::is_wanted);
        let takes = is_wanted && !links.is_reaching && !links.is_closed;
        links.is_reaching |= takes;
        takes
    }

    /// Returns the current versions of the tables of all keyspaces as one text, or `None` if no
    /// table is attached. A keyspace that returns an error or repeatedly answers too late then
    /// counts as unreachable.
    pub(crate) async fn versions(&self) -> Option<String> {
        let asked: Vec<(String, bool)> = {
            let links = self.links();
            let each = links.by_keyspace.iter();
            each.map(|(keyspace, link)| (keyspace.clone(), link.away.is_none()))
                .collect()
        };
        let looks = asked.iter().map(async |(keyspace, is_there)| {
            if *is_there {
                self.look(keyspace).await;
            }
        });
        futures::future::join_all(looks).await;
        let links = self.links();
        let each = links.by_keyspace.iter();
        let told =
            each.map(|(keyspace, link)| format!(" {keyspace} {} {}", link.away.is_some(), link.version));
        (!links.by_keyspace.is_empty()).then(|| told.collect())
    }

    async fn look(&self, keyspace: &str) {
        let Some(store) = self.store.reached_by(keyspace) else {
            return;
        };
        let looked = tokio::time::timeout(LOOK_TIME, store.tables_version()).await;
        let lost = {
            let mut links = self.links();
            let Some(link) = links.by_keyspace.get_mut(keyspace) else {
                return;
            };
            match looked {
                Ok(Ok(version)) => {
                    link.late_looks = 0;
                    link.version = version.unwrap_or_default();
                    None
                }
                Ok(Err(error)) => Some(Error::from(error)),
                Err(_) => {
                    link.late_looks += 1;
                    let silent = || Error::new(ErrorKind::Unavailable, "its nodes do not answer");
                    (link.late_looks >= MAX_LATE_LOOKS).then(silent)
                }
            }
        };
        if let Some(error) = lost {
            self.lost(keyspace, &error);
        }
    }
}

impl Link {
    fn to(address: &str) -> Self {
        Self {
            address: address.to_owned(),
            is_new: true,
            away: None,
            late_looks: 0,
            version: String::new(),
        }
    }

    fn is_wanted(&self) -> bool {
        self.is_new || self.away.is_some()
    }
}
