//! Sources of a server's settings: flags, environment and file, in this order of precedence.

use std::path::{Path, PathBuf};

use recto::schema::nearest;

use super::settings::setting;
use super::{Config, ConfigError, SETTINGS, Setting};

/// Maximum size of a configuration file, in bytes.
pub const MAX_CONFIG_BYTES: u64 = 64 << 10;
/// Prefix of the environment variables that contain settings.
const ENVIRONMENT_PREFIX: &str = "RECTO_SERVE_";
/// Keys of the configuration file that select the store. They are not settings of the server.
const STORE_KEYS: [&str; 4] = ["store", "wait_seconds", "cassandra", "http"];
/// Table of the configuration file that contains the server's settings.
const TABLE: &str = "serve";

/// Settings of a server as given by each source.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// Path and text of the configuration file, if there is one.
    pub file: Option<(PathBuf, String)>,
    /// Environment variables: names and values. Only names that start with `RECTO_SERVE_` count.
    pub environment: Vec<(String, String)>,
    /// Command-line flags: pairs of a setting's name and its value.
    pub flags: Vec<(String, String)>,
}

/// Source of a setting's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The default, because no source sets the value.
    Default,
    /// The configuration file.
    File,
    /// An environment variable.
    Environment,
    /// A flag of the command line.
    Flag,
}

impl Origin {
    /// Returns the name of the source, as `recto config check` shows it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::File => "file",
            Self::Environment => "environment",
            Self::Flag => "flag",
        }
    }
}

/// Configuration that a server uses, and the source of each value.
#[derive(Debug, Clone)]
pub struct Effective {
    /// Configuration with the values of all sources.
    pub config: Config,
    /// Source of the value of each setting, in the order of [`SETTINGS`].
    origins: Vec<Origin>,
}

impl Effective {
    /// Returns each setting with its value and source. No value is secret: settings only name the
    /// files of tokens and keys.
    pub fn settings(&self) -> impl Iterator<Item = (&'static Setting, String, Origin)> {
        let origins = self.origins.iter().copied();
        SETTINGS
            .iter()
            .zip(origins)
            .map(|(setting, origin)| (setting, (setting.show)(&self.config), origin))
    }

    fn set(&mut self, setting: &Setting, text: &str, origin: Origin, place: &str) -> Result<(), ConfigError> {
        (setting.set)(&mut self.config, text)
            .map_err(|expected| ConfigError::new(format!("{place} {expected}")))?;
        if let Some(index) = SETTINGS.iter().position(|one| one.name == setting.name) {
            self.origins[index] = origin;
        }
        Ok(())
    }
}

impl Sources {
    /// Combines the sources to the configuration of a server. Flags take precedence over the
    /// environment, the environment over the file, and the file over defaults.
    ///
    /// # Errors
    /// A name is not a setting, or a setting does not accept a value. [`Config::check`] checks
    /// rules that concern several settings.
    pub fn resolve(&self) -> Result<Effective, ConfigError> {
        let mut effective = Effective {
            config: Config::default(),
            origins: vec![Origin::Default; SETTINGS.len()],
        };
        if let Some((path, text)) = &self.file {
            for (name, value) in read_file(path, text)? {
                let place = format!("{}: {name}", path.display());
                let setting = setting(&name).ok_or_else(|| unknown(&place, &name, str::to_owned))?;
                effective.set(setting, &value, Origin::File, &place)?;
            }
        }
        for (variable, value) in &self.environment {
            let Some(name) = variable.strip_prefix(ENVIRONMENT_PREFIX) else {
                continue;
            };
            let setting = setting(&name.to_ascii_lowercase())
                .filter(|_| !name.contains(|c: char| c.is_ascii_lowercase()))
                .ok_or_else(|| unknown(variable, &name.to_ascii_lowercase(), variable_of))?;
            effective.set(setting, value, Origin::Environment, variable)?;
        }
        for (name, value) in &self.flags {
            let flag = format!("--{}", name.replace('_', "-"));
            let setting = setting(name).ok_or_else(|| unknown(&flag, name, str::to_owned))?;
            effective.set(setting, value, Origin::Flag, &flag)?;
        }
        Ok(effective)
    }
}

fn variable_of(name: &str) -> String {
    format!("{ENVIRONMENT_PREFIX}{}", name.to_ascii_uppercase())
}

fn unknown(place: &str, name: &str, shown: impl Fn(&str) -> String) -> ConfigError {
    let error = ConfigError::new(format!("{place} is not a setting"));
    match nearest(name, SETTINGS.iter().map(|setting| setting.name)) {
        Some(nearest) => error.with_hint(format!("did you mean {}?", shown(nearest))),
        None => error.with_hint("run `recto config check` to list the settings"),
    }
}

/// Keys that only a schema file has, which is TOML too. They reveal that the user named the wrong
/// file.
const SCHEMA_KEYS: [&str; 3] = ["collection", "type", "queue"];

/// Parses the settings in the text of a configuration file, as names and values.
fn read_file(path: &Path, text: &str) -> Result<Vec<(String, String)>, ConfigError> {
    let at = |what: String| ConfigError::new(format!("{}: {what}", path.display()));
    // Report only the line number: the parser's message would show the line, which may contain a
    // password of the store.
    let table: toml::Table = toml::from_str(text).map_err(|error| {
        let before = error.span().map_or(0, |span| span.start.min(text.len()));
        let line = text.get(..before).unwrap_or(text).matches('\n').count() + 1;
        at(format!("line {line} is not valid TOML"))
    })?;
    let mut settings = Vec::new();
    for (key, value) in table {
        match value {
            toml::Value::Table(table) if key == TABLE => {
                for (name, value) in table {
                    let value = value_text(value).ok_or_else(|| {
                        at(format!(
                            "{name} must be text, a whole number, true, false, or a list of texts"
                        ))
                    })?;
                    settings.push((name, value));
                }
            }
            _ if key == TABLE => return Err(at("`serve` must be a table: [serve]".into())),
            _ if STORE_KEYS.contains(&key.as_str()) => {}
            _ if SCHEMA_KEYS.contains(&key.as_str()) => {
                let error = at(format!(
                    "the key `{key}` belongs to a schema, and not to a server configuration"
                ));
                return Err(error.with_hint(
                    "apply a schema with `recto apply --schema FILE`; a server configuration has [serve]",
                ));
            }
            _ => {
                let error = at(format!("the key `{key}` is unknown"));
                let names = STORE_KEYS.into_iter().chain([TABLE]);
                return Err(match (setting(&key), nearest(&key, names)) {
                    (Some(_), _) => error.with_hint("move it into the table [serve]"),
                    (None, Some(nearest)) => error.with_hint(format!("did you mean {nearest}?")),
                    (None, None) => error.with_hint("use `store`, [cassandra] and [serve]"),
                });
            }
        }
    }
    Ok(settings)
}

fn value_text(value: toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Boolean(flag) => Some(flag.to_string()),
        toml::Value::Array(values) => {
            let texts: Option<Vec<&str>> = values.iter().map(toml::Value::as_str).collect();
            texts.map(|texts| texts.join(","))
        }
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn sources(file: &str, environment: &[(&str, &str)], flags: &[(&str, &str)]) -> Sources {
        let pairs = |pairs: &[(&str, &str)]| {
            let owned = pairs
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            owned.collect::<Vec<_>>()
        };
        Sources {
            file: Some(("recto.toml".into(), file.to_owned())),
            environment: pairs(environment),
            flags: pairs(flags),
        }
    }

    #[test]
    fn prefers_flags_over_environment_over_file_over_default() {
        let file = "store = \"shop\"\n[cassandra]\npassword = \"x\"\n[serve]\nmax_body_bytes = 1\nmax_url_bytes = 101\n\
                    idle_time_ms = 1\nhosts = [\"a.example\", \"b.example\"]\n";
        let environment = [
            ("RECTO_SERVE_MAX_BODY_BYTES", "2"),
            ("RECTO_SERVE_MAX_URL_BYTES", "102"),
            ("RECTO_STORE", "elsewhere"),
            ("HOME", "/"),
        ];
        let effective = sources(file, &environment, &[("max_body_bytes", "3")])
            .resolve()
            .unwrap();
        let found = |name: &str| {
            let mut settings = effective.settings();
            let (_, value, origin) = settings.find(|(setting, ..)| setting.name == name).unwrap();
            (value, origin)
        };
        assert_eq!(found("max_body_bytes"), ("3".into(), Origin::Flag));
        assert_eq!(found("max_url_bytes"), ("102".into(), Origin::Environment));
        assert_eq!(found("idle_time_ms"), ("1".into(), Origin::File));
        assert_eq!(found("hosts"), ("a.example,b.example".into(), Origin::File));
        assert_eq!(found("listen"), ("127.0.0.1:8080".into(), Origin::Default));
    }

    #[test]
    fn names_that_are_none_are_refused_with_the_nearest() {
        for (file, environment, flags, message, hint) in [
            (
                "[serve]\nlisten_ = 1",
                None,
                None,
                "recto.toml: listen_ is not a setting",
                "did you mean listen?",
            ),
            (
                "[server]\n",
                None,
                None,
                "the key `server` is unknown",
                "did you mean serve?",
            ),
            (
                "listen = \"x\"",
                None,
                None,
                "the key `listen` is unknown",
                "move it into the table [serve]",
            ),
            ("zebra = 1", None, None, "the key `zebra` is unknown", "[serve]"),
            (
                "",
                Some(("RECTO_SERVE_TOKEN", "x")),
                None,
                "RECTO_SERVE_TOKEN is not",
                "RECTO_SERVE_TOKENS?",
            ),
            (
                "",
                Some(("RECTO_SERVE_listen", "x")),
                None,
                "RECTO_SERVE_listen is not",
                "RECTO_SERVE_LISTEN?",
            ),
            (
                "",
                None,
                Some(("hots", "x")),
                "--hots is not a setting",
                "did you mean hosts?",
            ),
            (
                "",
                None,
                Some(("elephants", "x")),
                "--elephants is not a setting",
                "recto config check",
            ),
        ] {
            let environment: Vec<(&str, &str)> = environment.into_iter().collect();
            let flags: Vec<(&str, &str)> = flags.into_iter().collect();
            let error = sources(file, &environment, &flags).resolve().unwrap_err();
            assert!(error.to_string().contains(message), "{error}");
            assert!(error.hint().unwrap().contains(hint), "{error} {:?}", error.hint());
        }
    }

    #[test]
    fn a_value_that_is_not_taken_says_where_and_no_secret() {
        let error = sources("[serve]\nmax_body_bytes = 1.5", &[], &[])
            .resolve()
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "recto.toml: max_body_bytes must be text, a whole number, true, false, or a list of texts"
        );
        let environment = [("RECTO_SERVE_LOG_FORMAT", "xml")];
        let error = sources("", &environment, &[]).resolve().unwrap_err();
        assert_eq!(
            error.to_string(),
            "RECTO_SERVE_LOG_FORMAT must be one of `human`, `json`"
        );
        let error = sources("[cassandra]\npassword = \"secret\n", &[], &[])
            .resolve()
            .unwrap_err();
        assert_eq!(error.to_string(), "recto.toml: line 2 is not valid TOML");
    }
}
