//! List of the fuzz targets.

use crate::{cursor, keys, load, place, queues, schema, stored, text};

/// Fuzz target: function of any bytes, which panics if a property does not hold.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Name of the target and of its corpus.
    pub name: &'static str,
    /// Function that panics if a property does not hold for these bytes.
    pub run: fn(&[u8]),
    /// Words that mutations insert into inputs, because random bytes would rarely produce them.
    pub words: &'static [&'static str],
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target {
        name: "cursor",
        run: cursor::run,
        words: &["\u{1}", "\u{3}", "AQ"],
    },
    Target {
        name: "place",
        run: place::run,
        words: place::WORDS,
    },
    Target {
        name: "filter",
        run: text::filter,
        words: text::FILTER_WORDS,
    },
    Target {
        name: "sort",
        run: text::sort,
        words: text::SORT_WORDS,
    },
    Target {
        name: "schema",
        run: schema::run,
        words: schema::WORDS,
    },
    Target {
        name: "key",
        run: keys::key,
        words: &[],
    },
    Target {
        name: "cell",
        run: keys::cell,
        words: &[],
    },
    Target {
        name: "row",
        run: stored::row,
        words: &[],
    },
    Target {
        name: "table",
        run: stored::table,
        words: &["name"],
    },
    Target {
        name: "queue_stored",
        run: queues::run,
        words: &[".fifo"],
    },
    Target {
        name: "load",
        run: load::run,
        words: load::WORDS,
    },
];

/// Returns the target with this name.
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
