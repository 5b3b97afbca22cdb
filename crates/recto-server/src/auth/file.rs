//! File of access tokens: TOML, with hashes instead of secrets.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use recto::Environment;
use toml::{Table, Value};

use super::grant::right;
use super::secret::is_id;
use super::{TokenError, TokenText};
use crate::rights::{Grant, QUEUE_PREFIX, STORE};

/// Newest version of the format of token files. It added grants for the store and for queues. A
/// file without such grants is written in version 1, which earlier releases can read. A file with
/// tokens that this release does not understand is always written in the newest version.
const FORMAT_VERSION: i64 = 2;
/// Version of the format of token files that every release reads.
const FIRST_FORMAT_VERSION: i64 = 1;
/// Maximum number of access tokens in a file.
pub const MAX_TOKENS: usize = 10_000;
/// Maximum size of a file of tokens, in bytes.
pub const MAX_TOKEN_FILE_BYTES: u64 = 16 << 20;
/// Maximum length of the name of an access token, in characters.
const MAX_NAME_CHARACTERS: usize = 100;
/// Permission bits with which other users than the owner can write a file.
#[cfg(unix)]
const WRITABLE_BY_OTHERS: u32 = 0o022;
/// Permission bits with which only the owner can read and write a file.
#[cfg(unix)]
const OWNER_ONLY: u32 = 0o600;
const MICROS_PER_SECOND: i64 = 1_000_000;

const HEADER: &str =
    "# Tokens of a Recto server, made by `recto token create`. It holds hashes, no secrets.\n";

/// Access token as the token file stores it.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredToken {
    /// Public id of the token: 16 hexadecimal digits.
    pub id: String,
    /// Holder of the token, as its creator named it.
    pub name: String,
    /// Hash of the token's secret.
    pub(crate) hash: blake3::Hash,
    /// Creation time, in seconds since 1970-01-01T00:00:00Z.
    pub created_at_seconds: i64,
    /// Time from which the server rejects the token, in seconds since 1970-01-01T00:00:00Z. `None`:
    /// the token does not expire.
    pub expires_at_seconds: Option<i64>,
    /// Grants of the token. Each key is the name of a collection, of a queue, or of the store.
    pub grants: BTreeMap<String, Grant>,
}

/// Access token that this release does not understand. The server rejects it, because the unknown
/// part may be a restriction. The file keeps it unchanged.
#[derive(Debug, Clone, PartialEq)]
pub struct StrangeToken {
    /// Public id of the token; empty if it cannot be read.
    pub id: String,
    /// Holder of the token; empty if it cannot be read.
    pub name: String,
    /// Reason why this release does not understand the token.
    pub reason: String,
    table: Value,
}

/// Content of a token file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TokenFile {
    /// Tokens in the order of their creation.
    pub tokens: Vec<StoredToken>,
    /// Tokens that this release does not understand.
    pub strange: Vec<StrangeToken>,
}

impl TokenFile {
    /// Reads a token file.
    ///
    /// # Errors
    /// The file cannot be read, others than its owner may write it, or it is not a file of tokens.
    pub fn read(path: &Path) -> Result<Self, TokenError> {
        let file = File::open(path).map_err(|error| TokenError::file("read", path, error))?;
        check_owner_only(path, &file)?;
        let mut text = String::new();
        file.take(MAX_TOKEN_FILE_BYTES + 1)
            .read_to_string(&mut text)
            .map_err(|error| TokenError::file("read", path, error))?;
        if text.len() as u64 > MAX_TOKEN_FILE_BYTES {
            return Err(TokenError::invalid(
                path,
                format!("it is larger than {MAX_TOKEN_FILE_BYTES} bytes"),
            ));
        }
        parse(&text).map_err(|reason| TokenError::invalid(path, reason))
    }

    /// Adds an access token to the file, and creates the file if it does not exist. Only the
    /// returned text has the secret.
    ///
    /// # Errors
    /// The name is invalid, the file is full, or the file cannot be read or written.
    pub fn create(
        path: &Path,
        environment: &Environment,
        name: &str,
        lifetime_seconds: Option<i64>,
        grants: BTreeMap<String, Grant>,
    ) -> Result<(TokenText, StoredToken), TokenError> {
        if name.is_empty() || name.chars().count() > MAX_NAME_CHARACTERS || name.chars().any(char::is_control)
        {
            let hint = format!("use 1 to {MAX_NAME_CHARACTERS} characters without control characters");
            return Err(TokenError::refused(
                format!("{name:?} is not a valid name of a token"),
                hint,
            ));
        }
        let _lock = lock(path)?;
        let mut file = match Self::read(path) {
            Err(TokenError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Self::default()
            }
            read => read?,
        };
        if file.tokens.len() + file.strange.len() >= MAX_TOKENS {
            let message = format!("{} has {MAX_TOKENS} tokens, which is the maximum", path.display());
            return Err(TokenError::refused(message, "revoke unused tokens"));
        }
        let now = environment.now_micros() / MICROS_PER_SECOND;
        let text = TokenText::new(environment);
        let token = StoredToken {
            id: text.id().to_owned(),
            name: name.to_owned(),
            hash: text.hash(),
            created_at_seconds: now,
            expires_at_seconds: lifetime_seconds.map(|seconds| now.saturating_add(seconds)),
            grants,
        };
        file.tokens.push(token.clone());
        file.write(path)?;
        Ok((text, token))
    }

    /// Removes an access token from the file, and returns the name of its holder.
    ///
    /// # Errors
    /// The file has no token with the id, or cannot be read or written.
    pub fn revoke(path: &Path, id: &str) -> Result<String, TokenError> {
        let _lock = lock(path)?;
        let mut file = Self::read(path)?;
        let name = if let Some(index) = file.tokens.iter().position(|token| token.id == id) {
            file.tokens.remove(index).name
        } else if let Some(index) = file.strange.iter().position(|token| token.id == id) {
            file.strange.remove(index).name
        } else {
            return Err(TokenError::NotFound { id: id.to_owned() });
        };
        file.write(path)?;
        Ok(name)
    }

    /// Replaces the token file atomically: a reader sees either its old or its new content.
    fn write(&self, path: &Path) -> Result<(), TokenError> {
        let next = beside(path, "new");
        let failed = |error| TokenError::file("write", path, error);
        // Remove the file of an interrupted run, because `create_new` would fail.
        let _ = fs::remove_file(&next);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, OWNER_ONLY);
        let mut file = options.open(&next).map_err(failed)?;
        file.write_all(self.to_text().as_bytes()).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        fs::rename(&next, path).map_err(failed)?;
        sync_folder(path).map_err(failed)
    }

    fn to_text(&self) -> String {
        let tokens = self.tokens.iter().map(|token| Value::Table(to_table(token)));
        let strange = self.strange.iter().map(|token| token.table.clone());
        let tokens: Vec<Value> = tokens.chain(strange).collect();
        let is_newer = |subject: &String| subject == STORE || subject.starts_with(QUEUE_PREFIX);
        let has_newer = |token: &StoredToken| token.grants.keys().any(is_newer);
        let version = if self.tokens.iter().any(has_newer) || !self.strange.is_empty() {
            FORMAT_VERSION
        } else {
            FIRST_FORMAT_VERSION
        };
        let mut table = Table::new();
        table.insert("version".into(), Value::Integer(version));
        table.insert("token".into(), Value::Array(tokens));
        format!("{HEADER}{table}")
    }
}

fn to_table(token: &StoredToken) -> Table {
    let mut table = Table::new();
    table.insert("id".into(), token.id.clone().into());
    table.insert("name".into(), token.name.clone().into());
    table.insert("hash".into(), token.hash.to_hex().to_string().into());
    table.insert("created_at_seconds".into(), token.created_at_seconds.into());
    if let Some(expires) = token.expires_at_seconds {
        table.insert("expires_at_seconds".into(), expires.into());
    }
    let grants = token.grants.iter().map(|(collection, grant)| {
        let names = grant.rights.iter().map(|right| right.name().into());
        let mut table = Table::new();
        table.insert("collection".into(), collection.clone().into());
        table.insert("operations".into(), Value::Array(names.collect()));
        if !grant.rows.is_empty() {
            table.insert("rows".into(), grant.rows.clone().into());
        }
        Value::Table(table)
    });
    table.insert("grant".into(), Value::Array(grants.collect()));
    table
}

fn parse(text: &str) -> Result<TokenFile, String> {
    let mut table: Table =
        toml::from_str(text).map_err(|error| format!("not valid TOML: {}", error.message()))?;
    match table.remove("version").and_then(|version| version.as_integer()) {
        Some(FIRST_FORMAT_VERSION..=FORMAT_VERSION) => {}
        Some(version) => {
            return Err(format!(
                "its version is {version}; this release reads up to {FORMAT_VERSION}"
            ));
        }
        None => return Err("it has no version, so it is not a file of tokens".into()),
    }
    let tokens = match table.remove("token") {
        None => Vec::new(),
        Some(Value::Array(tokens)) => tokens,
        Some(_) => return Err("`token` must be a list of tables: [[token]]".into()),
    };
    nothing_left(&table)?;
    if tokens.len() > MAX_TOKENS {
        return Err(format!("it has more than {MAX_TOKENS} tokens"));
    }
    let mut file = TokenFile::default();
    let mut ids = HashSet::new();
    for (index, token) in tokens.into_iter().enumerate() {
        let id = text_of(&token, "id").to_owned();
        if !id.is_empty() && !ids.insert(id.clone()) {
            return Err(format!(
                "token {}: there are two tokens with the id {id}",
                index + 1
            ));
        }
        match of_table(token.clone()) {
            Ok(token) => file.tokens.push(token),
            Err(reason) => file.strange.push(StrangeToken {
                id,
                name: text_of(&token, "name").to_owned(),
                reason,
                table: token,
            }),
        }
    }
    Ok(file)
}

/// Returns the text value of a key in a TOML table; empty if there is none.
fn text_of<'a>(table: &'a Value, key: &str) -> &'a str {
    table.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Rejects a table that still has keys after all known keys were read. An unknown key may be a
/// restriction, so it must not be ignored.
fn nothing_left(table: &Table) -> Result<(), String> {
    match table.keys().next() {
        None => Ok(()),
        Some(key) => Err(format!("the key `{key}` is unknown")),
    }
}

fn taken_text(table: &mut Table, key: &str) -> Result<String, String> {
    match table.remove(key) {
        Some(Value::String(text)) => Ok(text),
        _ => Err(format!("`{key}` is missing or not text")),
    }
}

fn of_table(token: Value) -> Result<StoredToken, String> {
    let Value::Table(mut table) = token else {
        return Err("it is not a table".into());
    };
    let id = taken_text(&mut table, "id")?;
    if !is_id(&id) {
        return Err("`id` is not a token id".into());
    }
    let hash = blake3::Hash::from_hex(taken_text(&mut table, "hash")?)
        .map_err(|_| "`hash` must have 64 hexadecimal digits".to_owned())?;
    let name = taken_text(&mut table, "name")?;
    let created_at_seconds = table
        .remove("created_at_seconds")
        .and_then(|seconds| seconds.as_integer())
        .ok_or("`created_at_seconds` is missing or not a number")?;
    let expires_at_seconds = match table.remove("expires_at_seconds") {
        None => None,
        Some(seconds) => Some(
            seconds
                .as_integer()
                .ok_or("`expires_at_seconds` is not a number")?,
        ),
    };
    let Some(Value::Array(grants)) = table.remove("grant") else {
        return Err("`grant` is missing or not a list".into());
    };
    nothing_left(&table)?;
    let mut by_collection = BTreeMap::new();
    for grant in grants {
        let (collection, grant) = grant_of(grant)?;
        if by_collection.insert(collection.clone(), grant).is_some() {
            return Err(format!("{collection} has two grants"));
        }
    }
    Ok(StoredToken {
        id,
        name,
        hash,
        created_at_seconds,
        expires_at_seconds,
        grants: by_collection,
    })
}

fn grant_of(grant: Value) -> Result<(String, Grant), String> {
    let Value::Table(mut table) = grant else {
        return Err("a grant must be a table".into());
    };
    let collection = taken_text(&mut table, "collection")?;
    let Some(Value::Array(names)) = table.remove("operations") else {
        return Err("`operations` is missing, or is not a list".into());
    };
    let named = |name: &Value| right(&collection, name.as_str()?);
    let rights: Option<Vec<_>> = names.iter().map(named).collect();
    let rights = rights.ok_or("`operations` has an unknown right")?;
    let rows = if table.contains_key("rows") {
        taken_text(&mut table, "rows")?
    } else {
        String::new()
    };
    nothing_left(&table)?;
    Ok((collection, Grant { rights, rows }))
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(ending);
    path.with_file_name(name)
}

/// Locks the token file for a change, so that concurrent changes are not lost.
fn lock(path: &Path) -> Result<File, TokenError> {
    let path = beside(path, "lock");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, OWNER_ONLY);
    let file = options
        .open(&path)
        .map_err(|error| TokenError::file("lock", &path, error))?;
    file.lock()
        .map_err(|error| TokenError::file("lock", &path, error))?;
    Ok(file)
}

#[cfg(unix)]
fn check_owner_only(path: &Path, file: &File) -> Result<(), TokenError> {
    use std::os::unix::fs::PermissionsExt as _;
    let metadata = file
        .metadata()
        .map_err(|error| TokenError::file("read", path, error))?;
    if metadata.permissions().mode() & WRITABLE_BY_OTHERS == 0 {
        return Ok(());
    }
    Err(TokenError::refused(
        format!(
            "other users than its owner can write to {}, and could grant themselves any right",
            path.display()
        ),
        format!("chmod 600 {}", path.display()),
    ))
}

#[cfg(not(unix))]
fn check_owner_only(_path: &Path, _file: &File) -> Result<(), TokenError> {
    Ok(())
}

/// Syncs the folder of the token file, because a crash could otherwise undo the rename of the file.
#[cfg(unix)]
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(not(unix))]
fn sync_folder(_path: &Path) -> io::Result<()> {
    Ok(())
}
