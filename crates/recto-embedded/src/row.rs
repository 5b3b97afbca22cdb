//! Stored rows: the bytes that are stored under one key. `docs/format.md` describes them, and the tests have golden
//! files.
//!
//! A stored row is a header, the lengths of its cells, the states of its cells if they are needed, the cells,
//! and a checksum. Each length has one byte, or four bytes if a cell is longer than 254 bytes. The position
//! of a cell is the sum of the lengths before it, and one `memcpy` copies all cells of a row.

use recto_model::RowSet;

/// Version of the format of stored rows.
pub const ROW_FORMAT_VERSION: u8 = 1;

/// Flag of a stored row: the row marker and the cells expire. The header contains their expiry, after the
/// timestamp.
const EXPIRES: u8 = 0x01;
/// Flag of a stored row: the row has no marker, so it exists only as long as one of its cells has a value.
const NO_MARKER: u8 = 0x02;
/// Flag of a stored row: cells that are null were never written. Without the flag, these cells were deleted
/// at the row's timestamp.
const UNWRITTEN: u8 = 0x04;
/// Flag of a stored row: each cell has a byte with its state, because its timestamp or expiry may differ from
/// the header.
const STATES: u8 = 0x08;
/// Flag of a stored row: each cell length has four bytes, because a cell is longer than 254 bytes.
const WIDE: u8 = 0x10;
const KNOWN_FLAGS: u8 = EXPIRES | NO_MARKER | UNWRITTEN | STATES | WIDE;

/// Bit of a cell's state: the cell has its own timestamp.
const OWN_STAMP: u8 = 0x01;
/// Bit of a cell's state: the cell has its own expiry.
const OWN_EXPIRY: u8 = 0x02;
/// Bit of a cell's state: the cell was never written.
const NEVER_WRITTEN: u8 = 0x04;

const HEADER_BYTES: usize = 12;
const CHECKSUM_BYTES: usize = 4;
const NARROW_NULL: u8 = 0xFF;
const WIDE_NULL: u32 = u32::MAX;

/// Write timestamp that stands for data that was never written. Any real timestamp is newer.
pub(crate) const NEVER: i64 = i64::MIN;

/// Reason why bytes are not a stored row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Damage {
    /// The checksum is wrong.
    Checksum,
    /// The version is unknown to this release.
    Version(u8),
    /// The checksum is valid, but the bytes do not have the layout of a row.
    Layout,
}

/// Write timestamp and expiry of a cell or of a row marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Life {
    /// Write timestamp in microseconds; [`NEVER`] if there was no write.
    pub(crate) stamp: i64,
    /// Expiry in seconds since 1970; 0 if the data does not expire.
    pub(crate) expiry: u32,
}

impl Life {
    pub(crate) const NONE: Self = Self {
        stamp: NEVER,
        expiry: 0,
    };

    /// Timestamp and expiry that a read returns for a row whose cells are all null.
    pub(crate) const NO_VALUE: Self = Self { stamp: 0, expiry: 0 };

    fn ended(self, now_seconds: u32) -> bool {
        self.expiry != 0 && self.expiry <= now_seconds
    }

    /// Returns the sort key that decides between two writes. The newer timestamp wins, then data that
    /// expires, then the later expiry. Cassandra has the same rule (`Cells.reconcile`,
    /// `LivenessInfo.supersedes`).
    fn rank(self) -> (i64, bool, u32) {
        (self.stamp, self.expiry != 0, self.expiry)
    }
}

/// Cell of a decoded row: its value, and the timestamp and expiry of its last write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cell<'a> {
    pub(crate) life: Life,
    pub(crate) value: Option<&'a [u8]>,
}

impl Cell<'_> {
    pub(crate) const UNWRITTEN: Self = Self {
        life: Life::NONE,
        value: None,
    };
}

/// Decoded row, for merging and partial deletion. Reads of ordinary rows do not decode them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row<'a> {
    /// Timestamp and expiry of the row marker. [`Life::NONE`] if the row exists only because of its cells.
    pub(crate) marker: Life,
    pub(crate) cells: Vec<Cell<'a>>,
}

impl<'a> Row<'a> {
    /// Merges another write of the row into this row, cell by cell. The newer write of a cell wins. At equal
    /// timestamps, a deletion wins, then a cell that expires, then the later expiry, then the larger value.
    pub(crate) fn merge(&mut self, other: &Row<'a>) {
        if other.marker.rank() > self.marker.rank() {
            self.marker = other.marker;
        }
        if self.cells.len() < other.cells.len() {
            self.cells.resize(other.cells.len(), Cell::UNWRITTEN);
        }
        for (mine, theirs) in self.cells.iter_mut().zip(&other.cells) {
            let rank = |cell: &Cell<'_>| {
                let (stamp, ends, expiry) = cell.life.rank();
                (stamp, cell.value.is_none(), ends, expiry)
            };
            if (rank(theirs), theirs.value) > (rank(mine), mine.value) {
                *mine = *theirs;
            }
        }
    }

    /// Removes the data that has expired by `now_seconds`. An expired cell becomes a cell that was deleted at
    /// its timestamp.
    pub(crate) fn end(&mut self, now_seconds: u32) {
        if self.marker.ended(now_seconds) {
            self.marker = Life::NONE;
        }
        for cell in &mut self.cells {
            if cell.life.ended(now_seconds) {
                cell.value = None;
                cell.life.expiry = 0;
            }
        }
    }

    /// Returns whether the values of this row are equal to those of `other`, in the columns that this row
    /// has.
    pub(crate) fn has_values_of(&self, other: &Self) -> bool {
        let value = |row: &Row<'a>, column: usize| row.cells.get(column).and_then(|cell| cell.value);
        (0..self.cells.len()).all(|column| value(self, column) == value(other, column))
    }

    /// Extends the lifetime of the row to `expiry`, unless the row expires later or never. Returns whether
    /// this changed the row.
    pub(crate) fn prolong(&mut self, expiry: u32) -> bool {
        let mut changed = false;
        let cells = self.cells.iter_mut().filter(|cell| cell.value.is_some());
        for life in cells.map(|cell| &mut cell.life).chain([&mut self.marker]) {
            if life.expiry != 0 && (expiry == 0 || life.expiry < expiry) {
                life.expiry = expiry;
                changed = true;
            }
        }
        changed
    }

    /// Removes the marker and the cells that were written at the timestamp `stamp` or before.
    pub(crate) fn delete(&mut self, stamp: i64) {
        if self.marker.stamp <= stamp {
            self.marker = Life::NONE;
        }
        for cell in &mut self.cells {
            if cell.life.stamp <= stamp {
                *cell = Cell::UNWRITTEN;
            }
        }
    }

    /// Returns whether the row exists, by its marker or because a cell has a value.
    pub(crate) fn exists(&self) -> bool {
        self.marker.stamp != NEVER || self.cells.iter().any(|cell| cell.value.is_some())
    }

    /// Returns the newest write timestamp of the marker and the cells; [`NEVER`] if nothing was written.
    pub(crate) fn newest(&self) -> i64 {
        self.cells
            .iter()
            .map(|cell| cell.life.stamp)
            .fold(self.marker.stamp, i64::max)
    }

    /// Sets the timestamps of the marker and of all written cells to `stamp`.
    pub(crate) fn restamp(&mut self, stamp: i64) {
        let cells = self.cells.iter_mut().map(|cell| &mut cell.life);
        for life in cells.chain([&mut self.marker]) {
            if life.stamp != NEVER {
                life.stamp = stamp;
            }
        }
    }

    /// Returns the time at which the marker and all values have expired, in seconds since 1970; 0 if the row
    /// does not expire.
    fn expiry(&self) -> u32 {
        let values = self.cells.iter().filter(|cell| cell.value.is_some());
        let lives = values.map(|cell| cell.life).chain([self.marker]);
        let expiries = lives.filter(|life| life.stamp != NEVER).map(|life| life.expiry);
        expiries.reduce(later_expiry).unwrap_or(0)
    }

    /// Returns the newest timestamp of the cells that are not null, and the time when the last of them
    /// expires. Returns [`Life::NO_VALUE`] if all cells are null.
    fn values_life(&self) -> Life {
        let lives = self.cells.iter().filter(|cell| cell.value.is_some());
        lives
            .map(|cell| cell.life)
            .reduce(|one, other| Life {
                stamp: one.stamp.max(other.stamp),
                expiry: later_expiry(one.expiry, other.expiry),
            })
            .unwrap_or(Life::NO_VALUE)
    }

    /// Appends the stored form of the row. `key_checksum` is the checksum of its key.
    pub(crate) fn encode(&self, key_checksum: u32, out: &mut Vec<u8>) {
        let begin = out.len();
        let base = self.base();
        let plain = |cell: &Cell<'_>| cell.life == base;
        let (mut states, mut unwritten) = (false, false);
        if !self.cells.iter().all(plain) {
            unwritten = self.cells.iter().all(|cell| match cell.value {
                Some(_) => plain(cell),
                None => cell.life == Life::NONE,
            });
            states = !unwritten;
        }
        let wide = self.cells.iter().any(|cell| {
            cell.value
                .is_some_and(|value| value.len() >= usize::from(NARROW_NULL))
        });
        let flag = |holds: bool, flag: u8| if holds { flag } else { 0 };
        out.push(ROW_FORMAT_VERSION);
        out.push(
            flag(base.expiry != 0, EXPIRES)
                | flag(self.marker.stamp == NEVER, NO_MARKER)
                | flag(unwritten, UNWRITTEN)
                | flag(states, STATES)
                | flag(wide, WIDE),
        );
        let count = u16::try_from(self.cells.len()).expect("a column is numbered by 16 bits");
        out.extend_from_slice(&count.to_le_bytes());
        out.extend_from_slice(&base.stamp.to_le_bytes());
        if base.expiry != 0 {
            out.extend_from_slice(&base.expiry.to_le_bytes());
        }
        self.encode_lengths(wide, out);
        if states {
            self.encode_states(base, out);
        }
        for cell in &self.cells {
            out.extend_from_slice(cell.value.unwrap_or_default());
        }
        let checksum = crc32c::crc32c_append(key_checksum, &out[begin..]);
        out.extend_from_slice(&checksum.to_le_bytes());
    }

    /// Returns the timestamp and expiry that the header contains: those of the marker, or else those of the
    /// newest cell.
    fn base(&self) -> Life {
        if self.marker.stamp != NEVER {
            return self.marker;
        }
        let newest = self.cells.iter().max_by_key(|cell| cell.life.rank());
        newest.map_or(Life::NONE, |cell| cell.life)
    }

    fn encode_lengths(&self, wide: bool, out: &mut Vec<u8>) {
        for cell in &self.cells {
            if wide {
                let length = cell.value.map_or(WIDE_NULL, cell_len);
                out.extend_from_slice(&length.to_le_bytes());
            } else {
                out.push(cell.value.map_or(NARROW_NULL, |value| value.len() as u8));
            }
        }
    }

    fn encode_states(&self, base: Life, out: &mut Vec<u8>) {
        for cell in &self.cells {
            if cell.life.stamp == NEVER {
                out.push(NEVER_WRITTEN);
                continue;
            }
            let mut state = 0;
            if cell.life.stamp != base.stamp {
                state |= OWN_STAMP;
            }
            if cell.life.expiry != base.expiry {
                state |= OWN_EXPIRY;
            }
            out.push(state);
            if state & OWN_STAMP != 0 {
                out.extend_from_slice(&cell.life.stamp.to_le_bytes());
            }
            if state & OWN_EXPIRY != 0 {
                out.extend_from_slice(&cell.life.expiry.to_le_bytes());
            }
        }
    }
}

/// Returns the time at which a stored row expires, in seconds since 1970; 0 if it does not expire, or is
/// damaged. `key_checksum` is the checksum of the row's key.
#[inline]
pub(crate) fn expiry(key_checksum: u32, value: &[u8]) -> u32 {
    // The flags of most rows show that the row never expires, so no decoding is necessary.
    if value.get(1).is_none_or(|flags| flags & (EXPIRES | STATES) == 0) {
        return 0;
    }
    let row = StoredRow::open(key_checksum, value).and_then(|row| row.decode(0));
    row.map_or(0, |row| row.expiry())
}

/// Returns the later of two expiry times, in seconds since 1970. An expiry of 0 means never, and is the
/// latest.
fn later_expiry(one: u32, other: u32) -> u32 {
    if one == 0 || other == 0 { 0 } else { one.max(other) }
}

/// Removes `N` bytes from the start of `bytes`, and returns them.
fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], Damage> {
    let (front, rest) = bytes.split_first_chunk::<N>().ok_or(Damage::Layout)?;
    *bytes = rest;
    Ok(*front)
}

/// Stored row with a valid checksum. Its header is decoded, and its cells are not.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoredRow<'a> {
    stored: &'a [u8],
    flags: u8,
    count: usize,
    base: Life,
    lengths: usize,
}

impl<'a> StoredRow<'a> {
    /// Verifies the checksum of a stored row, and decodes its header. `key_checksum` is the checksum of its key.
    #[inline]
    pub(crate) fn open(key_checksum: u32, value: &'a [u8]) -> Result<Self, Damage> {
        let (stored, checksum) = value
            .split_last_chunk::<CHECKSUM_BYTES>()
            .ok_or(Damage::Checksum)?;
        if crc32c::crc32c_append(key_checksum, stored) != u32::from_le_bytes(*checksum) {
            return Err(Damage::Checksum);
        }
        let header = stored.first_chunk::<HEADER_BYTES>().ok_or(Damage::Layout)?;
        if header[0] != ROW_FORMAT_VERSION {
            return Err(Damage::Version(header[0]));
        }
        let flags = header[1];
        if flags & !KNOWN_FLAGS != 0 {
            return Err(Damage::Layout);
        }
        let stamp = i64::from_le_bytes(header[4..12].try_into().expect("eight bytes were taken"));
        let mut lengths = HEADER_BYTES;
        let mut expiry = 0;
        if flags & EXPIRES != 0 {
            expiry = u32::from_le_bytes(take(&mut &stored[lengths..])?);
            lengths += size_of::<u32>();
        }
        Ok(Self {
            stored,
            flags,
            count: usize::from(u16::from_le_bytes([header[2], header[3]])),
            base: Life { stamp, expiry },
            lengths,
        })
    }

    /// Returns whether the row, or a part of it, can expire. If so, reading the row needs the current time.
    #[inline]
    pub(crate) fn may_end(&self) -> bool {
        self.flags & (EXPIRES | STATES) != 0
    }

    /// Returns the newest timestamp in the row, if it is known without decoding the cells.
    pub(crate) fn newest_at_once(&self) -> Option<i64> {
        (self.flags & STATES == 0).then_some(self.base.stamp)
    }

    /// Returns whether the row writes every cell of `other`, all at its own timestamp. Returns false if
    /// `other` has more cells: the writer of this row did not know the additional columns, and must not
    /// change them.
    pub(crate) fn writes_all_of(&self, other: &Self) -> bool {
        self.writes_columns(other.count)
    }

    /// Returns whether the row writes the first `columns` cells of any row, all at its own timestamp.
    pub(crate) fn writes_columns(&self, columns: usize) -> bool {
        self.flags & (STATES | UNWRITTEN | NO_MARKER) == 0 && self.count >= columns
    }

    /// Returns whether the encoded forms show that both rows have the same values and never expire. Does not
    /// decode the cells.
    pub(crate) fn is_plainly(&self, other: &Self) -> bool {
        // Ignore the flag for unwritten cells: a null cell is read as null, whether or not it was written.
        let alike = (self.flags ^ other.flags) & !UNWRITTEN == 0 && self.count == other.count;
        alike
            && self.flags & (STATES | EXPIRES) == 0
            && self.stored[HEADER_BYTES..] == other.stored[HEADER_BYTES..]
    }

    /// Returns whether no part of the row exists at `now_seconds`. The time matters only if the row [may
    /// expire](Self::may_end).
    #[inline]
    pub(crate) fn is_gone(&self, now_seconds: u32) -> Result<bool, Damage> {
        if self.flags & (STATES | NO_MARKER) == 0 {
            return Ok(self.base.ended(now_seconds));
        }
        let mut row = self.decode(0)?;
        row.end(now_seconds);
        Ok(!row.exists())
    }

    fn length(&self, index: usize) -> Result<Option<usize>, Damage> {
        if self.flags & WIDE == 0 {
            let length = *self.stored.get(self.lengths + index).ok_or(Damage::Layout)?;
            return Ok((length != NARROW_NULL).then_some(usize::from(length)));
        }
        let at = self.lengths + index * size_of::<u32>();
        let length = u32::from_le_bytes(take(&mut self.stored.get(at..).ok_or(Damage::Layout)?)?);
        Ok((length != WIDE_NULL).then_some(length as usize))
    }

    /// Returns the offset, in the stored row, of the data after the lengths.
    fn after_lengths(&self) -> usize {
        let width = if self.flags & WIDE == 0 {
            1
        } else {
            size_of::<u32>()
        };
        self.lengths + self.count * width
    }

    /// Decodes the row into at least `columns` cells.
    pub(crate) fn decode(&self, columns: usize) -> Result<Row<'a>, Damage> {
        let mut rest = self.stored.get(self.after_lengths()..).ok_or(Damage::Layout)?;
        let mut cells = Vec::with_capacity(self.count.max(columns));
        for index in 0..self.count {
            let mut life = self.base;
            if self.flags & STATES != 0 {
                life = self.cell_life(&mut rest)?;
            } else if self.flags & UNWRITTEN != 0 && self.length(index)?.is_none() {
                life = Life::NONE;
            }
            cells.push(Cell { life, value: None });
        }
        for (index, cell) in cells.iter_mut().enumerate() {
            if let Some(length) = self.length(index)? {
                let (value, after) = rest.split_at_checked(length).ok_or(Damage::Layout)?;
                cell.value = Some(value);
                rest = after;
            }
        }
        if !rest.is_empty() {
            return Err(Damage::Layout);
        }
        cells.resize(self.count.max(columns), Cell::UNWRITTEN);
        let marker = if self.flags & NO_MARKER == 0 {
            self.base
        } else {
            Life::NONE
        };
        Ok(Row { marker, cells })
    }

    fn cell_life(&self, rest: &mut &'a [u8]) -> Result<Life, Damage> {
        let [state] = take(rest)?;
        if state == NEVER_WRITTEN {
            return Ok(Life::NONE);
        }
        if state & !(OWN_STAMP | OWN_EXPIRY) != 0 {
            return Err(Damage::Layout);
        }
        let mut life = self.base;
        if state & OWN_STAMP != 0 {
            life.stamp = i64::from_le_bytes(take(rest)?);
        }
        if state & OWN_EXPIRY != 0 {
            life.expiry = u32::from_le_bytes(take(rest)?);
        }
        Ok(life)
    }

    /// Appends the row's first `columns` cells to `rows`, if the row exists at `now_seconds`. The time
    /// matters only if the row [may expire](Self::may_end). Returns the newest timestamp of the appended
    /// values, and the time when the last of them expires.
    ///
    /// The table has `table_columns` columns. `columns` is smaller than `table_columns` if columns were added
    /// after the reader read the table's definition. The row has fewer cells than the table has columns if
    /// columns were added after the row was written.
    #[inline]
    pub(crate) fn push_cells(
        &self,
        columns: usize,
        table_columns: usize,
        now_seconds: u32,
        rows: &mut RowSet,
    ) -> Result<Option<Life>, Damage> {
        if self.count > table_columns {
            return Err(Damage::Layout);
        }
        if self.flags & (STATES | NO_MARKER) != 0 || self.count > columns {
            return self.push_cells_apart(columns, now_seconds, rows);
        }
        if self.base.ended(now_seconds) {
            return Ok(None);
        }
        let (lengths, cells) = self
            .stored
            .split_at_checked(self.after_lengths())
            .ok_or(Damage::Layout)?;
        let lengths = &lengths[self.lengths..];
        let values = if self.flags & WIDE == 0 {
            let narrow = |length: &u8| (*length != NARROW_NULL).then_some(usize::from(*length));
            push_lengths(lengths.iter().map(narrow), cells, rows)?
        } else {
            let (lengths, _) = lengths.as_chunks();
            let wide = |length: &[u8; 4]| {
                let length = u32::from_le_bytes(*length);
                (length != WIDE_NULL).then_some(length as usize)
            };
            push_lengths(lengths.iter().map(wide), cells, rows)?
        };
        for _ in self.count..columns {
            rows.push_cell(None);
        }
        Ok(Some(if values { self.base } else { Life::NO_VALUE }))
    }

    #[cold]
    fn push_cells_apart(
        &self,
        columns: usize,
        now_seconds: u32,
        rows: &mut RowSet,
    ) -> Result<Option<Life>, Damage> {
        let mut row = self.decode(columns)?;
        row.end(now_seconds);
        if !row.exists() {
            return Ok(None);
        }
        row.cells.truncate(columns);
        for cell in &row.cells {
            rows.push_cell(cell.value);
        }
        Ok(Some(row.values_life()))
    }
}

/// Returns the length of a cell, in the form in which rows store it.
fn cell_len(cell: &[u8]) -> u32 {
    u32::try_from(cell.len()).expect("a mutation, and so each cell, has at most 16 MiB")
}

/// Copies all bytes of `cells`, and appends a cell for each length. The lengths must cover all bytes. Returns whether
/// at least one cell is a value.
#[inline]
fn push_lengths(
    lengths: impl Iterator<Item = Option<usize>>,
    cells: &[u8],
    rows: &mut RowSet,
) -> Result<bool, Damage> {
    let mut at = rows.push_bytes(cells);
    let end = at + cells.len();
    let mut values = false;
    for length in lengths {
        let Some(length) = length else {
            rows.push_cell(None);
            continue;
        };
        if length > end - at {
            return Err(Damage::Layout);
        }
        rows.push_span(at, length);
        at += length;
        values = true;
    }
    if at == end {
        Ok(values)
    } else {
        Err(Damage::Layout)
    }
}

#[cfg(test)]
#[path = "row_tests.rs"]
mod tests;
