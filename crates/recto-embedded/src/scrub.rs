//! Reading the data file a little at a time, so that damage is found before somebody needs what it hides.
//!
//! Pages are read from the file and not from the engine, whose memory may hold them as they were. No
//! snapshot is held, which would keep the file from using space again. What a commit on disk leads to is written
//! over by none before the next is on disk; but its pages may come after what leads to them. So where a
//! page does not hold, the step is taken once more by the writer's thread, while nothing is committed.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use recto_store::{StoreError, StoreErrorKind};

use crate::catalog::{Catalog, StoredTable};
use crate::check::read_at;
use crate::error::{file, page_damage};
use crate::limits::MAX_PROBLEMS;
use crate::pages::{self, BRANCH, Child, Entries, HEADER_BYTES, Header};
use crate::state::blocking;
use crate::store::EmbeddedStore;
use crate::walk::verify;
use crate::work::Exclusive;

/// How deep a tree may be: no file that can be has a deeper one.
const MAX_DEPTH: usize = 128;

/// How far a scrub has come. The default is its beginning.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScrubPosition {
    /// The table it is in, as the engine names it; none at the beginning.
    table: Option<Vec<u8>>,
    /// The last key that was verified there.
    after: Vec<u8>,
}

/// What a step of a scrub read and found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScrubStep {
    /// Bytes of pages.
    pub bytes: u64,
    /// Rows, each of which was verified; and counts of partitions.
    pub rows: u64,
    /// Whether all of the file was read since the beginning.
    pub is_last: bool,
    /// What is damaged; at most [`MAX_PROBLEMS`].
    pub problems: Vec<String>,
}

impl EmbeddedStore {
    /// Reads the next `most_bytes` of the data file, or a page more, and verifies every page and every row in
    /// it. Returns where to go on; after the last step that is the beginning.
    ///
    /// What is written meanwhile is read as it was before or after. What the operating system has in
    /// memory is read from there. Relaxed writes are looked at once they are on disk.
    ///
    /// # Errors
    /// `Storage`: the file system refused. Damage is no error but in the step. `Invalid`: the store has no
    /// file.
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
            // The caller may have given up.
            let _ = sender.send(found);
            Ok(())
        });
        self.ask_exclusive(work).await?;
        let found = receiver.await.ok().flatten();
        found.ok_or_else(|| StoreError::new(StoreErrorKind::Other, "the scrub ended without a report"))
    }

    /// What readers and writers of the store met that was damaged since it was opened, at most
    /// [`MAX_PROBLEMS`]. What was written anew is damaged no more.
    pub fn damage_met(&self) -> Vec<String> {
        self.shared.met.all().into_iter().map(page_damage).collect()
    }
}

/// A step; none if something does not hold, and it is not known that nothing is committed meanwhile.
fn step(
    path: &Path,
    catalog: &Catalog,
    from: ScrubPosition,
    most_bytes: u64,
    alone: bool,
) -> Result<Option<(ScrubPosition, ScrubStep)>, StoreError> {
    let data = File::open(path).map_err(|error| file("opening the data file", error))?;
    let mut bytes = [0; HEADER_BYTES];
    read_at(&data, 0, &mut bytes).map_err(|error| file("reading the data file", error))?;
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

/// A page does not hold, which a commit that is under way may be the cause of.
struct Suspected;

/// Whether there is room for more in a step.
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
    /// Whether nothing is committed meanwhile.
    alone: bool,
    found: ScrubStep,
}

impl Scrub<'_> {
    fn run(&mut self) -> Result<(), Suspected> {
        let mut tables = Vec::new();
        let is_beginning = self.position.table.is_none();
        for root in self.header.roots.clone() {
            // The engine's own tables are small: they are read whole, at the beginning.
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

    /// The tables that a tree of them names.
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

    /// Reads the pages of a tree that hold keys beyond `after`, which becomes the last one read.
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
            // A page's upper key may lie beyond its last one, so the page before is looked at again.
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

    /// A page's bytes; none if it is damaged, which is noted.
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
