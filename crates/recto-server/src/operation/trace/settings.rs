//! Settings of traces from environment variables.
//!
//! The SDK itself reads `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_TRACES_SAMPLER` and
//! its argument, the endpoints, headers and compression of OTLP, and the size of batches. The
//! module reads the settings that the SDK leaves to programs, or accepts without a limit.

/// Environment variable with the endpoint of all signals. The SDK appends `/v1/traces` for traces.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// Environment variable with the endpoint of traces. It is used unchanged, and takes precedence.
const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";

/// Returns an environment variable. An empty variable counts as not set, as the specification
/// requires.
pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name)
        .ok()
        .map(|value| value.trim().to_owned())
        .filter(|value| !value.is_empty())
}

/// Returns whether the environment requests traces: an endpoint is set, and no variable disables
/// traces.
pub(super) fn is_wanted(variable: &impl Fn(&str) -> Option<String>) -> bool {
    let is_disabled = variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let is_otlp = variable("OTEL_TRACES_EXPORTER").is_none_or(|names| lists(&names, "otlp"));
    !is_disabled && is_otlp && endpoint(variable).is_some()
}

/// Returns a warning if the environment requests traces, which a build without the feature cannot
/// export.
#[cfg(any(test, not(feature = "opentelemetry")))]
pub(super) fn said_without(variable: &impl Fn(&str) -> Option<String>) -> Option<&'static str> {
    is_wanted(variable).then_some(
        "OTEL_EXPORTER_OTLP_ENDPOINT is set, but no traces are exported: this program was built without the cargo \
         feature `opentelemetry`",
    )
}

fn endpoint(variable: &impl Fn(&str) -> Option<String>) -> Option<String> {
    variable(TRACES_ENDPOINT).or_else(|| variable(ENDPOINT))
}

fn lists(names: &str, name: &str) -> bool {
    names.split(',').any(|one| one.trim() == name)
}

#[cfg(any(test, feature = "opentelemetry"))]
pub(super) use exporting::{Settings, not_followed};

#[cfg(any(test, feature = "opentelemetry"))]
mod exporting {
    use std::path::PathBuf;
    use std::time::Duration;

    use axum::http::Uri;

    use super::{endpoint, lists};

    /// Maximum number of trace spans in the queue for the exporter. A larger setting is reduced to
    /// the maximum.
    pub(crate) const MAX_QUEUED_SPANS: u64 = 65_536;
    /// Default number of trace spans in the queue for the exporter (`OTEL_BSP_MAX_QUEUE_SIZE`),
    /// from the specification.
    pub(crate) const DEFAULT_QUEUED_SPANS: u64 = 2_048;
    /// Default time limit for a collector's reply, in milliseconds, from the specification.
    const DEFAULT_EXPORT_TIME_MS: u64 = 10_000;
    /// Maximum of the time limit for a collector's reply, in milliseconds.
    const MAX_EXPORT_TIME_MS: u64 = 60_000;
    /// Default interval between two exports (`OTEL_BSP_SCHEDULE_DELAY`), in milliseconds, from the
    /// specification.
    const DEFAULT_DELAY_MS: u64 = 5_000;
    /// Minimum interval between two exports, in milliseconds. It keeps the exporting thread from
    /// running without a pause.
    const MIN_DELAY_MS: u64 = 10;
    /// Maximum interval between two exports, in milliseconds.
    const MAX_DELAY_MS: u64 = 3_600_000;

    /// Names of the samplers that the SDK supports.
    const SAMPLERS: [&str; 6] = [
        "always_on",
        "always_off",
        "traceidratio",
        "parentbased_always_on",
        "parentbased_always_off",
        "parentbased_traceidratio",
    ];

    /// Settings of traces that the SDK does not read itself.
    #[derive(Debug)]
    #[cfg_attr(not(feature = "opentelemetry"), allow(dead_code))]
    pub(crate) struct Settings {
        /// Scheme, host and port of the collector: the parts of its address that a log may contain.
        pub(crate) collector: String,
        pub(crate) is_https: bool,
        pub(crate) queued_spans: u64,
        pub(crate) delay: Duration,
        pub(crate) export_time: Duration,
        /// True if the server continues a client's trace, which the header `traceparent`
        /// identifies.
        pub(crate) takes_parents: bool,
        /// File of certificate authorities to trust for the collector; `None` for those of the
        /// machine.
        pub(crate) certificate: Option<PathBuf>,
        /// Files of the certificate and the key with which the server authenticates to the
        /// collector.
        pub(crate) client: Option<(PathBuf, PathBuf)>,
    }

    impl Settings {
        /// Reads the settings of traces. An error contains no value, because an address may have a
        /// password.
        pub(crate) fn read(variable: &impl Fn(&str) -> Option<String>) -> Result<Self, &'static str> {
            let refused = "the endpoint must be a URL with http:// or https:// and a host";
            let uri: Uri = endpoint(variable)
                .unwrap_or_default()
                .parse()
                .map_err(|_| refused)?;
            let (Some(scheme), Some(host)) = (uri.scheme_str(), uri.host()) else {
                return Err(refused);
            };
            if !matches!(scheme, "http" | "https") {
                return Err(refused);
            }
            let port = uri.port().map(|port| format!(":{port}")).unwrap_or_default();
            let number = |name: &str| variable(name).and_then(|value| value.parse::<u64>().ok());
            let of_otlp = |name: &str| {
                let of_traces = variable(&format!("OTEL_EXPORTER_OTLP_TRACES_{name}"));
                of_traces.or_else(|| variable(&format!("OTEL_EXPORTER_OTLP_{name}")))
            };
            let file = |name: &str| of_otlp(name).map(PathBuf::from);
            let delay = number("OTEL_BSP_SCHEDULE_DELAY").unwrap_or(DEFAULT_DELAY_MS);
            let time = of_otlp("TIMEOUT").and_then(|value| value.parse().ok());
            let time = time.unwrap_or(DEFAULT_EXPORT_TIME_MS);
            Ok(Self {
                collector: format!("{scheme}://{host}{port}"),
                is_https: scheme == "https",
                queued_spans: number("OTEL_BSP_MAX_QUEUE_SIZE")
                    .unwrap_or(DEFAULT_QUEUED_SPANS)
                    .clamp(1, MAX_QUEUED_SPANS),
                delay: Duration::from_millis(delay.clamp(MIN_DELAY_MS, MAX_DELAY_MS)),
                export_time: Duration::from_millis(time.clamp(1, MAX_EXPORT_TIME_MS)),
                takes_parents: variable("OTEL_PROPAGATORS").is_none_or(|names| lists(&names, "tracecontext")),
                certificate: file("CERTIFICATE"),
                client: file("CLIENT_CERTIFICATE").zip(file("CLIENT_KEY")),
            })
        }
    }

    /// Returns warnings about settings of traces that the server ignores.
    pub(crate) fn not_followed(variable: &impl Fn(&str) -> Option<String>) -> Vec<&'static str> {
        let is_other = |name: &str, known: &[&str]| {
            variable(name).is_some_and(|value| !known.contains(&value.to_ascii_lowercase().as_str()))
        };
        let mut said = Vec::new();
        let mut say = |condition: bool, text| {
            if condition {
                said.push(text);
            }
        };
        for name in [
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
            "OTEL_EXPORTER_OTLP_PROTOCOL",
        ] {
            say(
                is_other(name, &["http/protobuf"]),
                "traces are sent as http/protobuf, and OTEL_EXPORTER_OTLP_PROTOCOL is ignored: the endpoint \
                 must support this protocol (usually on port 4318)",
            );
        }
        for name in [
            "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION",
            "OTEL_EXPORTER_OTLP_COMPRESSION",
        ] {
            say(
                is_other(name, &["gzip", "none"]),
                "OTEL_EXPORTER_OTLP_COMPRESSION must be gzip or none; traces are sent without compression",
            );
        }
        say(
            is_other("OTEL_TRACES_SAMPLER", &SAMPLERS),
            "OTEL_TRACES_SAMPLER names an unknown sampler; parentbased_always_on is used",
        );
        let is_ratio = variable("OTEL_TRACES_SAMPLER").is_some_and(|name| name.ends_with("traceidratio"));
        let ratio = variable("OTEL_TRACES_SAMPLER_ARG").and_then(|value| value.parse::<f64>().ok());
        say(
            is_ratio && !ratio.is_some_and(|ratio| (0.0..=1.0).contains(&ratio)),
            "OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1; every trace is sampled",
        );
        said.dedup();
        said
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn of<'a>(set: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
        |name| {
            let found = set.iter().find(|(one, _)| *one == name);
            found.map(|(_, value)| (*value).to_owned())
        }
    }

    #[test]
    fn traces_are_wanted_where_an_endpoint_is_named() {
        let endpoint = (ENDPOINT, "http://localhost:4318");
        assert!(!is_wanted(&of(&[])));
        assert!(is_wanted(&of(&[endpoint])));
        assert!(is_wanted(&of(&[(
            TRACES_ENDPOINT,
            "http://localhost:4318/v1/traces"
        )])));
        assert!(is_wanted(&of(&[
            endpoint,
            ("OTEL_TRACES_EXPORTER", "console, otlp")
        ])));
        for no in [("OTEL_SDK_DISABLED", "TRUE"), ("OTEL_TRACES_EXPORTER", "none")] {
            assert!(!is_wanted(&of(&[endpoint, no])), "{no:?}");
        }
    }

    #[test]
    fn a_build_without_traces_says_so_where_they_are_asked_for() {
        let endpoint = (ENDPOINT, "http://user:secret@127.0.0.1:9");
        let said = said_without(&of(&[endpoint])).unwrap();
        assert!(
            said.contains("built without the cargo feature `opentelemetry`"),
            "{said}"
        );
        assert!(!said.contains("secret"), "{said}");
        assert_eq!(said_without(&of(&[])), None);
        assert_eq!(
            said_without(&of(&[endpoint, ("OTEL_SDK_DISABLED", "true")])),
            None
        );
    }

    #[test]
    fn numbers_stay_within_their_limits() {
        use std::time::Duration;
        let read = |set: &[(&str, &str)]| {
            let all = [&[(ENDPOINT, "https://user:secret@collector.example:4318/x")], set].concat();
            Settings::read(&of(&all)).unwrap()
        };
        let settings = read(&[]);
        assert_eq!(settings.collector, "https://collector.example:4318");
        assert_eq!((settings.queued_spans, settings.is_https), (2_048, true));
        assert_eq!(settings.export_time, Duration::from_secs(10));
        assert!(settings.takes_parents);
        let settings = read(&[
            ("OTEL_BSP_MAX_QUEUE_SIZE", "18446744073709551615"),
            ("OTEL_BSP_SCHEDULE_DELAY", "0"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "18446744073709551615"),
            ("OTEL_PROPAGATORS", "b3,baggage"),
        ]);
        assert_eq!(settings.queued_spans, 65_536);
        assert_eq!(settings.delay, Duration::from_millis(10));
        assert_eq!(settings.export_time, Duration::from_secs(60));
        assert!(!settings.takes_parents);
        for wrong in [
            "localhost:4318",
            "collector",
            "grpc://secret:4317",
            "http://",
            "a b",
        ] {
            let refused = Settings::read(&of(&[(ENDPOINT, wrong)])).unwrap_err();
            assert!(!refused.contains("secret"));
        }
    }

    #[test]
    fn reports_each_unsupported_variable_once() {
        let fine = [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
            ("OTEL_TRACES_SAMPLER", "traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "0.1"),
        ];
        assert!(not_followed(&of(&fine)).is_empty());
        let wrong = [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd"),
            ("OTEL_TRACES_SAMPLER", "xray"),
        ];
        assert_eq!(not_followed(&of(&wrong)).len(), 3);
        let ratio = [
            ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "all"),
        ];
        assert_eq!(not_followed(&of(&ratio)).len(), 1);
    }
}
