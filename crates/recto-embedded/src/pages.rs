//! Layout of the engine's pages in its file, as far as their verification needs it. This is the roots of the
//! trees, the children of a page, and the checksum of each page, which its parent stores.
//!
//! The engine writes these checksums, and trusts its pages without verifying them. It verifies them only when it opens
//! a file after a crash, and in a check. `docs/format.md` describes the layout, which is the third version of the
//! engine's format.

use xxhash_rust::xxh3::xxh3_128;

/// Size of a unit of the engine's file, in bytes. A page has 2^n units, where n is its order.
pub(crate) const PAGE_BYTES: u64 = 4_096;
/// Size of the start of the file, which contains the roots of the trees, in bytes.
pub(crate) const HEADER_BYTES: usize = 320;
/// First byte of a page that contains entries.
pub(crate) const LEAF: u8 = 1;
/// First byte of a page that refers to other pages.
pub(crate) const BRANCH: u8 = 2;
/// Order of the largest page, which has 2^20 units of [`PAGE_BYTES`].
const MAX_ORDER: u8 = 20;

const MAGIC: &[u8] = b"redb\x1A\x0A\xA9\x0D\x0A";
const FLAGS: usize = 9;
const SECOND_IS_CURRENT: u8 = 1;
const SLOTS: [usize; 2] = [64, 192];
const SLOT_BYTES: usize = 128;
const CHECKSUM_BYTES: usize = 16;
const NUMBER_BYTES: usize = 8;
/// Size of the stored root of a tree, in bytes: page number, checksum, number of entries.
const ROOT_BYTES: usize = 32;
/// Value that the engine stores instead of a checksum that it has not computed yet.
const DEFERRED: u128 = 999;
/// Byte that marks a table as a normal table, and not a multimap.
const NORMAL_TABLE: u8 = 3;

/// Layout of a tree's pages, and the kind of its entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Layout {
    key_bytes: Option<usize>,
    value_bytes: Option<usize>,
    pub(crate) entries: Entries,
}

/// Kind of the entries of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Entries {
    /// Names of Recto's tables, and their roots.
    Tables,
    /// Entries of one of Recto's tables. Each value has its own checksum.
    Rows,
    /// Names of the engine's own tables, and their roots.
    SystemTables,
    /// Entries of one of the engine's own tables.
    System,
}

const TABLES: Layout = Layout {
    key_bytes: None,
    value_bytes: None,
    entries: Entries::Tables,
};
const SYSTEM_TABLES: Layout = Layout {
    entries: Entries::SystemTables,
    ..TABLES
};

/// Page to which another page refers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Child {
    /// Offset of the page in the file.
    pub(crate) offset: u64,
    pub(crate) bytes: usize,
    /// Checksum of the page. `None` while a commit is in progress and the engine has not computed the
    /// checksum yet.
    pub(crate) checksum: Option<u128>,
    pub(crate) layout: Layout,
}

/// Parameters that turn page numbers into offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry {
    region_header_bytes: u64,
    region_bytes: u64,
}

impl Geometry {
    fn child(self, number: u64, checksum: u128, layout: Layout) -> Option<Child> {
        let order = (number >> 59) as u8;
        if order > MAX_ORDER {
            return None;
        }
        let index = number & (0xF_FFFF >> order);
        let region = (number >> 20) & 0xF_FFFF;
        let bytes = PAGE_BYTES << order;
        let in_region = self.region_header_bytes + index * bytes;
        Some(Child {
            offset: PAGE_BYTES + region * self.region_bytes + in_region,
            bytes: usize::try_from(bytes).ok()?,
            checksum: (checksum != DEFERRED).then_some(checksum),
            layout,
        })
    }
}

/// Decoded start of the file.
#[derive(Debug, Clone)]
pub(crate) struct Header {
    pub(crate) geometry: Geometry,
    /// Root pages of the two trees: the tree of Recto's tables, and the tree of the engine's tables.
    pub(crate) roots: Vec<Child>,
}

impl Header {
    /// Decodes the first bytes of a file; `None` if they are damaged, or written only in part.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..HEADER_BYTES)?;
        if !bytes.starts_with(MAGIC) || u64::from(u32_at(bytes, 12)?) != PAGE_BYTES {
            return None;
        }
        let region_header_bytes = u64::from(u32_at(bytes, 16)?) * PAGE_BYTES;
        let geometry = Geometry {
            region_header_bytes,
            region_bytes: region_header_bytes + u64::from(u32_at(bytes, 20)?) * PAGE_BYTES,
        };
        let current = usize::from(bytes[FLAGS] & SECOND_IS_CURRENT != 0);
        let slot = |index: usize| Slot::read(bytes.get(SLOTS[index]..SLOTS[index] + SLOT_BYTES)?);
        let slot = slot(current).or_else(|| slot(1 - current))?;
        let root = |root: Option<(u64, u128)>, layout| {
            root.and_then(|(number, checksum)| geometry.child(number, checksum, layout))
        };
        let roots = [root(slot.ours, TABLES), root(slot.system, SYSTEM_TABLES)];
        Some(Self {
            geometry,
            roots: roots.into_iter().flatten().collect(),
        })
    }
}

/// Roots of the two trees at one commit, as the start of the file stores them.
struct Slot {
    ours: Option<(u64, u128)>,
    system: Option<(u64, u128)>,
}

impl Slot {
    fn read(bytes: &[u8]) -> Option<Self> {
        let (content, checksum) = bytes.split_at_checked(SLOT_BYTES - CHECKSUM_BYTES)?;
        if xxh3_128(content).to_le_bytes() != checksum {
            return None;
        }
        let root = |is_there: usize, at: usize| -> Option<Option<(u64, u128)>> {
            if bytes[is_there] == 0 {
                return Some(None);
            }
            Some(Some((u64_at(bytes, at)?, u128_at(bytes, at + NUMBER_BYTES)?)))
        };
        Some(Self {
            ours: root(1, 8)?,
            system: root(2, 8 + ROOT_BYTES)?,
        })
    }
}

/// Returns the checksum of a page as its parent stores it. Returns `None` if the lengths in the page are not
/// possible.
pub(crate) fn checksum(page: &[u8], layout: Layout) -> Option<u128> {
    let end = match *page.first()? {
        LEAF => Leaf::of(page, layout)?.end()?,
        BRANCH => Branch::of(page, layout)?.end()?,
        _ => return None,
    };
    page.get(..end).map(xxh3_128)
}

/// Returns the pages to which a page refers, in order. A page of table names refers to the roots of the tables.
pub(crate) fn children(page: &[u8], layout: Layout, geometry: Geometry) -> Vec<Child> {
    match page.first() {
        Some(&BRANCH) => Branch::of(page, layout).map_or_else(Vec::new, |branch| branch.children(geometry)),
        Some(&LEAF) if matches!(layout.entries, Entries::Tables | Entries::SystemTables) => {
            let tables = entries(page, layout);
            tables
                .filter_map(|(_, definition)| table_root(definition, layout.entries, geometry))
                .collect()
        }
        _ => Vec::new(),
    }
}

/// Decodes the root page of a table from its entry in a page of table names. `None` if the table is empty, or
/// of an unknown kind.
pub(crate) fn table_root(definition: &[u8], entries: Entries, geometry: Geometry) -> Option<Child> {
    // Layout of a table definition: type, length, root, fixed width of keys, fixed width of values.
    if *definition.first()? != NORMAL_TABLE || *definition.get(9)? == 0 {
        return None;
    }
    let width = |at: usize| -> Option<Option<usize>> {
        if *definition.get(at)? == 0 {
            return Some(None);
        }
        Some(Some(u32_at(definition, at + 1)? as usize))
    };
    let layout = Layout {
        key_bytes: width(10 + ROOT_BYTES)?,
        value_bytes: width(15 + ROOT_BYTES)?,
        entries: match entries {
            Entries::Tables | Entries::Rows => Entries::Rows,
            Entries::SystemTables | Entries::System => Entries::System,
        },
    };
    let checksum = u128_at(definition, 10 + NUMBER_BYTES)?;
    geometry.child(u64_at(definition, 10)?, checksum, layout)
}

/// Returns the keys of a branch page: for each child except the last, a key that no key of the child exceeds.
pub(crate) fn upper_keys(page: &[u8], layout: Layout) -> Vec<&[u8]> {
    let Some(branch) = Branch::of(page, layout) else {
        return Vec::new();
    };
    (0..branch.keys).filter_map(|index| branch.key(index)).collect()
}

/// Returns the entries of a page, in order. Returns none if the page is not a leaf.
pub(crate) fn entries(page: &[u8], layout: Layout) -> impl Iterator<Item = (&[u8], &[u8])> {
    let leaf = (page.first() == Some(&LEAF))
        .then(|| Leaf::of(page, layout))
        .flatten();
    let count = leaf.as_ref().map_or(0, |leaf| leaf.pairs);
    (0..count).filter_map(move |index| leaf.as_ref()?.entry(index))
}

/// Page that contains entries. Its layout: number of entries, end positions of the keys and of the values
/// unless they have a fixed width, keys, values.
struct Leaf<'a> {
    page: &'a [u8],
    layout: Layout,
    pairs: usize,
}

const LEAF_LENGTHS: usize = 4;
const LENGTH_BYTES: usize = 4;

impl<'a> Leaf<'a> {
    fn of(page: &'a [u8], layout: Layout) -> Option<Self> {
        let pairs = usize::from(u16_at(page, 2)?);
        (pairs > 0).then_some(Self { page, layout, pairs })
    }

    fn keys_start(&self) -> usize {
        let varying =
            usize::from(self.layout.key_bytes.is_none()) + usize::from(self.layout.value_bytes.is_none());
        LEAF_LENGTHS + LENGTH_BYTES * self.pairs * varying
    }

    fn key_end(&self, index: usize) -> Option<usize> {
        match self.layout.key_bytes {
            Some(bytes) => self.keys_start().checked_add(bytes.checked_mul(index + 1)?),
            None => Some(u32_at(self.page, LEAF_LENGTHS + LENGTH_BYTES * index)? as usize),
        }
    }

    fn value_end(&self, index: usize) -> Option<usize> {
        if let Some(bytes) = self.layout.value_bytes {
            let values = self.key_end(self.pairs - 1)?;
            return values.checked_add(bytes.checked_mul(index + 1)?);
        }
        let before = if self.layout.key_bytes.is_none() {
            self.pairs
        } else {
            0
        };
        Some(u32_at(self.page, LEAF_LENGTHS + LENGTH_BYTES * (before + index))? as usize)
    }

    fn end(&self) -> Option<usize> {
        self.value_end(self.pairs - 1)
    }

    fn entry(&self, index: usize) -> Option<(&'a [u8], &'a [u8])> {
        let (key, value) = match index.checked_sub(1) {
            None => (self.keys_start(), self.key_end(self.pairs - 1)?),
            Some(before) => (self.key_end(before)?, self.value_end(before)?),
        };
        Some((
            self.page.get(key..self.key_end(index)?)?,
            self.page.get(value..self.value_end(index)?)?,
        ))
    }
}

/// Page that refers to other pages. Its layout: number of keys, checksums of the children, page numbers of
/// the children, end positions of the keys unless they have a fixed width, keys.
struct Branch<'a> {
    page: &'a [u8],
    layout: Layout,
    keys: usize,
}

const BRANCH_CHECKSUMS: usize = 8;

impl<'a> Branch<'a> {
    fn of(page: &'a [u8], layout: Layout) -> Option<Self> {
        let keys = usize::from(u16_at(page, 2)?);
        (keys > 0).then_some(Self { page, layout, keys })
    }

    fn numbers_start(&self) -> usize {
        BRANCH_CHECKSUMS + CHECKSUM_BYTES * (self.keys + 1)
    }

    fn lengths_start(&self) -> usize {
        self.numbers_start() + NUMBER_BYTES * (self.keys + 1)
    }

    fn keys_start(&self) -> usize {
        let varying = usize::from(self.layout.key_bytes.is_none());
        self.lengths_start() + LENGTH_BYTES * self.keys * varying
    }

    fn key_end(&self, index: usize) -> Option<usize> {
        match self.layout.key_bytes {
            Some(bytes) => self.keys_start().checked_add(bytes.checked_mul(index + 1)?),
            None => Some(u32_at(self.page, self.lengths_start() + LENGTH_BYTES * index)? as usize),
        }
    }

    fn end(&self) -> Option<usize> {
        self.key_end(self.keys - 1)
    }

    fn key(&self, index: usize) -> Option<&'a [u8]> {
        let start = match index.checked_sub(1) {
            None => self.keys_start(),
            Some(before) => self.key_end(before)?,
        };
        self.page.get(start..self.key_end(index)?)
    }

    fn children(&self, geometry: Geometry) -> Vec<Child> {
        let child = |index: usize| {
            let checksum = u128_at(self.page, BRANCH_CHECKSUMS + CHECKSUM_BYTES * index)?;
            let number = u64_at(self.page, self.numbers_start() + NUMBER_BYTES * index)?;
            geometry.child(number, checksum, self.layout)
        };
        (0..=self.keys).filter_map(child).collect()
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(u64::from_le_bytes)
}

fn u128_at(bytes: &[u8], at: usize) -> Option<u128> {
    array(bytes, at).map(u128::from_le_bytes)
}
