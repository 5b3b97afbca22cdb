//! Tests of access tokens, in their file and in a running server.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;

use futures::FutureExt as _;
use recto::Environment;

use super::*;
use crate::auth::parse_grants;
use crate::rights::Right;

const START: i64 = 1_700_000_000_000_000;

fn environment() -> Environment {
    Environment::seeded(9, START)
}

fn grants(text: &str) -> BTreeMap<String, crate::rights::Grant> {
    parse_grants([text]).unwrap()
}

fn place() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens.toml");
    (folder, path)
}

#[test]
fn accepts_tokens_until_revoked_and_stores_no_secret() {
    let (_folder, path) = place();
    let environment = environment();
    let rows = "orders:read,write where tenant = \"ac\\\"me\"";
    let (text, stored) = TokenFile::create(&path, &environment, "acme", None, grants(rows)).unwrap();
    let (other, _) = TokenFile::create(&path, &environment, "other", None, grants("*:all")).unwrap();
    let on_disk = fs::read_to_string(&path).unwrap();
    assert!(!on_disk.contains(&text.reveal()[23..]));
    assert_eq!(TokenFile::read(&path).unwrap().tokens[0], stored);

    let tokens = Tokens::open(&path, environment).unwrap();
    let access = tokens.bearer(&text.reveal()).unwrap().access;
    assert_eq!(&*access.name, "acme");
    assert!(access.allows("orders", Right::Write) && !access.allows("orders", Right::Delete));
    assert!(!access.sees("users"));
    assert_eq!(tokens.reload().unwrap(), None);

    let (mine, others) = (
        tokens.bearer(&text.reveal()).unwrap().access,
        tokens.bearer(&other.reveal()).unwrap().access,
    );
    TokenFile::revoke(&path, text.id()).unwrap();
    let changes = tokens.reload().unwrap().unwrap();
    assert_eq!(changes.revoked, [(text.id().to_owned(), "acme".to_owned())]);
    assert!(changes.made.is_empty() && changes.changed.is_empty());
    // The requests of the revoked token end, but not those of other tokens.
    assert!(mine.ended().now_or_never().is_some());
    assert!(others.ended().now_or_never().is_none());
    assert_eq!(tokens.bearer(&text.reveal()).unwrap_err(), Denied::Unknown);
    tokens.bearer(&other.reveal()).unwrap();
    let error = TokenFile::revoke(&path, text.id()).unwrap_err();
    assert!(matches!(error, TokenError::NotFound { .. }));
}

#[test]
fn the_secret_of_one_with_the_id_of_another_is_refused() {
    let (_folder, path) = place();
    let environment = environment();
    let (one, _) = TokenFile::create(&path, &environment, "one", None, grants("a:read")).unwrap();
    let (two, _) = TokenFile::create(&path, &environment, "two", None, grants("*:all")).unwrap();
    let mixed = one.reveal().replace(one.id(), two.id());
    let tokens = Tokens::open(&path, environment).unwrap();
    assert_eq!(tokens.bearer(&mixed).unwrap_err(), Denied::Unknown);
    assert_eq!(tokens.bearer("").unwrap_err(), Denied::Unknown);
}

#[test]
fn a_token_expires() {
    let (_folder, path) = place();
    let (text, stored) =
        TokenFile::create(&path, &environment(), "brief", Some(60), grants("a:read")).unwrap();
    assert_eq!(stored.expires_at_seconds, Some(START / MICROS_PER_SECOND + 60));
    let at = |seconds: i64| {
        let environment = Environment::seeded(1, START + seconds * MICROS_PER_SECOND);
        Tokens::open(&path, environment).unwrap().bearer(&text.reveal())
    };
    at(59).unwrap();
    assert_eq!(at(60).unwrap_err(), Denied::Expired);
}

#[test]
fn rejects_tokens_while_the_file_is_missing_or_damaged() {
    let (_folder, path) = place();
    let (text, _) = TokenFile::create(&path, &environment(), "a", None, grants("a:read")).unwrap();
    let tokens = Tokens::open(&path, environment()).unwrap();
    let good = fs::read_to_string(&path).unwrap();
    for bad in ["", "version = 3\n", "version = 1\nextra = 1\n", "[["] {
        fs::write(&path, bad).unwrap();
        tokens.reload().unwrap_err();
        assert_eq!(
            tokens.bearer(&text.reveal()).unwrap_err(),
            Denied::Unknown,
            "{bad}"
        );
    }
    fs::remove_file(&path).unwrap();
    tokens.reload().unwrap_err();
    fs::write(&path, &good).unwrap();
    assert!(tokens.reload().unwrap().is_some());
    tokens.bearer(&text.reveal()).unwrap();
}

#[test]
fn rejects_only_unreadable_tokens_and_keeps_them() {
    let (_folder, path) = place();
    let (strange, _) = TokenFile::create(&path, &environment(), "later", None, grants("a:read")).unwrap();
    let good = fs::read_to_string(&path).unwrap();
    let seed = Environment::seeded(10, START);
    for changed in [
        good.replace("read", "raed"),
        good.replace("collection = \"a\"", "queue = \"a\""),
        good.replace("name = ", "only_from = \"10.0.0.0/8\"\nname = "),
    ] {
        assert_ne!(changed, good);
        fs::write(&path, &changed).unwrap();
        let (other, _) = TokenFile::create(&path, &seed, "b", None, grants("a:read")).unwrap();
        let file = TokenFile::read(&path).unwrap();
        assert_eq!((file.tokens.len(), file.strange.len()), (1, 1));
        assert_eq!(file.strange[0].name, "later");
        let tokens = Tokens::open(&path, environment()).unwrap();
        tokens.bearer(&other.reveal()).unwrap();
        assert_eq!(tokens.bearer(&strange.reveal()).unwrap_err(), Denied::Unknown);
        assert_eq!(TokenFile::revoke(&path, strange.id()).unwrap(), "later");
        assert!(TokenFile::read(&path).unwrap().strange.is_empty());
    }
}

#[test]
fn files_of_every_version_are_read_and_written_as_they_were() {
    let (_folder, path) = place();
    let environment = environment();
    let rows = "orders:read,write where tenant = \"acme\"";
    let (acme, _) = TokenFile::create(&path, &environment, "acme", Some(60), grants(rows)).unwrap();
    let (_, _) = TokenFile::create(&path, &environment, "ada", None, grants("*:all")).unwrap();
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        include_str!("golden/tokens-v1.toml")
    );
    // Use only rights of the release that wrote the golden file. Later releases added rights.
    let rights = "@store:backup,compact,check,load,apply,cursor-keys";
    let (operator, _) = TokenFile::create(&path, &environment, "ops", None, grants(rights)).unwrap();
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        include_str!("golden/tokens-v2.toml")
    );
    let tokens = Tokens::open(&path, environment).unwrap();
    assert!(
        tokens
            .bearer(&acme.reveal())
            .unwrap()
            .access
            .allows("orders", Right::Write)
    );
    let access = tokens.bearer(&operator.reveal()).unwrap().access;
    assert!(access.allows_store(Right::Load) && !access.sees("orders"));
}

#[test]
fn denies_store_rights_to_tokens_with_row_filters() {
    let access = |texts: &[&str]| {
        let grants = texts.iter().map(|text| crate::auth::parse_grant(text).unwrap());
        Access::granted("x", grants.collect())
    };
    assert!(access(&["*:read", "@store:backup"]).allows_store(Right::Backup));
    assert!(access(&["*:read", "@store:backup"]).reads_everything());
    assert!(!access(&["*:read", "@store:backup"]).allows_store(Right::Load));
    assert!(!access(&["*:all"]).allows_store(Right::Backup));
    // Grants for the store with a row filter can exist only in a manually edited file.
    assert!(!access(&["a:read where b = 1", "@store:all"]).allows_store(Right::Backup));
}

#[cfg(unix)]
#[test]
fn only_its_owner_reads_and_writes_the_file() {
    use std::os::unix::fs::PermissionsExt as _;
    let (_folder, path) = place();
    TokenFile::create(&path, &environment(), "a", None, grants("a:read")).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o620)).unwrap();
    let error = TokenFile::read(&path).unwrap_err();
    assert!(
        error.to_string().contains("other users than its owner"),
        "{error}"
    );
}

#[test]
fn tokens_made_at_the_same_time_are_all_kept() {
    let (_folder, path) = place();
    std::thread::scope(|scope| {
        for index in 0..8 {
            let path = &path;
            scope.spawn(move || {
                let environment = Environment::seeded(index, START);
                TokenFile::create(path, &environment, "many", None, grants("a:read")).unwrap();
            });
        }
    });
    assert_eq!(TokenFile::read(&path).unwrap().tokens.len(), 8);
}

#[test]
fn names_are_short_and_printable() {
    let (_folder, path) = place();
    for name in ["", "a\nb", &"x".repeat(101)] {
        let error = TokenFile::create(&path, &environment(), name, None, grants("a:read")).unwrap_err();
        assert!(error.to_string().contains("not a valid name"), "{error}");
    }
    assert!(!path.exists());
}
