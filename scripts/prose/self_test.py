"""Tests check-prose: plants texts in temporary trees, and expects exactly the planted hits."""

import collections
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Counter, Dict, List, Tuple

from prose.findings import Findings
from prose.measures import MEASURES
from prose.recorded import HITS_FILE
from prose.subjects import subject_problem
from prose.tree import git, read_tree

SCRIPT = Path(__file__).resolve().parent.parent / "check-prose"

# Texts to plant, by path. A mark such as `⟦docs: odd, long⟧` says that its line has exactly these hits
# of the group `docs`. `⟦docs+: odd⟧` says so of the line before. Lines without marks have no hits. The
# planted files do not contain the marks.
PLANTED = {
    "README.md": """\
# What this heading says is not measured

A sweep deletes the rest of what is left. ⟦readme: headless⟧
""",
    "docs/guide.md": """\
The load begins anew. It reports each row. ⟦docs: odd⟧
A sentence may
go over several lines of what is left. ⟦docs+: headless⟧

- Of the hidden rows such a token learns nothing. ⟦docs: inverted⟧
- With one node down, a store can be opened. By default, it is encrypted. Where possible, it is local.
- This is what keeps it safe. The user, who may read it, sees in what order it happens. All the same rules hold.
- What is a view? Who may read it?
- Run `recto mend anew`, or see [a page](what.md), and look for "what is left of it".

```sh
what is left of it   # anew
```

<!-- what is left of it -->
> Whoever reads this, whoever writes it. ⟦docs: headless, headless, inverted⟧

| Command | Meaning |
|---|---|
| `sweep` | deletes the rest of what is left ⟦tables: headless⟧ |
| `sweep` | deletes files |

The steps are: one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen. ⟦docs:⟧
The steps are: one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen \
seventeen eighteen nineteen twenty one two three four five six seven eight. ⟦docs: long⟧
""",
    "crates/recto/README.md": "The server goes on with the next row. ⟦docs: odd⟧\n",
    "CONTRIBUTING.md": "Nobody reads this. ⟦docs: odd⟧\n",
    "ARCHITECTURE.md": "The engine looks after its files. ⟦architecture: odd⟧\n",
    "CHANGELOG.md": "- Added: an option, by whoever asked. ⟦changelog: headless⟧\n",
    "docs/drawing.svg": "The rest of what is left.\n",
    "notes.md": "This file is in no group: the rest of what is left.\n",
    "crates/recto/src/lib.rs": """\
//! What an interrupted run left. ⟦doc-comments: headless, inverted, bad-start⟧
//!
//! Where the second paragraph begins is free. ⟦doc-comments: inverted⟧

/// Returns the number of rows.
///
/// ```
/// // The rest of what is left is an example.
/// ```
/// | `a` | the rest of what is left ⟦tables: headless⟧ |
pub struct Rows<'a>(&'a str);

/// It ended. ⟦doc-comments: bad-start⟧
pub struct Until(/* The rest of what is left. */ bool); ⟦names: empty-type-names⟧
pub struct UntilEnd; // Begin anew after a crash. ⟦code-comments: odd⟧

impl Rows<'_> {
    // Yield, so that empty reads do not starve other tasks: these go on. ⟦code-comments: odd⟧
    pub(crate) async fn what_is_left(&self) -> char { ⟦names: question-names⟧
        let quote = '"'; // A quote in a character begins no string.
        let url = "https://example.org/ // of what is left"; ⟦strings: headless⟧
        let raw = r#"the "rest" of what is left"#; ⟦strings: headless⟧
        let lines = "the first line \\
            continues anew\\nThe second does not"; ⟦strings+: odd⟧
        let query = "SELECT anew FROM what is left";
        let braces = "rows {anew} of {whoever} remain in the {{view}}";
        fail("Why it failed, and where.", "anew", "of what")
    }
    fn whatsoever(&self) {}
    fn remaining(&self) {}
}

#[cfg(test)]
mod tests {
    #[test]
    #[should_panic]
    fn a_test_whose_name_has_exactly_sixty_characters_is_accepted_x() {}

    #[tokio::test(flavor = "multi_thread")]
    async fn a_test_whose_name_has_sixty_one_characters_is_found_by_this_xx() { ⟦names: long-test-names⟧
        let text = "the rest of what is left, in a test";
    }
    fn a_function_whose_name_has_over_sixty_characters_but_which_is_no_test() {}
}
""",
    "crates/recto/src/tests/rows.rs": 'const TEXT: &str = "the rest of what is left";\n',
    "crates/recto/tests/rows.rs": """\
const TEXT: &str = "the rest of what is left"; // Rows lie there. ⟦code-comments: odd⟧
""",
    "fuzz/src/main.rs": "/// The same as before. ⟦doc-comments: bad-start⟧\nfn main() {}\n",
    "scripts/run": """\
#!/bin/sh
#
#   run ADDRESS   the rest of what is left
#
# Starts the server anew. ⟦code-comments: odd⟧
echo 'the rest of what is left' # anew
""",
    "examples/client.ts": "// Sends the rest of what is left. ⟦code-comments: headless⟧\nlet x = 1; // anew\n",
    "console/htmx.min.js": "// Begins anew.\n",
}
MARK = re.compile(r" ⟦([a-z-]+)(\+?):([a-z, -]*)⟧")

GOOD_SUBJECTS = [
    "queue: clear a deleted queue before reusing its slot",
    "docs/book, readme: rewrite the first page",
    "recto-cli 2: let `load` resume",
    "x: " + "y" * 69,
]
BAD_SUBJECTS = [
    "x: " + "y" * 70,
    "Make the queue faster",
    "Queue: make it faster",
    "queue:make it faster",
    "queue: ",
    "queue: adds a limit",
    "queue: removed the limit",
    "queue: the limit is larger",
    "tests: who dies may leave an entry",
]


class SelfTest:
    """Counts checks and failures."""

    def __init__(self) -> None:
        self.checks = self.failures = 0

    def expect(self, is_met: bool, message: str) -> None:
        self.checks += 1
        if not is_met:
            self.failures += 1
            print(f"self-test: {message}", file=sys.stderr)

    def expect_run(self, root: Path, arguments: List[str], status: int, *texts: str, absent: str = "") -> str:
        """Runs this script on a tree, and expects an exit status and texts in the output."""
        command = [sys.executable, str(SCRIPT), "--root", str(root), *arguments]
        ended = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
        output = ended.stdout + ended.stderr
        name = f"check-prose {' '.join(arguments)}"
        self.expect(ended.returncode == status, f"{name}: exit status {ended.returncode}, not {status}:\n{output}")
        for text in texts:
            self.expect(text in output, f"{name}: the output has no {text!r}:\n{output}")
        self.expect(not absent or absent not in output, f"{name}: the output has {absent!r}:\n{output}")
        return output


def plant(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text, encoding="utf-8")


def test_examples(test: SelfTest) -> None:
    for name, measure in MEASURES.items():
        alike = [other for other in MEASURES if MEASURES[other].unit == measure.unit]
        for text, expected in ((measure.bad, [name]), (measure.good, [])):
            found = [other for other in alike for _ in MEASURES[other].find(text)]
            test.expect(found == expected, f"{name}: {text!r} has the hits {found}, not {expected}")


def test_planted(test: SelfTest, root: Path) -> None:
    """Each kind of file has exactly the planted hits, at the lines where they were planted."""
    expected: Counter[Tuple[str, str, str, int]] = collections.Counter()
    for path, text in PLANTED.items():
        for number, line in enumerate(text.split("\n"), 1):
            for mark in MARK.finditer(line):
                group, earlier, names = mark.groups()
                expected.update((group, name, path, number - len(earlier)) for name in re.findall(r"[a-z-]+", names))
        plant(root, path, MARK.sub("", text))
    found = collections.Counter((hit.group, hit.measure, hit.path, hit.line) for hit in Findings(read_tree(root)).hits)
    for hit in expected - found:
        test.expect(False, f"not found: {hit}")
    for hit in found - expected:
        test.expect(False, f"found, but not planted: {hit}")
    test.checks += sum(expected.values())


AUTHOR = ["-c", "user.name=self-test", "-c", "user.email=self-test@localhost"]


def commit(root: Path, subject: str) -> None:
    git(root, "add", "--all")
    made = git(root, *AUTHOR, "commit", "--quiet", "--allow-empty", "--no-verify", "-m", subject)
    if made.returncode != 0:
        sys.exit(f"self-test: git commit failed: {made.stderr.decode()}")


def test_numbers(test: SelfTest, root: Path) -> None:
    """A rise fails and names the new sentences only; a fall is recorded by --lower; a rise is not."""
    page, hits = "docs/page.md", root / HITS_FILE
    old = "Text has the rest of what is old.\n\n"
    plant(root, "README.md", "Recto is a database for sorted lists.\n")
    plant(root, page, old * 2)
    test.expect_run(root, [], 1, "docs: headless: no number is recorded", "NOT CHECKED: commit subjects")
    test.expect_run(root, ["--lower"], 0)
    test.expect_run(root, ["--strict"], 0, "no number rose")
    # Without git, the check cannot tell new sentences from old ones, so it shows both.
    plant(root, page, old * 3)
    test.expect_run(root, [], 1, "docs: headless: rose from 2 to 3 hits", "what is old")
    plant(root, page, old * 2)
    git(root, "init", "--quiet")
    commit(root, "docs: add a page")
    # A sentence that moved to another file does not count as new.
    plant(root, page, "")
    plant(root, "docs/moved.md", old * 2)
    commit(root, "docs: move the page")
    test.expect_run(root, [], 0)
    plant(root, page, "Text has the rest of what is new.\n")
    rose = ["docs: headless: rose from 2 to 3 hits", "docs/page.md:1: headless (what is)", "--list docs"]
    test.expect_run(root, [], 1, *rose, absent="what is old")
    before = hits.read_text(encoding="utf-8")
    test.expect_run(root, ["--lower"], 1, "never raises a number")
    test.expect(hits.read_text(encoding="utf-8") == before, "--lower raised a number")
    # The budget allows 3 hits in 3,500 words.
    plant(root, "docs/good.md", "Recto reads one page of one view.\n\n" * 500)
    test.expect_run(root, [], 0)
    test.expect_run(root, ["--lower"], 0)
    test.expect(hits.read_text(encoding="utf-8") == before, "--lower raised a number that is within the budget")
    for path in ("docs/good.md", "docs/moved.md", page):
        (root / path).unlink()
    test.expect_run(root, [], 0, "docs headless 2 → 0")
    test.expect_run(root, ["--strict"], 1, "docs headless 2 → 0")
    test.expect_run(root, ["--lower"], 0)
    test.expect_run(root, ["--strict"], 0)
    test.expect(json.loads(hits.read_text(encoding="utf-8"))["docs"]["headless"] == 0, "--lower did not record a fall")
    plant(root, "README.md", "Recto keeps a list of what is left.\n")
    over = "readme: headless: 1 hits; the budget allows 0"
    output = test.expect_run(root, ["--json"], 1)
    measured = json.loads(output)
    test.expect(measured["groups"]["readme"]["measures"]["headless"]["hits"] == 1, "--json does not count the README")
    test.expect(measured["problems"][0].startswith(over), "--json does not have the problem")
    test.expect_run(root, [], 1, over, "README.md:1: headless (what is)")
    test.expect_run(root, ["--list", "readme", "README.md"], 0, "README.md:1: headless (what is)", "1 hits")
    test.expect_run(root, ["--list", "all", "docs"], 0, "0 hits")
    plant(root, "README.md", "")
    plant(root, HITS_FILE, "<<<<<<< HEAD\n")
    test.expect_run(root, [], 1, "hint: after a merge conflict")
    test.expect_run(root, ["--list", "paragraphs"], 2)


def test_subjects(test: SelfTest, root: Path) -> None:
    for subject in GOOD_SUBJECTS:
        test.expect(not subject_problem(subject), f"the subject {subject!r} is good")
    for subject in BAD_SUBJECTS:
        test.expect(bool(subject_problem(subject)), f"the subject {subject!r} is bad")
    test.expect_run(root, ["--lower"], 0)
    git(root, "init", "--quiet")
    commit(root, "A long subject of the time before the rule, which is accepted, since only later commits are checked")
    since = ["--since", git(root, "rev-parse", "HEAD").stdout.decode().strip()]
    commit(root, GOOD_SUBJECTS[0])
    test.expect_run(root, since, 0, "1 commit subjects checked")
    test.expect_run(root, [], 0, "NOT CHECKED: commit subjects; commit 0e4beeb8 is not in the history")
    git(root, "checkout", "--quiet", "-b", "side", "HEAD~1")
    commit(root, GOOD_SUBJECTS[1])
    git(root, *AUTHOR, "merge", "--quiet", "--no-ff", "-m", "Merge a branch", "@{-1}")
    test.expect_run(root, since, 0, "2 commit subjects checked")
    commit(root, BAD_SUBJECTS[0])
    test.expect_run(root, since, 1, "has 73 characters, of at most 72", BAD_SUBJECTS[0])
    with tempfile.TemporaryDirectory() as folder:
        git(root, "clone", "--quiet", "--depth", "1", root.as_uri(), folder)
        test.expect_run(Path(folder), since, 0, "NOT CHECKED: commit subjects; the history is shallow")


def self_test() -> int:
    test = SelfTest()
    test_examples(test)
    # Ignore the settings of the user and of the machine, because they would change the results of
    # git.
    os.environ.update(GIT_CONFIG_GLOBAL=os.devnull, GIT_CONFIG_NOSYSTEM="1")
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        os.environ.pop(name, None)
    for part in (test_planted, test_numbers, test_subjects):
        with tempfile.TemporaryDirectory() as folder:
            part(test, Path(folder).resolve())
    if test.failures:
        print(f"prose self-test: {test.failures} of {test.checks} checks failed", file=sys.stderr)
        return 1
    print(f"prose self-test: {test.checks} checks passed")
    return 0
