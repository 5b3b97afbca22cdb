//! Logs on standard error, as text or as JSON.

use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config::{Config, LogFormat, LogLevel};

/// Starts logging for the whole process. The log omits lines of other libraries, because they may
/// contain data of requests.
///
/// Does nothing if the process logs already.
pub fn start_logs(config: &Config) {
    let level = match config.log_level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    let ours = Targets::new().with_target("recto_server", level);
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_target(false);
    let registry = tracing_subscriber::registry();
    // Ignore an error: it means that other code has started logging.
    let _ = match config.log_format {
        LogFormat::Json => registry
            .with(lines.json().flatten_event(true).with_filter(ours))
            .try_init(),
        LogFormat::Human => {
            use std::io::IsTerminal as _;
            let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            registry
                .with(lines.with_ansi(colours).with_filter(ours))
                .try_init()
        }
    };
}
