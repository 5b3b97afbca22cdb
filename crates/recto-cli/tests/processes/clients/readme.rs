//! Runs README.md as a reader would: every command in order, in one folder and one shell.
//!
//! | block | action of the test |
//! |---|---|
//! | `sh` | runs each command; `recto serve` continues to run during the later blocks |
//! | `python` | runs the program with the standard library only |
//! | `text` | compares it with the output of the last command or program; `…` stands for any text within a line |
//! | `toml` | parses it, and checks a schema |
//! | `rust` | nothing: `recto`'s documentation tests compile it |
//!
//! A server stops where the text says "Stop the server". Its address and addresses of Cassandra are replaced, because
//! the tests use free ports and their own keyspaces.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use recto::schema::Schema;

use super::{project, run};
use crate::support::guide::{Block, blocks, is_shown};
use crate::support::place::Place;
use crate::support::{Server, forget_settings};

/// Commands of the README that the test does not run: the beginning of each, and the reason. A
/// command that the README lacks is an error.
const NOT_RUN: [(&str, &str); 3] = [
    (
        "cargo demo",
        "builds the program in release mode; the tests of the demo run it",
    ),
    ("./scripts/test", "runs this test"),
    (
        "cargo install --path crates/recto-cli",
        "builds the program that the tests have built already",
    ),
];

/// Address of the server in the README. The next constant is the start of a Cassandra address.
const SERVER: &str = "127.0.0.1:8080";
const CASSANDRA: &str = "cassandra://";
/// Words of the README that make the test stop the server.
const STOP: &str = "Stop the server";
/// Text before the exit code in the line that the shell prints after each command.
const ENDED: &str = "the command ended with exit code ";
/// Minimum number of outputs that the test compares. Fewer mean that it did not find the blocks of
/// the README.
const MIN_OUTPUTS: usize = 3;

/// Shell that runs all commands of the README, so that variables and the current folder persist.
struct Shell {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    errors: tempfile::NamedTempFile,
}

impl Shell {
    fn open(folder: &Path) -> Self {
        let mut bash = Command::new("bash");
        forget_settings(&mut bash);
        let program = Path::new(env!("CARGO_BIN_EXE_recto")).parent().unwrap();
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
        bash.args(["--norc", "--noprofile", "-o", "pipefail"])
            .env("PATH", path)
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = bash.spawn().unwrap();
        Self {
            input: child.stdin.take(),
            output: BufReader::new(child.stdout.take().unwrap()),
            errors: tempfile::NamedTempFile::new().unwrap(),
            child,
        }
    }

    /// Runs a command, which must succeed. Returns its standard output.
    fn run(&mut self, command: &str) -> String {
        let errors = self.errors.path().to_owned();
        let errors = errors.display();
        // Print the marker on its own line, even if the output does not end with a line break.
        let script = format!("{{\n{command}\n}} </dev/null 2>'{errors}'\nprintf '\\n%s%s\\n' '{ENDED}' $?\n");
        self.input.as_mut().unwrap().write_all(script.as_bytes()).unwrap();
        let mut output = String::new();
        let code = loop {
            let mut line = String::new();
            let read = self.output.read_line(&mut line).unwrap();
            assert!(read > 0, "the shell ended within\n{command}\n{output}");
            if let Some(code) = line.strip_prefix(ENDED) {
                break code.trim().to_owned();
            }
            output.push_str(&line);
        };
        let output = output.strip_suffix('\n').unwrap_or_default().to_owned();
        let errors = std::fs::read_to_string(self.errors.path()).unwrap();
        assert!(code == "0", "exit code {code} of\n{command}\n{output}{errors}");
        output
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // Close the input, because the shell ends when its input ends.
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

/// Splits the text of a block into commands. A command may have several lines.
fn split_commands(block: &str) -> Vec<String> {
    let (mut commands, mut command) = (Vec::new(), String::new());
    for line in block.lines() {
        if command.is_empty() && without_comment(line).is_empty() {
            continue;
        }
        command.push_str(line);
        command.push('\n');
        if is_whole(&command) {
            commands.push(std::mem::take(&mut command));
        }
    }
    assert!(
        command.is_empty(),
        "the README does not end the command\n{command}"
    );
    commands
}

/// Returns whether a command is complete, so that the next line starts another command.
fn is_whole(command: &str) -> bool {
    let checked = Command::new("bash").args(["-n", "-c", command]).output().unwrap();
    // bash only warns about an unfinished here-document. So standard error must be empty, too.
    checked.status.success() && checked.stderr.is_empty() && !command.ends_with("\\\n")
}

fn without_comment(line: &str) -> &str {
    let comment = line.find(" #").or_else(|| line.starts_with('#').then_some(0));
    line[..comment.unwrap_or(line.len())].trim()
}

/// State that the blocks of the README share.
struct Reader {
    folder: tempfile::TempDir,
    shell: Shell,
    server: Option<Server>,
    /// Keyspaces that the test created, by the address in the README that each replaces.
    keyspaces: BTreeMap<String, Place>,
    not_run: BTreeSet<&'static str>,
    /// Output of the last command or program. The next `text` block must be equal.
    output: Option<String>,
    compared: usize,
}

impl Reader {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self {
            shell: Shell::open(folder.path()),
            folder,
            server: None,
            keyspaces: BTreeMap::new(),
            not_run: BTreeSet::new(),
            output: None,
            compared: 0,
        }
    }

    fn read(&mut self, block: &Block<'_>) {
        if block.before.contains(STOP) {
            let server = self.server.take();
            assert!(server.is_some(), "the README stops a server that does not run");
        }
        let (language, _) = block.language.split_once(',').unwrap_or((block.language, ""));
        match language {
            "sh" => split_commands(block.text)
                .iter()
                .for_each(|command| self.run(command)),
            "python" => {
                let program = self.with_own_addresses(block.text);
                let mut python = Command::new("python3");
                forget_settings(&mut python);
                python.args(["-c", &program]).current_dir(self.folder.path());
                self.output = Some(run(&mut python));
            }
            "text" => self.compare(block.text),
            "toml" => check_toml(block.text),
            "rust" => {}
            other => panic!(
                "the README has a block of the unknown language {other:?}:\n{}",
                block.text
            ),
        }
    }

    fn run(&mut self, command: &str) {
        self.output = None;
        let not_run = NOT_RUN
            .iter()
            .find(|(beginning, _)| command.starts_with(beginning));
        if let Some((beginning, _)) = not_run {
            self.not_run.insert(beginning);
        } else if let Some(options) = command.strip_prefix("recto serve") {
            let options: Vec<_> = without_comment(options).split_whitespace().collect();
            assert!(self.server.is_none(), "the README starts two servers");
            self.server = Some(Server::start(self.folder.path(), &options));
        } else {
            let command = self.with_own_addresses(command);
            self.output = Some(self.shell.run(&command));
        }
    }

    fn compare(&mut self, shown: &str) {
        let output = self.output.take();
        let output = output.unwrap_or_else(|| panic!("nothing in the README prints\n{shown}"));
        assert!(
            is_shown(shown, &output),
            "the README shows\n{shown}and the output is\n{output}"
        );
        self.compared += 1;
    }

    /// Replaces the addresses of the README by those of the test's server and keyspaces.
    fn with_own_addresses(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        if text.contains(SERVER) {
            let server = self.server.as_ref();
            let server = server.unwrap_or_else(|| panic!("no server runs for\n{text}"));
            text = text.replace(SERVER, server.address());
        }
        let mut parts = text.split(CASSANDRA);
        let mut replaced = parts.next().unwrap().to_owned();
        for part in parts {
            // An address consists of hosts, `/`, and a keyspace.
            let hosts = part.find('/').expect("an address of Cassandra names a keyspace");
            let keyspace = part[hosts + 1..].find(|one: char| !one.is_ascii_alphanumeric() && one != '_');
            let (address, rest) = part.split_at(keyspace.map_or(part.len(), |end| hosts + 1 + end));
            let place = self
                .keyspaces
                .entry(address.to_owned())
                .or_insert_with(Place::on_cassandra);
            replaced.push_str(&place.store().unwrap());
            replaced.push_str(rest);
        }
        replaced
    }
}

/// Checks that a block is TOML, and a valid schema if it has collections.
fn check_toml(text: &str) {
    let table: toml::Table = text
        .parse()
        .unwrap_or_else(|error| panic!("the README has a block that is not TOML: {error}\n{text}"));
    if table.contains_key("collection") {
        Schema::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    }
}

#[test]
fn the_readme_runs_as_written() {
    let readme = std::fs::read_to_string(project().join("README.md")).unwrap();
    let mut reader = Reader::new();
    for block in blocks(&readme) {
        reader.read(&block);
    }
    for (command, reason) in NOT_RUN {
        assert!(
            reader.not_run.contains(command),
            "the README does not have {command:?}, which this test leaves out because it {reason}"
        );
    }
    assert!(reader.compared >= MIN_OUTPUTS, "{}", reader.compared);
}

#[test]
fn a_block_is_split_into_commands() {
    let block = "# A comment.\n\ncat > a <<'END'\n# one\n\nrecto two\nEND\nrecto page \\\n    orders  # three\n\
                 for id in 1 2; do\n    echo \"$id\n\"\ndone | cat\n";
    let commands = split_commands(block);
    assert_eq!(
        commands,
        [
            "cat > a <<'END'\n# one\n\nrecto two\nEND\n",
            "recto page \\\n    orders  # three\n",
            "for id in 1 2; do\n    echo \"$id\n\"\ndone | cat\n",
        ]
    );
    assert_eq!(
        without_comment("--store shop  # http://127.0.0.1:8080"),
        "--store shop"
    );
}
