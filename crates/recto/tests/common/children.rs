//! Child processes that tests start, stop or kill. Each child executes an ignored test of the same
//! test program.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::Sender;

/// Returns the path of a test function in the form that the test harness accepts as a filter:
/// without the name of the program.
pub(crate) fn path_of<Test>(_test: Test) -> &'static str {
    let path = std::any::type_name::<Test>();
    path.split_once("::").map_or(path, |(_program, path)| path)
}

/// Starts an ignored test in a child process with the given environment variables. Sends each line
/// that the child prints to `lines`. A child may stop when its standard input ends.
pub(crate) fn spawn(test: &str, variables: &[(&str, String)], lines: &Sender<String>) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        // Use two test threads: with only one, the harness would print the test's name before the
        // first line of the child.
        .args(["--ignored", "--exact", test, "--nocapture", "--test-threads=2"])
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (output, lines) = (BufReader::new(child.stdout.take().unwrap()), lines.clone());
    std::thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            if lines.send(line).is_err() {
                return;
            }
        }
    });
    child
}

/// Kills a child process and waits for its end.
pub(crate) fn kill(child: &mut Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}
