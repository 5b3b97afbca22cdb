//! Scrub: reads the data file in small steps, so that damage is found before a user needs the damaged data.
//!
//! The scrub reads pages from the file, and not through the engine, whose memory may contain the same pages
//! without the damage. It holds no snapshot, because a snapshot would keep the file from using space again.
//! Pages of a commit on disk are not overwritten before the next commit is on disk. However, the file may
//! contain a reference to a new page before it contains the page. If a page is not valid, the writer's thread
//! therefore repeats the step, while nothing is committed.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use recto_store::{StoreError, StoreErrorKind};

use crate::catalog::{Catalog, StoredTable};
use crate::error::{file, page_damage};
use crate::files::read_at;
use crate::limits::MAX_PROBLEMS;
use crate::pages::{self, BRANCH, Child, Entries, HEADER_BYTES, Header};
use crate::state::blocking;
use crate::store::EmbeddedStore;
use crate::walk::verify;
use crate::work::Exclusive;

/// Maximum depth of a tree of pages. A deeper tree cannot be valid, so the scrub reports damage.
const MAX_DEPTH: usize = 128;

/// Position of a scrub in the data file. The default is the start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScrubPosition {
    /// Name of the current table in the engine; `None` at the start.
    table: Option<Vec<u8>>,
    /// Last verified key of the table in `table`. Empty: no key was verified yet.
    after: Vec<u8>,
}

/// Result of a step of a scrub (a check of the data file in small steps).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScrubStep {
    /// Number of bytes of the pages that the step has read.
    pub bytes: u64,
    /// Number of verified entries: rows, and row counts by key range.
    pub rows: u64,
    /// True if the scrub has read the whole file since its start.
    pub is_last: bool,
    /// Descriptions of damage; at most [`MAX_PROBLEMS`].
    pub problems: Vec<String>,
}

impl EmbeddedStore {
    /// Reads the next `most_bytes` of the data file, and up to a page more. Verifies every page and every row
    /// that it reads. Returns the position from which the next step continues. After the last step, the
    /// position is the start of the file.
    ///
    /// Data that is written during the step is read in its old or its new state. Pages that the operating
    /// system caches are read from its cache, not from the disk. Relaxed writes are read only after they are
    /// on disk.
    ///
    /// # Errors
    /// `Storage`: the file system failed. `Invalid`: the store has no file. Damage is not an error; it is in the step.
    pub async fn scrub_step(
        &self,
        from: ScrubPosition,
        most_bytes: u64,
    ) -> Result<(ScrubPosition, ScrubStep), StoreError> {
        let path = self
            .shared
            .data_file()
            .ok_or_else(|| StoreError::new(StoreErrorKind::Invalid, "the store has no file to scrub"))?;
        let catalog = self.shared.catalog();
        let alone = self.shared.options.read_only;
        let (here, begin) = (path.clone(), from.clone());
        let found = blocking(move || step(&here, &catalog, begin, most_bytes, alone)).await?;
        if let Some(found) = found {
            return Ok(found);
        }
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let work: Exclusive = Box::new(move |shared| {
            let found = step(&path, &shared.catalog(), from, most_bytes, true)?;
            // Ignore a send error, because the caller may have given up.
            let _ = sender.send(found);
            Ok(())
        });
        self.ask_exclusive(work).await?;
        let found = receiver.await.ok().flatten();
        found.ok_or_else(|| StoreError::new(StoreErrorKind::Other, "the scrub ended without a report"))
    }

    /// Returns descriptions of the damage that readers and writers of the store have found since it was
    /// opened; at most [`MAX_PROBLEMS`]. A damaged page is left out after it was written again.
    pub fn damage_met(&self) -> Vec<String> {
        self.shared.met.all().into_iter().map(page_damage).collect()
    }
}

/// Executes a step of a scrub. If `alone` is true, nothing is committed during the step. Returns `None` if a
/// page or a row is not valid but a concurrent commit may be the reason.
fn step(
    path: &Path,
    catalog: &Catalog,
    from: ScrubPosition,
    most_bytes: u64,
    alone: bool,
) -> Result<Option<(ScrubPosition, ScrubStep)>, StoreError> {
    let data = File::open(path).map_err(|error| file("cannot open the data file", error))?;
    let mut bytes = [0; HEADER_BYTES];
    read_at(&data, 0, &mut bytes).map_err(|error| file("cannot read the data file", error))?;
    let Some(header) = Header::read(&bytes) else {
        let found = ScrubStep {
            is_last: true,
            problems: vec!["the beginning of the data file is damaged".to_owned()],
            ..ScrubStep::default()
        };
        return Ok(alone.then_some((ScrubPosition::default(), found)));
    };
    let mut scrub = Scrub {
        data,
        header,
        catalog,
        position: from,
        most_bytes,
        alone,
        found: ScrubStep::default(),
    };
    match scrub.run() {
        Ok(()) => Ok(Some((scrub.position, scrub.found))),
        Err(Suspected) => Ok(None),
    }
}

/// Signal that a page or a row is not valid, but that a concurrent commit may be the reason.
struct Suspected;

/// Whether a step of a scrub may read more bytes before it reaches its limit.
#[derive(PartialEq)]
enum Room {
    Left,
    Full,
}

struct Scrub<'a> {
    data: File,
    header: Header,
    catalog: &'a Catalog,
    position: ScrubPosition,
    most_bytes: u64,
    /// True if nothing is committed during the step.
    alone: bool,
    found: ScrubStep,
}

impl Scrub<'_> {
    fn run(&mut self) -> Result<(), Suspected> {
        let mut tables = Vec::new();
        let is_beginning = self.position.table.is_none();
        for root in self.header.roots.clone() {
            // Read the engine's own tables completely at the start of the scrub, because they are
            // small.
            if root.layout.entries == Entries::Tables {
                self.tables(&root, &mut tables, 0)?;
            } else if is_beginning {
                let mut own = Vec::new();
                self.tables(&root, &mut own, 0)?;
                for (_, child) in own {
                    self.tree(&child, None, &mut Vec::new(), u64::MAX, 0)?;
                }
            }
        }
        tables.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let begin = self.position.table.clone().unwrap_or_default();
        for (name, root) in tables {
            if name < begin {
                continue;
            }
            let stored = self.catalog.of_engine(&name).cloned();
            let is_begun = self.position.table.as_ref() == Some(&name);
            let mut after = if is_begun {
                std::mem::take(&mut self.position.after)
            } else {
                Vec::new()
            };
            self.position.table = Some(name);
            let room = self.tree(&root, stored.as_ref(), &mut after, self.most_bytes, 0)?;
            if room == Room::Full {
                self.position.after = after;
                return Ok(());
            }
        }
        self.position = ScrubPosition::default();
        self.found.is_last = true;
        Ok(())
    }

    /// Adds the name and the root page of each table in a tree of table names to `tables`.
    fn tables(
        &mut self,
        page: &Child,
        tables: &mut Vec<(Vec<u8>, Child)>,
        depth: usize,
    ) -> Result<(), Suspected> {
        let Some(bytes) = self.page(page, depth)? else {
            return Ok(());
        };
        let geometry = self.header.geometry;
        if bytes.first() == Some(&BRANCH) {
            for child in pages::children(&bytes, page.layout, geometry) {
                self.tables(&child, tables, depth + 1)?;
            }
            return Ok(());
        }
        for (name, definition) in pages::entries(&bytes, page.layout) {
            if let Some(root) = pages::table_root(definition, page.layout.entries, geometry) {
                tables.push((name.to_vec(), root));
            }
        }
        Ok(())
    }

    /// Reads the pages of a tree that contain keys greater than `after`. Sets `after` to the last key that was read.
    fn tree(
        &mut self,
        page: &Child,
        table: Option<&Arc<StoredTable>>,
        after: &mut Vec<u8>,
        most_bytes: u64,
        depth: usize,
    ) -> Result<Room, Suspected> {
        let Some(bytes) = self.page(page, depth)? else {
            return Ok(Room::Left);
        };
        if bytes.first() == Some(&BRANCH) {
            let upper = pages::upper_keys(&bytes, page.layout);
            let children = pages::children(&bytes, page.layout, self.header.geometry);
            for (index, child) in children.iter().enumerate() {
                let is_read = upper
                    .get(index)
                    .is_some_and(|upper| !after.is_empty() && *upper <= after.as_slice());
                if !is_read && self.tree(child, table, after, most_bytes, depth + 1)? == Room::Full {
                    return Ok(Room::Full);
                }
            }
            return Ok(Room::Left);
        }
        let is_rows = page.layout.entries == Entries::Rows;
        let mut has_read = !is_rows;
        for (key, value) in pages::entries(&bytes, page.layout) {
            // The upper key of a page may be greater than its last key, so a step may read the
            // previous page again. Skip the rows that the previous step verified.
            if is_rows && !after.is_empty() && key <= after.as_slice() {
                continue;
            }
            has_read = true;
            if let Some(table) = table {
                self.found.rows += 1;
                if let Err(error) = verify(table, key, value) {
                    if !self.alone {
                        return Err(Suspected);
                    }
                    self.problem(error.to_string());
                }
            }
            if is_rows {
                after.clear();
                after.extend_from_slice(key);
            }
        }
        Ok(if has_read && self.found.bytes >= most_bytes {
            Room::Full
        } else {
            Room::Left
        })
    }

    fn problem(&mut self, what: String) {
        if self.found.problems.len() < MAX_PROBLEMS {
            self.found.problems.push(what);
        }
    }

    /// Returns the bytes of a page; `None` if the page is damaged, which is recorded as a problem.
    fn page(&mut self, page: &Child, depth: usize) -> Result<Option<Vec<u8>>, Suspected> {
        let mut bytes = vec![0; page.bytes];
        self.found.bytes += bytes.len() as u64;
        let is_read = depth < MAX_DEPTH && read_at(&self.data, page.offset, &mut bytes).is_ok();
        let holds = is_read
            && page
                .checksum
                .is_none_or(|checksum| pages::checksum(&bytes, page.layout) == Some(checksum));
        if holds {
            return Ok(Some(bytes));
        }
        if !self.alone {
            return Err(Suspected);
        }
        self.problem(page_damage(page.offset));
        Ok(None)
    }
}
