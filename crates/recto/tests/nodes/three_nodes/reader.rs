//! Readers that read pages while nodes fail, and compare each page with the states that it may
//! show.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering as Atomic};
use std::time::{Duration, Instant};

use futures::TryStreamExt;
use recto::session::{Pages, ScanRequest};
use recto::{DynamicRecord, Error, ErrorKind, LocalSession, Page};

use super::data::{COLLECTIONS, SHAPES, Shape, Tables, may_be, read_record};
use super::history::{History, Key, Span, State};
use recto_testkit::generate::Rng;

/// Pause of a reader after an error, and between two scans.
const PAUSE: Duration = Duration::from_millis(50);
/// Maximum time that a page may take beyond its timeout.
const GRACE: Duration = Duration::from_secs(2);
/// Default timeout of a page.
pub(crate) const PAGE_TIME: Duration = Duration::from_secs(5);

/// Counts of the pages, scans and errors of all readers.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) pages: AtomicUsize,
    pub(crate) scans: AtomicUsize,
    pub(crate) unavailable: AtomicUsize,
    pub(crate) timeouts: AtomicUsize,
}

impl Tally {
    /// Counts an error. Panics if the kind of the error is unexpected, or if the error has no hint.
    pub(crate) fn note(&self, error: &Error, what: &str) {
        match error.kind() {
            ErrorKind::Unavailable => self.unavailable.fetch_add(1, Atomic::Relaxed),
            ErrorKind::Timeout => self.timeouts.fetch_add(1, Atomic::Relaxed),
            _ => panic!("{what}: {error:?}"),
        };
        assert!(error.hint().is_some(), "{what}, no hint: {error:?}");
    }
}

/// Position of a page in the result of a query.
#[derive(Debug, Clone)]
enum Place {
    First,
    Last,
    /// After the record with this key. The text is the record's cursor.
    After(Key, String),
    Before(Key, String),
}

#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    pub(crate) tables: &'a Tables,
    pub(crate) history: &'a History,
    pub(crate) tally: &'a Tally,
}

impl Reader<'_> {
    /// Reads pages of random queries until `stop` is set. The reader reads forwards and backwards,
    /// and changes direction within a query. After an error, it requests the same page again.
    pub(crate) async fn page_until(&self, stop: &AtomicBool, mut random: Rng) {
        while !stop.load(Atomic::Relaxed) {
            let shape = &SHAPES[random.usize(..SHAPES.len())];
            let mut place = if random.bool() { Place::First } else { Place::Last };
            while !stop.load(Atomic::Relaxed) {
                let size = random.u32(1..=20);
                let Some(page) = self.page(shape, &place, size).await else {
                    tokio::time::sleep(PAUSE).await;
                    continue;
                };
                let turn = random.u8(..8) == 0;
                match beyond(shape, &place, &page, turn) {
                    Some(next) => place = next,
                    None => break,
                }
            }
        }
    }

    /// Reads all pages of a query in one direction, with `size` rows each. Repeats failed pages, so
    /// it does not end while a quorum of nodes is down.
    pub(crate) async fn traverse(&self, shape: &Shape, backward: bool, size: u32) {
        let mut place = if backward { Place::Last } else { Place::First };
        loop {
            let Some(page) = self.page(shape, &place, size).await else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            match beyond(shape, &place, &page, false) {
                Some(next) => place = next,
                None => return,
            }
        }
    }

    /// Reads and checks one page. Counts an error and returns `None` if the read fails.
    async fn page(&self, shape: &Shape, place: &Place, size: u32) -> Option<Page<DynamicRecord>> {
        let query = shape.query(self.tables);
        let query = match place {
            Place::First => query.first(size),
            Place::Last => query.last(size),
            Place::After(_, cursor) => query.first(size).after(cursor.clone()),
            Place::Before(_, cursor) => query.last(size).before(cursor.clone()),
        };
        let begin = self.history.now();
        let clock = Instant::now();
        let read = query.await;
        let end = self.history.now();
        assert!(clock.elapsed() < PAGE_TIME + GRACE, "a page outlived its time");
        match read {
            Ok(page) => {
                self.tally.pages.fetch_add(1, Atomic::Relaxed);
                let checked = self.check(shape, place, size, &page, Span { begin, end });
                checked.unwrap_or_else(|wrong| panic!("{}, {place:?}, size {size}: {wrong}", shape.name));
                Some(page)
            }
            Err(error) => {
                println!(
                    "{}, after {:.1?}: {:?}: {error}",
                    shape.name,
                    clock.elapsed(),
                    error.kind()
                );
                self.tally.note(&error, shape.name);
                None
            }
        }
    }

    /// Checks that the records of a page have allowed states, are sorted, and are complete. Returns
    /// a description of the first violation as the error. `span` is the period of the read.
    fn check(
        &self,
        shape: &Shape,
        place: &Place,
        size: u32,
        page: &Page<DynamicRecord>,
        span: Span,
    ) -> Result<(), String> {
        let allowed = self.history.allowed(span);
        let mut found = BTreeMap::new();
        let mut last: Option<Key> = None;
        for record in page.items() {
            let (key, version) = read_record(shape.collection, record)?;
            if !shape.has(key) || !is_beyond(shape, place, key) {
                return Err(format!("{key:?} does not belong there"));
            }
            if last.is_some_and(|last| shape.compare(last, key) != Ordering::Less) {
                return Err(format!("{key:?} after {last:?}"));
            }
            if !may_be(allowed.get(&key), Some(version)) {
                return Err(format!("{key:?} is {version}, may be {:?}", allowed.get(&key)));
            }
            last = Some(key);
            found.insert(key, version);
        }
        let backward = matches!(place, Place::Last | Place::Before(..));
        let more = if backward {
            page.has_previous()
        } else {
            page.has_next()
        };
        let keys: Vec<Key> = page_keys(shape, page);
        let limit = if backward { keys.first() } else { keys.last() };
        let covered = |key: &Key| match (more, limit) {
            (Some(false), _) => true,
            (_, None) => false,
            (_, Some(limit)) => shape.compare(*key, *limit).is_le() != backward || key == limit,
        };
        let missing = allowed.iter().find(|(key, states)| {
            shape.has(**key)
                && is_beyond(shape, place, **key)
                && covered(key)
                && !found.contains_key(*key)
                && !states.contains(&None)
        });
        if let Some((key, states)) = missing {
            return Err(format!(
                "{key:?} is missing, must be one of {states:?}; {more:?} beyond {limit:?}"
            ));
        }
        if keys.len() > size as usize
            || (keys.len() < size as usize && more != Some(false) && page.stop().is_none())
        {
            return Err(format!("{} rows, {more:?} beyond", keys.len()));
        }
        let could_follow = allowed.iter().any(|(key, states)| {
            shape.has(*key)
                && is_beyond(shape, place, *key)
                && !covered(key)
                && states.iter().any(Option::is_some)
        });
        if more == Some(true) && !could_follow {
            return Err(format!("nothing can be beyond {limit:?}, and more is promised"));
        }
        Ok(())
    }

    /// Scans all collections repeatedly until `stop` is set. A failed scan continues at its last
    /// token.
    pub(crate) async fn scan_until(&self, stop: &AtomicBool) {
        while !stop.load(Atomic::Relaxed) {
            for collection in 0..COLLECTIONS.len() {
                self.scan(collection).await;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Reads a whole collection by a scan. Asserts that the scan returns each row that must exist
    /// once, and no row that must not exist.
    pub(crate) async fn scan(&self, collection: usize) {
        let session = LocalSession::new(self.tables.recto.clone());
        let mut found: BTreeMap<Key, i64> = BTreeMap::new();
        let mut twice: BTreeSet<Key> = BTreeSet::new();
        let mut request = ScanRequest::default();
        let begin = self.history.now();
        loop {
            let mut steps = session.scan(COLLECTIONS[collection], &request);
            let error = loop {
                match steps.try_next().await {
                    Ok(Some(step)) => {
                        for json in &step.records {
                            let definition = self.tables.collections[collection].definition();
                            let record = DynamicRecord::from_json(definition, json).unwrap();
                            let (key, version) = read_record(collection, &record).unwrap();
                            if found.insert(key, version).is_some() {
                                twice.insert(key);
                            }
                        }
                        match step.resume {
                            Some(resume) => request.resume_token = Some(resume),
                            None => break None,
                        }
                    }
                    Ok(None) => break None,
                    Err(error) => break Some(error),
                }
            };
            let Some(error) = error else { break };
            println!("scan: {:?}: {error}", error.kind());
            self.tally.note(&error, "scan");
            tokio::time::sleep(PAUSE).await;
        }
        let end = self.history.now();
        self.tally.scans.fetch_add(1, Atomic::Relaxed);
        assert!(twice.is_empty(), "a scan returned rows twice: {twice:?}");
        self.assert_all(collection, &found, Span { begin, end });
    }

    /// Asserts that a scan found an allowed state of every key of a collection. `span` is the
    /// period of the scan.
    fn assert_all(&self, collection: usize, found: &BTreeMap<Key, i64>, span: Span) {
        let allowed = self.history.allowed(span);
        for (key, version) in found {
            assert!(
                may_be(allowed.get(key), Some(*version)),
                "{key:?} is {version}, may be {:?}",
                allowed.get(key)
            );
        }
        for (key, states) in allowed.iter().filter(|(key, _)| key.collection == collection) {
            let state: State = found.get(key).copied();
            assert!(states.contains(&state), "{key:?} is {state:?}, may be {states:?}");
        }
    }
}

fn page_keys(shape: &Shape, page: &Page<DynamicRecord>) -> Vec<Key> {
    page.items()
        .iter()
        .filter_map(|record| Some(read_record(shape.collection, record).ok()?.0))
        .collect()
}

fn is_beyond(shape: &Shape, place: &Place, key: Key) -> bool {
    match place {
        Place::First | Place::Last => true,
        Place::After(from, _) => shape.compare(key, *from).is_gt(),
        Place::Before(from, _) => shape.compare(key, *from).is_lt(),
    }
}

/// Returns the position of the page that follows this page in the same direction, or in the
/// opposite direction if `turn` is true. Returns `None` if there is no such page, or if this page
/// is empty.
fn beyond(shape: &Shape, place: &Place, page: &Page<DynamicRecord>, turn: bool) -> Option<Place> {
    let keys = page_keys(shape, page);
    let (first, last) = (*keys.first()?, *keys.last()?);
    let backward = matches!(place, Place::Last | Place::Before(..));
    if backward == turn {
        let cursor = page.next_cursor()?;
        Some(Place::After(last, cursor.into()))
    } else {
        let cursor = page.previous_cursor()?;
        Some(Place::Before(first, cursor.into()))
    }
}
