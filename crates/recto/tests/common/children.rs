//! Processes that a test starts, to stop or kill them: ignored tests of the same binary.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::Sender;

/// Returns the path of a test of this program as the test harness takes it: without the program's name.
pub(crate) fn path_of<Test>(_test: Test) -> &'static str {
    let path = std::any::type_name::<Test>();
    path.split_once("::").map_or(path, |(_program, path)| path)
}

/// Starts an ignored test in a process of its own, with these variables; what it prints is sent on, line by line. It may
/// take the end of its input for the word to end.
pub(crate) fn spawn(test: &str, variables: &[(&str, String)], lines: &Sender<String>) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        // Of one thread, it would put the test's name before the first line that is printed.
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

/// Kills a process at once.
pub(crate) fn kill(child: &mut Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}
