//! Measurements of a run, and a comparison with buckets by time.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use crate::flows::Flow;
use crate::store::RequestCounts;

const PAGE_ROWS: usize = 51;

/// Number of buckets from which each page was read.
#[derive(Default)]
pub(crate) struct Pages(Vec<usize>);

impl Pages {
    pub(crate) fn add(&mut self, buckets: usize) {
        self.0.push(buckets);
    }

    fn told(&self) -> String {
        if self.0.is_empty() {
            return "none".to_owned();
        }
        let mut all = self.0.clone();
        all.sort_unstable();
        let mean = all.iter().sum::<usize>() as f64 / all.len() as f64;
        let p99 = all[(all.len() * 99).div_ceil(100) - 1];
        format!("{mean:.2} (p99 {p99}, max {})", all[all.len() - 1])
    }
}

type Sizes = BTreeMap<(u32, u64), u64>;

pub(crate) struct Measured {
    target: u64,
    rows: u64,
    bytes: u64,
    /// Maximum observed size of each bucket.
    before: Sizes,
    after: Sizes,
    pub(crate) pages: Pages,
    pub(crate) after_bursts: Pages,
    copied: u64,
    conditional: u64,
    directories: u64,
    samples: u64,
    samples_read: u64,
    rows_written: u64,
}

impl Measured {
    pub(crate) fn new(flow: &Flow) -> Self {
        Self {
            target: flow.target,
            rows: flow.rows.len() as u64,
            bytes: flow.bytes(),
            before: Sizes::new(),
            after: Sizes::new(),
            pages: Pages::default(),
            after_bursts: Pages::default(),
            copied: 0,
            conditional: 0,
            directories: 0,
            samples: 0,
            samples_read: 0,
            rows_written: 0,
        }
    }

    pub(crate) fn before(&mut self, sizes: Sizes) {
        for (bucket, bytes) in sizes {
            let largest = self.before.entry(bucket).or_default();
            *largest = bytes.max(*largest);
        }
    }

    pub(crate) fn after(&mut self, sizes: Sizes) {
        self.after = sizes;
    }

    pub(crate) fn take(&mut self, asked: &RequestCounts, copied: u64) {
        let of = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
        self.copied = copied;
        self.conditional = of(&asked.conditional);
        self.directories = of(&asked.directories);
        self.samples = of(&asked.samples_written);
        self.samples_read = of(&asked.samples_read);
        self.rows_written = of(&asked.rows_written);
    }

    pub(crate) fn print(&self, flow: &Flow) {
        let rows = self.rows as f64;
        println!(
            "{}: {} rows, {} bytes, target {}",
            flow.name, self.rows, self.bytes, self.target
        );
        for (name, sizes) in [("while rows come", &self.before), ("after mending", &self.after)] {
            println!("    {name}: {}", self.told(sizes));
        }
        println!(
            "    per million rows {:.0} conditional writes; per row {:.3} directory reads, {:.4} samples written, {:.4} reads of \
             samples; {:.3} bytes copied per byte, {:.3} rows written per row",
            self.conditional as f64 * 1e6 / rows,
            self.directories as f64 / rows,
            self.samples as f64 / rows,
            self.samples_read as f64 / rows,
            self.copied as f64 / self.bytes as f64,
            self.rows_written as f64 / rows,
        );
        println!(
            "    buckets per page: {}; right after bursts: {}",
            self.pages.told(),
            self.after_bursts.told()
        );
        for (name, width) in flow.widths {
            println!("    time, width = {name}: {}", self.by_time(flow, *width));
        }
    }

    fn told(&self, sizes: &Sizes) -> String {
        let mut parts: Vec<f64> = sizes
            .values()
            .map(|bytes| *bytes as f64 / self.target as f64)
            .collect();
        parts.sort_by(f64::total_cmp);
        let count = parts.len();
        if count == 0 {
            return "not looked at".to_owned();
        }
        let large = parts.iter().filter(|part| **part > 1.0).count();
        let mean = parts.iter().sum::<f64>() / count as f64;
        format!(
            "{count} buckets, of the target {mean:.2} in the mean, {:.2} the largest; {large} over it",
            parts[count - 1]
        )
    }

    /// Returns the sizes and pages that result if each bucket is an interval of `width`
    /// milliseconds. Only intervals with rows are buckets.
    fn by_time(&self, flow: &Flow, width: i64) -> String {
        let mut sizes = Sizes::new();
        let mut orders: BTreeMap<u32, Vec<i64>> = BTreeMap::new();
        for row in &flow.rows {
            let bucket = row.order.div_euclid(width).cast_unsigned();
            *sizes.entry((row.partition, bucket)).or_default() += row.counted();
            orders.entry(row.partition).or_default().push(row.order);
        }
        let mut pages = Pages::default();
        for orders in orders.values_mut() {
            orders.sort_unstable();
            for page in orders.chunks_exact(PAGE_ROWS) {
                let mut buckets: Vec<i64> = page.iter().map(|order| order.div_euclid(width)).collect();
                buckets.dedup();
                pages.add(buckets.len());
            }
        }
        format!("{}; buckets per page {}", self.told(&sizes), pages.told())
    }
}
