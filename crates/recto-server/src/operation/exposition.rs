//! Metrics in the text format of Prometheus, version 0.0.4.

use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};

use recto::WriterMetrics;
use recto::session::{BucketMetrics, CommitLog};
use recto::store::{ClockStatus, NodeMetrics, StoreMetrics};

use super::Metrics;
use super::histogram::Histogram;

/// Media type of the Prometheus text format.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

impl fmt::Display for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        requests(self, f)?;
        pages(self, f)?;
        let by_kind = self.store_errors.all();
        head(
            f,
            "recto_store_errors_total",
            "counter",
            "Errors of the store, by kind.",
        )?;
        for (kind, count) in sorted(by_kind) {
            writeln!(f, "recto_store_errors_total{{kind=\"{kind}\"}} {}", read(&count))?;
        }
        head(
            f,
            "recto_http_rejected_total",
            "counter",
            "Requests that were rejected before they were handled, by reason.",
        )?;
        for (reason, count) in sorted(self.refusals.all()) {
            writeln!(
                f,
                "recto_http_rejected_total{{reason=\"{reason}\"}} {}",
                read(&count)
            )?;
        }
        for (name, kind, help, value) in [
            (
                "recto_http_in_flight",
                "gauge",
                "Requests that the server is handling, exports until their end.",
                &self.in_flight,
            ),
            (
                "recto_http_streaming",
                "gauge",
                "Replies that the server is streaming: exports and work on the store.",
                &self.streaming,
            ),
            (
                "recto_http_connections",
                "gauge",
                "Open connections.",
                &self.connections,
            ),
            (
                "recto_http_connections_accepted_total",
                "counter",
                "Connections accepted.",
                &self.connections_accepted,
            ),
            (
                "recto_slow_pages_total",
                "counter",
                "Pages that were logged as slow.",
                &self.slow_pages,
            ),
            (
                "recto_unique_conflicts_total",
                "counter",
                "Changes that were rejected because another record has the values of unique fields.",
                &self.unique_conflicts,
            ),
            (
                "recto_scrub_bytes_total",
                "counter",
                "Bytes of the embedded store's file that the scrub read.",
                &self.scrub.bytes,
            ),
            (
                "recto_scrub_rows_total",
                "counter",
                "Rows that the scrub verified.",
                &self.scrub.rows,
            ),
            (
                "recto_scrub_finished_timestamp_seconds",
                "gauge",
                "Time at which the scrub last completed a read of the file; 0 before the first.",
                &self.scrub.finished_seconds,
            ),
            (
                "recto_scrub_problems",
                "gauge",
                "Damaged places that the scrub found in its last complete read, or since.",
                &self.scrub.problems,
            ),
            (
                "recto_damaged_pages",
                "gauge",
                "Damaged pages of the embedded store's file that requests read.",
                &self.scrub.met,
            ),
        ] {
            head(f, name, kind, help)?;
            writeln!(f, "{name} {}", read(value))?;
        }
        Ok(())
    }
}

/// Metric that each node of the store has: its name, kind, help text, and how to get its value.
type OfNode = (&'static str, &'static str, &'static str, fn(&NodeMetrics) -> u64);

/// Number of collections that cannot be used, as Prometheus text.
pub(crate) struct RefusedText(pub(crate) usize);

impl fmt::Display for RefusedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = "recto_collections_unavailable";
        let help = "Collections that are unavailable because their tables differ from the schema.";
        head(f, name, "gauge", help)?;
        writeln!(f, "{name} {}", self.0)
    }
}

/// Difference between this machine's clock and the store's clocks, as Prometheus text. It is empty
/// before the first comparison.
pub(crate) struct ClockText(pub(crate) ClockStatus);

impl fmt::Display for ClockText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(ahead_micros) = self.0.ahead_micros else {
            return Ok(());
        };
        let name = "recto_clock_skew_seconds";
        let help = "Seconds by which the clock of this machine is ahead of the clocks of the store's nodes, or of the time \
                    that an embedded store recorded before it was opened.";
        head(f, name, "gauge", help)?;
        writeln!(f, "{name} {:.6}", ahead_micros as f64 / 1e6)
    }
}

/// Numbers of concurrent requests and their limits, for each class of requests, as Prometheus text.
pub(crate) struct PlacesText(pub(crate) [(&'static str, u64, u64); 4]);

impl fmt::Display for PlacesText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = "recto_http_admitted";
        let help = "Requests that the server is handling, by class: page (pages and records), stream, wait (work on the store) and receive.";
        head(f, name, "gauge", help)?;
        for (class, taken, _) in self.0 {
            writeln!(f, "{name}{{class=\"{class}\"}} {taken}")?;
        }
        let name = "recto_http_admission_limit";
        head(
            f,
            name,
            "gauge",
            "Maximum number of requests of each class at the same time.",
        )?;
        for (class, _, limit) in self.0 {
            writeln!(f, "{name}{{class=\"{class}\"}} {limit}")?;
        }
        Ok(())
    }
}

/// Metric about writers of the store: its name, kind, help text, and how to get its value.
type OfWriter = (
    &'static str,
    &'static str,
    &'static str,
    fn(&WriterMetrics) -> u64,
);

/// Metrics about this process as a writer. Only a store without transactions (Cassandra) registers
/// writers.
const OF_THIS_WRITER: [OfWriter; 9] = [
    (
        "recto_writer_registered",
        "gauge",
        "Whether this process is registered as a writer.",
        |writer| writer.is_registered.into(),
    ),
    (
        "recto_writer_lease",
        "gauge",
        "Whether this process renewed its registration in time, and can write.",
        |writer| writer.has_lease.into(),
    ),
    (
        "recto_writer_changes_in_flight",
        "gauge",
        "Changes of records that this process is making.",
        |writer| writer.under_way as u64,
    ),
    (
        "recto_writer_intents",
        "gauge",
        "Changes of this process that it has announced and not completed.",
        |writer| writer.intents,
    ),
    (
        "recto_writer_oldest_intent_seconds",
        "gauge",
        "Age of the oldest change that this process has announced and not completed; 0 without one.",
        |writer| writer.oldest_intent_seconds,
    ),
    (
        "recto_writer_registrations_lost_total",
        "counter",
        "Number of times that other processes found this process dead, and it registered again.",
        |writer| writer.lost,
    ),
    (
        "recto_writer_found_dead_total",
        "counter",
        "Processes that this process found dead.",
        |writer| writer.found_dead,
    ),
    (
        "recto_writer_resolved_total",
        "counter",
        "Records whose changes this process completed for processes that died.",
        |writer| writer.resolved,
    ),
    (
        "recto_writer_removed_stale_total",
        "counter",
        "Stale entries of views that pages of this process found and removed.",
        |writer| writer.removed_stale,
    ),
];

/// Metrics about all writers of the store, from this process's last check of them.
const OF_WRITERS: [OfWriter; 5] = [
    (
        "recto_writers_recovery_passes_total",
        "counter",
        "Number of times that this process looked for changes of processes that died.",
        |writer| writer.recovery_passes,
    ),
    (
        "recto_writers_live",
        "gauge",
        "Processes that write to the store.",
        |writer| writer.last_pass.living as u64,
    ),
    (
        "recto_writers_suspected",
        "gauge",
        "Processes that may be dead.",
        |writer| writer.last_pass.watched as u64,
    ),
    (
        "recto_writers_unresolved",
        "gauge",
        "Dead processes with changes that are not completed.",
        |writer| writer.last_pass.unresolved as u64,
    ),
    (
        "recto_writers_waiting",
        "gauge",
        "Dead processes whose changes are completed. Recto looks once more after a day.",
        |writer| writer.last_pass.waiting as u64,
    ),
];

/// Metrics about writers as Prometheus text; empty for a store that does not register writers.
pub(crate) struct WriterText(pub(crate) Option<WriterMetrics>);

impl fmt::Display for WriterText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(metrics) = &self.0 else {
            return Ok(());
        };
        for (name, kind, help, value) in OF_THIS_WRITER.into_iter().chain(OF_WRITERS) {
            head(f, name, kind, help)?;
            writeln!(f, "{name} {}", value(metrics))?;
        }
        Ok(())
    }
}

/// Metrics about buckets (ranges of partitions) as Prometheus text; empty if no collection has
/// buckets.
pub(crate) struct BucketText(pub(crate) Option<BucketMetrics>);

impl fmt::Display for BucketText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(metrics) = self.0 else {
            return Ok(());
        };
        for (name, kind, help, value) in [
            (
                "recto_buckets_created_total",
                "counter",
                "Buckets that splits of this process created.",
                metrics.made,
            ),
            (
                "recto_buckets_joined_total",
                "counter",
                "Key ranges that joins of this process moved to new buckets.",
                metrics.joined,
            ),
            (
                "recto_buckets_dropped_total",
                "counter",
                "Buckets that this process dropped because their retention ended.",
                metrics.dropped,
            ),
            (
                "recto_buckets_moved_bytes_total",
                "counter",
                "Bytes of rows that this process moved or copied between buckets.",
                metrics.moved_bytes,
            ),
            (
                "recto_buckets_range_map_reads_total",
                "counter",
                "Reads of range maps of buckets, or of parts of them.",
                metrics.directory_reads,
            ),
            (
                "recto_buckets_too_large",
                "gauge",
                "Buckets that were larger than their target when this process last read their size.",
                metrics.too_large,
            ),
        ] {
            head(f, name, kind, help)?;
            writeln!(f, "{name} {value}")?;
        }
        Ok(())
    }
}

/// Metrics about the commit log of an embedded store as Prometheus text; empty for a store on Cassandra.
pub(crate) struct LogText(pub(crate) Option<CommitLog>);

impl fmt::Display for LogText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(log) = self.0 else {
            return Ok(());
        };
        for (name, kind, help, value) in [
            (
                "recto_log_file_bytes",
                "gauge",
                "Size of the commit log's files.",
                log.file_bytes,
            ),
            (
                "recto_log_record_bytes",
                "gauge",
                "Bytes of the commit log's records since the last checkpoint.",
                log.record_bytes,
            ),
            (
                "recto_log_records_total",
                "counter",
                "Records that were written to the commit log.",
                log.records,
            ),
            (
                "recto_log_checkpoints_total",
                "counter",
                "Checkpoints, which bring the writes of the commit log into the data file.",
                log.checkpoints,
            ),
            (
                "recto_log_last_checkpoint_timestamp_seconds",
                "gauge",
                "Time of the last checkpoint; 0 before the first.",
                log.last_checkpoint_at_seconds.unwrap_or(0),
            ),
            (
                "recto_log_replayed_records_total",
                "counter",
                "Records of the commit log that were applied again after a crash or a failure of the disk.",
                log.replayed_records,
            ),
            (
                "recto_log_incomplete_records_total",
                "counter",
                "Incomplete records that were found at the end of the commit log when it was read.",
                log.incomplete_records,
            ),
        ] {
            head(f, name, kind, help)?;
            writeln!(f, "{name} {value}")?;
        }
        Ok(())
    }
}

/// Metrics about the store's nodes as Prometheus text; empty for an embedded store.
pub(crate) struct StoreText<'a>(pub(crate) &'a StoreMetrics);

impl fmt::Display for StoreText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let metrics = self.0;
        if metrics.nodes.is_empty() {
            return Ok(());
        }
        let of_node: [OfNode; 4] = [
            (
                "recto_store_node_up",
                "gauge",
                "Whether the server has a connection to the node.",
                |node| node.up.into(),
            ),
            (
                "recto_store_node_requests_total",
                "counter",
                "Requests sent to the node.",
                |node| node.requests,
            ),
            (
                "recto_store_node_failures_total",
                "counter",
                "Requests to the node that failed.",
                |node| node.failures,
            ),
            (
                "recto_store_node_timeouts_total",
                "counter",
                "Requests to the node that timed out.",
                |node| node.timeouts,
            ),
        ];
        for (name, kind, help, value) in of_node {
            head(f, name, kind, help)?;
            for node in &metrics.nodes {
                let (address, datacenter) = (escaped(&node.address), node.datacenter.as_deref());
                let datacenter = escaped(datacenter.unwrap_or_default());
                writeln!(
                    f,
                    "{name}{{node=\"{address}\",datacenter=\"{datacenter}\"}} {}",
                    value(node)
                )?;
            }
        }
        for (name, help, value) in [
            (
                "recto_store_retries_total",
                "Requests sent again.",
                metrics.retries,
            ),
            (
                "recto_store_narrowed_reads_total",
                "Reads that passed over too many tombstones, and were repeated for fewer rows.",
                metrics.narrowed_reads,
            ),
            (
                "recto_store_tombstones_total",
                "Tombstones that reads passed over, if Cassandra reported them.",
                metrics.tombstones,
            ),
        ] {
            head(f, name, "counter", help)?;
            writeln!(f, "{name} {value}")?;
        }
        Ok(())
    }
}

fn requests(metrics: &Metrics, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let name = "recto_http_request_seconds";
    let help = "Time from the headers of a request to the beginning of its reply, by route.";
    head(f, name, "histogram", help)?;
    let mut all = metrics.requests.all();
    all.sort_by(|(one, _), (other, _)| {
        (&one.route, one.method, one.status).cmp(&(&other.route, other.method, other.status))
    });
    for (labels, seconds) in all {
        let text = format!(
            "route=\"{}\",method=\"{}\",status=\"{}\"",
            escaped(&labels.route),
            labels.method,
            labels.status
        );
        histogram(f, name, &text, &seconds)?;
    }
    Ok(())
}

fn pages(metrics: &Metrics, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let all = metrics.pages.all().into_iter();
    let all = sorted(all.map(|(shape, page)| (shape.to_string(), page)).collect());
    let shape = |shape: &str| format!("shape=\"{}\"", escaped(shape));
    let name = "recto_page_seconds";
    head(
        f,
        name,
        "histogram",
        "Time to find a page, by the shape of its plan.",
    )?;
    for (label, page) in &all {
        histogram(f, name, &shape(label), &page.seconds)?;
    }
    let name = "recto_page_rows_scanned_per_row";
    head(
        f,
        name,
        "histogram",
        "Rows scanned per row returned, by the shape of the plan.",
    )?;
    for (label, page) in &all {
        histogram(f, name, &shape(label), &page.rows_per_row)?;
    }
    let name = "recto_page_rows_scanned_total";
    head(f, name, "counter", "Rows read from the store for pages.")?;
    for (label, page) in &all {
        writeln!(f, "{name}{{{}}} {}", shape(label), read(&page.rows_scanned))?;
    }
    let name = "recto_page_rows_returned_total";
    head(f, name, "counter", "Rows of pages.")?;
    for (label, page) in &all {
        writeln!(f, "{name}{{{}}} {}", shape(label), read(&page.rows_returned))?;
    }
    let name = "recto_page_seeks_total";
    head(f, name, "counter", "Seeks in views that are intersected.")?;
    for (label, page) in &all {
        writeln!(f, "{name}{{{}}} {}", shape(label), read(&page.seeks))?;
    }
    Ok(())
}

pub(super) fn head(f: &mut fmt::Formatter<'_>, name: &str, kind: &str, help: &str) -> fmt::Result {
    writeln!(f, "# HELP {name} {help}\n# TYPE {name} {kind}")
}

fn histogram(f: &mut fmt::Formatter<'_>, name: &str, labels: &str, histogram: &Histogram) -> fmt::Result {
    let mut count = 0;
    for (bound, total) in histogram.cumulative() {
        match bound {
            Some(bound) => writeln!(f, "{name}_bucket{{{labels},le=\"{bound}\"}} {total}")?,
            None => writeln!(f, "{name}_bucket{{{labels},le=\"+Inf\"}} {total}")?,
        }
        count = total;
    }
    writeln!(f, "{name}_sum{{{labels}}} {}", histogram.sum())?;
    writeln!(f, "{name}_count{{{labels}}} {count}")
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn sorted<K: Ord, V>(mut series: Vec<(K, V)>) -> Vec<(K, V)> {
    series.sort_by(|(one, _), (other, _)| one.cmp(other));
    series
}

pub(super) fn escaped(label: &str) -> String {
    let mut text = String::with_capacity(label.len());
    for character in label.chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            _ => {
                // Writing to a `String` cannot fail.
                let _ = text.write_char(character);
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use recto::ErrorKind;
    use recto::session::{PageCost, PageReply, PlanShape, Shape};
    use recto::store::ClockState;

    use super::*;
    use crate::operation::Refusal;
    use crate::operation::metrics::RequestLabels;

    #[test]
    fn metrics_are_text() {
        let metrics = Metrics::default();
        let labels = RequestLabels {
            route: "/v1/{a\"b}".into(),
            method: "GET",
            status: 200,
        };
        metrics.request(labels, 0.003);
        let reply = PageReply {
            shape: Some(PlanShape {
                sources: Shape::Scan,
                filter_scan: false,
            }),
            cost: PageCost {
                rows_read: 21,
                seeks: 3,
                ..PageCost::default()
            },
            ..PageReply::default()
        };
        metrics.page(&reply, 2, 0.5);
        metrics.error(ErrorKind::Timeout);
        metrics.error(ErrorKind::InvalidQuery);
        metrics.refused(Refusal::Rate);
        let text = metrics.to_string();
        for line in [
            "recto_http_request_seconds_bucket{route=\"/v1/{a\\\"b}\",method=\"GET\",status=\"200\",le=\"0.0025\"} 0",
            "recto_http_request_seconds_bucket{route=\"/v1/{a\\\"b}\",method=\"GET\",status=\"200\",le=\"0.005\"} 1",
            "recto_page_seconds_bucket{shape=\"scan\",le=\"+Inf\"} 1",
            "recto_page_seconds_sum{shape=\"scan\"} 0.5",
            "recto_page_rows_scanned_total{shape=\"scan\"} 21",
            "recto_page_seeks_total{shape=\"scan\"} 3",
            "recto_page_rows_scanned_per_row_bucket{shape=\"scan\",le=\"100\"} 1",
            "recto_store_errors_total{kind=\"timeout\"} 1",
            "recto_http_rejected_total{reason=\"rate\"} 1",
            "recto_http_in_flight 0",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}\n{text}");
        }
        assert!(!text.contains("query"), "an asker's error is none of the store's");
    }

    #[test]
    fn prints_bucket_and_writer_metrics_only_if_present() {
        assert_eq!(BucketText(None).to_string(), "");
        let buckets = BucketMetrics {
            made: 3,
            too_large: 1,
            ..BucketMetrics::default()
        };
        let text = BucketText(Some(buckets)).to_string();
        assert!(
            text.contains("recto_buckets_created_total 3\n") && text.contains("recto_buckets_too_large 1\n"),
            "{text}"
        );
        assert_eq!(WriterText(None).to_string(), "");
        let mut metrics = WriterMetrics::default();
        metrics.intents = 3;
        metrics.oldest_intent_seconds = 7;
        metrics.last_pass.unresolved = 1;
        let text = WriterText(Some(metrics)).to_string();
        for line in [
            "recto_writer_registered 0",
            "recto_writer_intents 3",
            "recto_writer_oldest_intent_seconds 7",
            "# TYPE recto_writers_recovery_passes_total counter",
            "recto_writers_unresolved 1",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}\n{text}");
        }
    }

    #[test]
    fn prints_commit_log_metrics_only_if_present() {
        assert_eq!(LogText(None).to_string(), "");
        let log = CommitLog {
            file_bytes: 4_096,
            record_bytes: 120,
            checkpoints: 2,
            last_checkpoint_at_seconds: Some(1_763_740_800),
            ..CommitLog::default()
        };
        let text = LogText(Some(log)).to_string();
        for line in [
            "recto_log_file_bytes 4096",
            "recto_log_record_bytes 120",
            "# TYPE recto_log_checkpoints_total counter",
            "recto_log_checkpoints_total 2",
            "recto_log_last_checkpoint_timestamp_seconds 1763740800",
            "recto_log_replayed_records_total 0",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}\n{text}");
        }
        let text = LogText(Some(CommitLog::default())).to_string();
        assert!(
            text.contains("recto_log_last_checkpoint_timestamp_seconds 0\n"),
            "{text}"
        );
    }

    #[test]
    fn writes_the_skew_of_a_clock_that_was_compared() {
        assert_eq!(ClockText(ClockStatus::default()).to_string(), "");
        let ahead_micros = Some(-2_500_000);
        let state = ClockState::Differs;
        let status = ClockStatus {
            state,
            ahead_micros,
            ..ClockStatus::default()
        };
        let text = ClockText(status).to_string();
        assert!(text.ends_with("\nrecto_clock_skew_seconds -2.500000\n"), "{text}");
    }

    #[test]
    fn nodes_are_told_and_a_store_without_them_is_not() {
        let mut metrics = StoreMetrics::default();
        assert_eq!(StoreText(&metrics).to_string(), "");
        metrics.retries = 3;
        metrics.nodes.push(NodeMetrics {
            address: "10.0.0.1:9042".to_owned(),
            datacenter: Some("dc1".to_owned()),
            up: true,
            timeouts: 2,
            ..NodeMetrics::default()
        });
        let text = StoreText(&metrics).to_string();
        for line in [
            "recto_store_node_up{node=\"10.0.0.1:9042\",datacenter=\"dc1\"} 1",
            "recto_store_node_timeouts_total{node=\"10.0.0.1:9042\",datacenter=\"dc1\"} 2",
            "recto_store_retries_total 3",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}\n{text}");
        }
    }
}
