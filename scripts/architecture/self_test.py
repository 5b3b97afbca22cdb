"""Tests check-architecture: plants violations in a copy of the tree, and expects exactly these."""

import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Callable, Dict, List, Tuple

from architecture.checks import DOCUMENT, check
from architecture.limits import DOCUMENT as LIMITS
from architecture.limits import write_limits
from architecture.modules import Crate, describe_knot, find_modules, knots
from architecture.tree import RULES, report

Change = Callable[[str], str]


def append(text: str) -> Change:
    return lambda old: f"{old}\n{text}\n"


def replace(old_text: str, new_text: str) -> Change:
    def change(old: str) -> str:
        if old_text not in old:
            sys.exit(f"self-test: {old_text!r} is not in the file")
        return old.replace(old_text, new_text, 1)

    return change


def code(text: str) -> Change:
    """Puts code before the first import or module of a source file."""
    return lambda old: re.sub(r"\n(use |mod |pub mod )", lambda found: f"\n{text}\n{found.group(1)}", old, count=1)


def depend_on(crate: str) -> Change:
    return replace("[dependencies]", f"[dependencies]\n{crate}")


# A problem to expect, a file in the project or in `crates`, and the change that causes the problem.
VIOLATIONS: List[Tuple[str, str, Change]] = [
    ("recto-embedded: depends on recto-plan", "recto-embedded/Cargo.toml", depend_on("recto-plan.workspace = true")),
    ("depends on recto in its tests", "recto-api/Cargo.toml", append('[dev-dependencies.recto]\npath = "../recto"')),
    ("to depend on recto-fuzz", RULES, replace("recto-store = { uses = [", 'recto-store = { uses = ["recto-fuzz", ')),
    ("does not name the crate recto-client", RULES, replace("\nrecto-client = {", "\nrecto-attic = {")),
    ("names the crate recto-attic, which does not exist", RULES, append("# attic")),
    ("rights names problem: ", "recto-server/src/rights.rs", code("use crate::problem::Problem;")),
    ("settings names sources: ", "recto-server/src/config/settings.rs", code("use super::sources::MAX_CONFIG_BYTES;")),
    ("row names writer: ", "recto-embedded/src/row.rs", code("fn one() { crate::writer::two(); }")),
    ("design (common) names shared of the later layer state", "recto/src/design.rs", append("use super::shared::A;")),
    ("does not name the module of recto planned", RULES, replace(', "planned"', "")),
    ("apart: recto-protocol: views names queues", "recto-protocol/src/views/write.rs", code("use crate::queues::A;")),
    ("modules: crates/recto/src/pace.rs", "recto/src/pace.rs", lambda old: re.sub(r"\A(//!.*\n)+", "", old)),
    ("recto: depends on scylla", "recto/Cargo.toml", depend_on("scylla.workspace = true")),
    ("only: crates/recto/src/batch.rs:3: redb::", "recto/src/batch.rs", code("use redb::Database;")),
    ("pure: recto-protocol: depends on tokio", "recto-protocol/Cargo.toml", depend_on("tokio.workspace = true")),
    ("pure: crates/recto-model/src/key.rs", "recto-model/src/key.rs", code("use std::fs::File;")),
    ("pure: crates/recto-plan/src/planner.rs", "recto-plan/src/planner.rs", code("async fn wait() {}")),
    ("clock: crates/recto/src/core.rs", "recto/src/core.rs", code("fn now() { std::time::Instant::now(); }")),
    ("clock: crates/recto-cassandra/src/cas.rs", "recto-cassandra/src/cas.rs", code("fn id() { Uuid::new_v4(); }")),
    ("direction: crates/recto/src/explain.rs", "recto/src/explain.rs", code("fn d() { ReadDirection::Backward; }")),
    ("reversed: crates/recto/src/filter.rs", "recto/src/filter.rs", code("fn d() { rows.reverse(); }")),
    ("order: crates/recto-embedded/src/read.rs", "recto-embedded/src/read.rs", code("fn d() { a.total_cmp(b); }")),
    ("Cells must have no order", "recto-model/src/cells.rs", append("impl Ord for Cells {}")),
    ("prints: crates/recto/src/collection.rs", "recto/src/collection.rs", code('fn d() { println!("here"); }')),
    ("unbounded: crates/recto/src/scan.rs", "recto/src/scan.rs", code("fn d() { mpsc::unbounded_channel(); }")),
    ("lints: crates/recto-plan/Cargo.toml", "recto-plan/Cargo.toml", replace("[lints]\nworkspace = true", "")),
    ("lints: Cargo.toml: does not forbid unsafe code", "Cargo.toml", replace('unsafe_code = "forbid"', "")),
    ("keys-v2.txt is missing", "recto-model/src/key.rs", replace("FORMAT_VERSION: u8 = 1", "FORMAT_VERSION: u8 = 2")),
    ("SOME_VERSION has no golden files", "recto/src/change.rs", code("const SOME_VERSION: u8 = 1;")),
    ("Slice has no field", "recto-model/src/table.rs", replace("pub limit: u32,", "pub limit: Option<u32>,")),
    ("has no reason for left-pad", "recto-cli/Cargo.toml", depend_on('left-pad = "1"')),
    ("has a reason for right-pad", RULES, append('right-pad = "none"')),
    ("does not name the crate recto-remote", DOCUMENT, lambda old: old.replace("`recto-remote`", "")),
    ("document: ARCHITECTURE.md: names recto/src/attic.rs", DOCUMENT, append("See `recto/src/attic.rs`.")),
    ("bytes; 15360 are allowed", DOCUMENT, append("word " * 4_000)),
    ("MAX_BOXES has no documentation", "recto/src/filter.rs", code("pub const MAX_BOXES: u32 = 3;")),
    ("limits: docs/limits.md: is out of date", LIMITS, append("| `MAX_BOXES` |")),
    ("files: README.md:", "README.md", append("see /" + "home/" + "somebody/notes")),
    ("files: README.md: links to docs/attic.md", "README.md", append("[attic](docs/attic.md)")),
    ("files: CONTRIBUTING.md: links to README.md#attic", "CONTRIBUTING.md", append("[attic](README.md#attic)")),
]

# A crate to test how arrows are found. `a` and `b` form a cycle through a re-export, and so do the children
# of `c`. Tests, comments and texts name nothing.
PLANTED_CRATE: Dict[str, str] = {
    "lib.rs": "mod a;\nmod b;\npub(crate) mod c;\nmod d;\n#[cfg(test)]\nmod e;\nmod f;\nmod g;\npub use b::B as New;\n",
    "a.rs": "use crate::{\n    New,\n    c::{self, one::{One}},\n};\n",
    "b.rs": 'use super::c as x;\n// use crate::d;\nconst A: &str = "crate::d";\nfn f() { crate::a::g() }\n',
    "c.rs": "mod one;\nmod two;\nuse one::*;\nstruct Own;\n",
    "c/one.rs": "pub struct One;\nfn f<'a>(own: &'a super::Own, two: super::two::Two) -> char { '\"' }\n",
    "c/two.rs": "use super::{One, Own};\nmod inline { use super::super::super::d::D; }\npub struct Two;\n",
    "d.rs": "pub use super::f::F;\n#[cfg(test)]\nuse crate::a;\n#[cfg(test)]\nmod tests {\n    use crate::b::B;\n}\n",
    "e.rs": "use crate::a;\n",
    "f.rs": "pub struct F;\n",
    "g.rs": "use crate::d::F;\n",
}
PLANTED_ARROWS = {"a b", "a c", "b a", "b c", "c d", "d f", "g d", "g f", "c::one c::two", "c::two c::one"}
PLANTED_KNOT = """\
2 modules of crate::c name each other: one, two
  cycle one → two → one
    one names two: c/one.rs:2: fn f<'a>(own: &'a super::Own, two: super::two::Two) -> char { '"' }
    two names one: c/two.rs:1: use super::{One, Own};"""


def test_arrows(folder: Path) -> None:
    for name, text in PLANTED_CRATE.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    folders = Crate(find_modules([folder / "lib.rs"], folder)).arrows()
    found = {
        " ".join("::".join((*names, module)) for module in pair)
        for names, arrows in folders.items()
        for first, named in arrows.items()
        for pair in ((first, second) for second in named)
    }
    if found != PLANTED_ARROWS:
        sys.exit(f"self-test: arrows that differ: {sorted(found ^ PLANTED_ARROWS)}")
    (knot,) = knots(folders[("c",)])
    if describe_knot(("c",), folders[("c",)], knot) != PLANTED_KNOT:
        sys.exit(f"self-test: wrong description:\n{describe_knot(('c',), folders[('c',)], knot)}")


def test_violations(copy: Path) -> None:
    """Plants all violations, and expects a problem for each and no other problem."""
    texts: Dict[Path, str] = {}
    for _, name, change in VIOLATIONS:
        path = copy / name if (copy / name).is_file() else copy / "crates" / name
        text = texts.get(path) or path.read_text(encoding="utf-8")
        texts[path] = change(text)
        if texts[path] == text:
            sys.exit(f"self-test: {name} did not change")
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    problems = [": ".join(problem) for problem in check(copy).problems]
    expected = [problem for problem, _, _ in VIOLATIONS]
    missed = [text for text in expected if not any(text in problem for problem in problems)]
    wrong = [problem for problem in problems if not any(text in problem for text in expected)]
    if missed or wrong:
        sys.exit("\n".join([f"not found: {text}" for text in missed] + [f"not planted: {text}" for text in wrong]))


def test_numbers(copy: Path) -> None:
    """Expects a remark if cycles are fewer than recorded, and a problem if a limit differs from docs/limits.md."""
    for name, change in [
        (RULES, replace("[cycles]\n", "[cycles]\nrecto = 2\nrecto-attic = 3\n")),
        ("crates/recto-api/src/pages/mod.rs", replace("MAX_PAGE_SIZE: u32 = 1_000", "MAX_PAGE_SIZE: u32 = 1_001")),
    ]:
        text = (copy / name).read_text(encoding="utf-8")
        (copy / name).write_text(change(text), encoding="utf-8")
    tree = check(copy)
    if [problem[:2] for problem in tree.problems] != [("limits", LIMITS)] or len(tree.remarks) != 2:
        report(tree)
        sys.exit("self-test: expected two remarks and an outdated docs/limits.md")
    write_limits(tree)
    if check(copy).problems:
        sys.exit("self-test: --write-limits did not bring docs/limits.md up to date")


def self_test(root: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        test_arrows(Path(folder) / "planted")
        copy = Path(folder) / "recto"
        ignored = shutil.ignore_patterns("target", ".git", "node_modules", "*.zip")
        shutil.copytree(root, copy, ignore=ignored, symlinks=True)
        test_numbers(copy)
        test_violations(copy)
        print(f"architecture self-test: found {len(VIOLATIONS)} planted violations")
