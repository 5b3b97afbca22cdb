//! Keyspaces of which tables are attached: each is reached when it is there, and may be away. That refuses what is read from it, and
//! nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use recto_store::{AttachedStore, Store};

use crate::error::{Error, ErrorKind, Result};

/// How long a keyspace that is away is left before it is tried again.
pub(crate) const REACH_INTERVAL: Duration = Duration::from_secs(2);
/// How long a keyspace may take to say whether its tables were changed.
const LOOK_TIME: Duration = Duration::from_secs(1);
/// How often in a row it may take longer before it is away.
const MAX_LATE_LOOKS: u32 = 3;

/// Why a keyspace cannot be read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Away {
    pub(crate) kind: ErrorKind,
    pub(crate) message: String,
    pub(crate) hint: String,
}

impl Away {
    fn new(error: &Error) -> Self {
        let hint = error.hint().unwrap_or("see whether its nodes are up");
        Self {
            kind: match error.kind() {
                ErrorKind::Timeout => ErrorKind::Unavailable,
                kind => kind,
            },
            message: error.message().to_owned(),
            hint: format!(
                "{hint}. It is tried every {} s, and read again once it answers; other collections are served meanwhile",
                REACH_INTERVAL.as_secs()
            ),
        }
    }
}

/// That a keyspace cannot be reached by an address, without its parameters: they say where files of this machine are.
pub(crate) fn away_message(keyspace: &str, address: &str, cause: &str) -> String {
    let address = address.split('?').next().unwrap_or_default();
    format!("keyspace {keyspace}, from which tables are attached, cannot be reached at {address}: {cause}")
}

/// The same as an error; its cause says what to do, if it knows.
pub(crate) fn away(keyspace: &str, address: &str, cause: &Error) -> Error {
    let error = Error::new(cause.kind(), away_message(keyspace, address, cause.message()));
    match cause.hint() {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}

/// How a keyspace is reached.
#[derive(Debug)]
struct Link {
    address: String,
    /// Whether nobody has reached it by that address yet.
    is_new: bool,
    away: Option<Away>,
    late_looks: u32,
    /// What its tables were last looked at as.
    version: String,
}

#[derive(Debug, Default)]
struct Links {
    by_keyspace: BTreeMap<String, Link>,
    /// Whether a task reaches what is to be reached.
    is_reaching: bool,
    is_closed: bool,
}

/// The keyspaces of a store of which tables are attached.
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

    /// Nothing is reached any more.
    pub(crate) fn close(&self) {
        self.links().is_closed = true;
    }

    /// Why keyspaces cannot be read from, of those that cannot.
    pub(crate) fn away(&self) -> BTreeMap<String, Away> {
        let links = self.links();
        let away = links
            .by_keyspace
            .iter()
            .filter_map(|(keyspace, link)| Some((keyspace.clone(), link.away.clone()?)));
        away.collect()
    }

    /// How trying to reach a keyspace by an address ended. Nothing changes if it is reached by another by now.
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

    /// A keyspace is reached by that from now on.
    #[cfg_attr(not(feature = "cassandra"), allow(dead_code))]
    pub(crate) fn reached(&self, keyspace: &str, address: &str, store: Arc<dyn Store>) {
        self.links()
            .by_keyspace
            .insert(keyspace.to_owned(), Link::to(address));
        self.tried(keyspace, address, Ok(store));
    }

    /// A keyspace that was reached did not answer.
    pub(crate) fn lost(&self, keyspace: &str, error: &Error) {
        let mut links = self.links();
        if let Some(link) = links.by_keyspace.get_mut(keyspace) {
            link.away = Some(Away::new(&away(keyspace, &link.address, error)));
        }
    }

    /// Notes by which addresses keyspaces are reached; which of them nobody tried to reach yet.
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
                // What it was reached by serves it until it is reached by the other.
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

    /// What is to be reached; the task that asks is at its end if that is nothing.
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

    /// Whether something is to be reached and no task does it; the caller begins one.
    pub(crate) fn takes_task(&self) -> bool {
        let mut links = self.links();
        let is_wanted = links.by_keyspace.values().any(Link::is_wanted);
        let takes = is_wanted && !links.is_reaching && !links.is_closed;
        links.is_reaching |= takes;
        takes
    }

    /// As what tables of keyspaces are there now; none where none is attached. Those that do not answer are away.
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
