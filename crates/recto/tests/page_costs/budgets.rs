//! Maximum cost of a page of 20 rows, for each kind of query plan.

use crate::shapes::Place;

/// Maximum cost of one page, for one kind of query plan and one position of the page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    /// Name of the kind of query plan.
    pub(crate) shape: &'static str,
    pub(crate) place: Place,
    /// Number of rows that the embedded store must return. It is 21 for each range of rows, because
    /// the 21st row shows whether more rows follow. A range with fewer rows returns fewer.
    pub(crate) rows_read: u64,
    /// Number of ranges of rows (slices) that the page must read.
    pub(crate) slices: u32,
    /// Maximum number of allocations of the page. They serve the clone of the query, the decryption
    /// of the cursor, the read, the values of the rows, and the next cursor. The 20 rows have 50
    /// texts.
    pub(crate) allocations: u64,
    /// Maximum total size of the allocations, in bytes.
    pub(crate) bytes: u64,
    /// Cost of the same page on Cassandra.
    pub(crate) remote: Remote,
}

/// Cost of a page on Cassandra.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Remote {
    pub(crate) rows_read: u64,
    pub(crate) slices: u32,
    /// Number of CQL statements. A range of rows with mixed sort directions needs several
    /// statements.
    pub(crate) statements: u32,
    /// Number of sequential round trips in which the statements are sent.
    pub(crate) round_trips: u32,
}

/// Returns the maximum number of allocations for a measured number. A small margin is necessary,
/// because a map with the rows of a page may grow once more than usual.
pub(crate) fn with_slack(measured: u64) -> u64 {
    measured + measured / 20 + 1
}

const fn budget(shape: &'static str, place: Place, embedded: [u64; 4], remote: [u32; 4]) -> Budget {
    Budget {
        shape,
        place,
        rows_read: embedded[0],
        slices: embedded[1] as u32,
        allocations: embedded[2],
        bytes: embedded[3],
        remote: Remote {
            rows_read: remote[0] as u64,
            slices: remote[1],
            statements: remote[2],
            round_trips: remote[3],
        },
    }
}

/// Formats the budget as a line of the table [`BUDGETS`].
impl std::fmt::Display for Budget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Remote {
            rows_read,
            slices,
            statements,
            round_trips,
        } = self.remote;
        write!(
            f,
            "budget({:?}, {:?}, [{}, {}, {}, {}], [{rows_read}, {slices}, {statements}, {round_trips}]),",
            self.shape, self.place, self.rows_read, self.slices, self.allocations, self.bytes
        )
    }
}

use Place::{After, Around, Before, First, From, Last};

/// Maximum cost for each kind of query plan and position. The first list is for the embedded store:
/// rows, slices (ranges of rows), allocations, and bytes of the allocations. The second list is for
/// Cassandra: rows, slices, statements and round trips.
#[rustfmt::skip]
pub(crate) const BUDGETS: &[Budget] = &[
    budget("single slice", First, [21, 1, 74, 11005], [21, 1, 1, 1]),
    budget("single slice", After, [21, 1, 80, 10903], [21, 1, 1, 1]),
    budget("single slice", Before, [21, 1, 80, 10903], [21, 1, 1, 1]),
    budget("single slice", Last, [21, 1, 74, 11005], [21, 1, 1, 1]),
    budget("single slice", Around, [42, 2, 99, 16391], [42, 2, 2, 1]),
    budget("single slice", From, [21, 1, 85, 11229], [21, 1, 1, 1]),
    budget("reverse", First, [21, 1, 74, 11005], [21, 1, 1, 1]),
    budget("reverse", After, [21, 1, 80, 10903], [21, 1, 1, 1]),
    budget("reverse", Before, [21, 1, 80, 10903], [21, 1, 1, 1]),
    budget("mixed directions", First, [21, 1, 74, 11005], [21, 1, 1, 1]),
    budget("mixed directions", After, [21, 1, 80, 10903], [21, 1, 2, 2]),
    budget("mixed directions", Before, [21, 1, 80, 10903], [21, 1, 2, 2]),
    budget("mixed directions", Around, [42, 2, 99, 16391], [42, 2, 4, 2]),
    budget("mixed directions, reverse", First, [21, 1, 74, 11005], [21, 1, 1, 1]),
    budget("mixed directions, reverse", After, [21, 1, 80, 10903], [21, 1, 2, 2]),
    budget("mixed directions, reverse", Before, [21, 1, 80, 10903], [21, 1, 2, 2]),
    budget("range", First, [21, 1, 78, 11063], [21, 1, 1, 1]),
    budget("range", After, [21, 1, 85, 10945], [21, 1, 1, 1]),
    budget("range", Before, [21, 1, 85, 10945], [21, 1, 1, 1]),
    budget("tuple range", First, [21, 1, 76, 11059], [21, 1, 1, 1]),
    budget("tuple range", After, [21, 1, 82, 10932], [21, 1, 1, 1]),
    budget("tuple range", Before, [21, 1, 82, 10945], [21, 1, 1, 1]),
    budget("tuple range, mixed directions", First, [21, 2, 109, 20377], [21, 2, 2, 2]),
    budget("tuple range, mixed directions", After, [21, 1, 107, 15630], [21, 1, 2, 2]),
    budget("tuple range, mixed directions", Before, [21, 1, 97, 15523], [21, 1, 2, 2]),
    budget("prefix", First, [21, 1, 89, 10764], [21, 1, 1, 1]),
    budget("prefix", After, [21, 1, 95, 11051], [21, 1, 1, 1]),
    budget("prefix", Before, [21, 1, 95, 11051], [21, 1, 1, 1]),
    budget("filter_scan", First, [256, 1, 89, 50493], [256, 1, 1, 1]),
    budget("filter_scan", After, [256, 1, 122, 51241], [256, 1, 1, 1]),
    budget("filter_scan", Before, [256, 1, 121, 51231], [256, 1, 1, 1]),
    budget("merge of partitions", First, [70, 9, 202, 36895], [168, 8, 8, 1]),
    budget("merge of partitions", After, [59, 9, 233, 36054], [168, 8, 16, 2]),
    budget("merge of partitions", Before, [61, 9, 233, 36491], [168, 8, 16, 2]),
    budget("merge of values of an order column", First, [70, 10, 260, 46215], [210, 10, 10, 1]),
    budget("merge of values of an order column", After, [70, 10, 306, 47363], [200, 10, 10, 1]),
    budget("merge of values of an order column", Before, [70, 10, 306, 47363], [210, 10, 10, 1]),
    budget("concat of partitions", First, [21, 1, 89, 15234], [21, 1, 1, 1]),
    budget("concat of partitions", After, [21, 1, 101, 15548], [21, 1, 2, 2]),
    budget("concat of partitions", Before, [21, 2, 122, 17851], [21, 2, 3, 3]),
];
