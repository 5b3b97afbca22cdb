"""The checks of the tree, except those of limits. The rules are in architecture.toml."""

import re
from pathlib import Path
from typing import Callable, Iterable, List

from architecture.limits import check_limits
from architecture.modules import describe_knot, knots
from architecture.tree import RULES, Tree

DOCUMENT = "ARCHITECTURE.md"
# A newcomer can read this much in ten minutes.
MAX_DOCUMENT_BYTES = 15 << 10

IMPURE = re.compile(
    r"\b(async fn|async move|\.await\b|tokio::|futures::"
    r"|std::(fs|process|thread|env)\b|std::net::(Tcp|Udp|ToSocketAddrs)|std::io::(stdin|stdout|stderr)\b"
    r"|std::time::(SystemTime|Instant)\b)"
)
# Code that only the files in architecture.toml may contain, by rule, with the reason.
FORBIDDEN_CODE = {
    "clock": (
        re.compile(
            r"\b(SystemTime::now|Instant::now|Timestamp::now|Zoned::now|Uuid::new_v4|Uuid::now_v[167]"
            r"|getrandom::|fastrand::|rand::|OsRng)"
        ),
        "time and randomness come from recto_model::Environment",
    ),
    "direction": (re.compile(r"\bReadDirection::"), "only Plan::slice chooses the direction of a slice"),
    "reversed": (re.compile(r"rows\.reverse\(\)"), "only a page reverses its rows"),
    "order": (re.compile(r"(?<!fn )\b(partial_cmp|total_cmp)\b"), "only recto_model::order compares values"),
    "prints": (re.compile(r"\b(e?print(ln)?|dbg)!\s*\("), "a library prints nothing"),
    "unbounded": (
        re.compile(r"\b(unbounded_channel|mpsc::channel\(\)|channel::unbounded)\b"),
        "every queue has a limit",
    ),
}
DERIVED_ORDER = re.compile(r"derive\([^)]*\bPartialOrd\b[^)]*\)\]\s*(?:#\[[^\]]*\]\s*)*pub (?:struct|enum) (\w+)")
OWN_ORDER = re.compile(r"impl(?:<[^>]*>)? (?:Partial)?Ord for (\w+)")
VERSION = re.compile(r"\bconst (\w*VERSION\w*): [ui]\w+ =")
# Paths of a developer's machine. The brackets keep this file from matching itself.
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:[w]ork|[r]oot|[h]ome/[a-z]\w*|[U]sers/\w+)/")
MODULE_DOCUMENT = re.compile(r"\A(?://[^!\n].*\n|\s)*//! *\S")
PATH_IN_DOCUMENT = re.compile(r"`([\w.-]+/[\w./-]*)`")
MARKDOWN_LINK = re.compile(r"\]\(([^()\s:#]*)(?:#([^()\s]+))?\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def compare_names(tree: Tree, rule: str, existing: Iterable[str], listed: Iterable[str], kind: str) -> None:
    """Reports names that only the tree or only architecture.toml has."""
    for name in sorted(set(existing) - set(listed)):
        tree.problem(rule, RULES, f"does not name the {kind} {name}")
    for name in sorted(set(listed) - set(existing)):
        tree.problem(rule, RULES, f"names the {kind} {name}, which does not exist")


def check_crates(tree: Tree) -> None:
    """A crate depends only on the crates that its line in `crates` names."""
    allowed = tree.rules["crates"]
    compare_names(tree, "crates", tree.packages, allowed, "crate")
    for crate in sorted(tree.packages.keys() & allowed.keys()):
        uses = set(allowed[crate]["uses"])
        in_tests = uses | set(allowed[crate].get("tests", [])) | {crate}
        own = [dependency for dependency in tree.packages[crate]["dependencies"] if dependency["name"] in tree.packages]
        for dependency in own:
            name, is_for_tests = dependency["name"], dependency["kind"] == "dev"
            if name not in (in_tests if is_for_tests else uses):
                where = "in its tests" if is_for_tests else "outside tests"
                tree.problem("crates", crate, f"depends on {name} {where}; {RULES} does not allow it")
        for name in sorted((in_tests - {crate}) - {dependency["name"] for dependency in own}):
            tree.problem("crates", RULES, f"allows {crate} to depend on {name}, which it does not")


def print_cycles(tree: Tree) -> None:
    for crate, folders in tree.arrows.items():
        for folder, arrows in sorted(folders.items()):
            for knot in knots(arrows):
                print(f"{crate}: {describe_knot(folder, arrows, knot)}\n")


def check_cycles(tree: Tree) -> None:
    """Modules of a folder name each other without cycles, except for the numbers in `cycles`."""
    allowed = dict(tree.rules["cycles"])
    for crate, folders in tree.arrows.items():
        for folder, arrows in sorted(folders.items()):
            name = "::".join((crate,) + folder)
            found, limit = list(knots(arrows)), allowed.pop(name, 0)
            number = sum(map(len, found))
            if number < limit:
                tree.remarks.append(f"fewer cycles: in {RULES}, lower {name} from {limit} to {number}")
            if number > limit:
                text = "\n".join(describe_knot(folder, arrows, knot) for knot in found)
                tree.problem("cycles", name, f"{number} modules are in cycles; {RULES} allows {limit}\n{text}")
    for name in allowed:
        tree.remarks.append(f"fewer cycles: in {RULES}, remove {name}, which does not exist")


def check_layers(tree: Tree) -> None:
    """A module names only modules of its own layer and of the layers before it."""
    for crate, layers in tree.rules["layers"].items():
        arrows = tree.arrows[crate][()]
        layer_of = {module: layer for layer, modules in layers.items() for module in modules}
        order = list(layers)
        compare_names(tree, "layers", arrows, layer_of, f"module of {crate}")
        for module, named in arrows.items():
            for name in named.keys() & layer_of.keys():
                if module in layer_of and order.index(layer_of[name]) > order.index(layer_of[module]):
                    what = f"{module} ({layer_of[module]}) names {name} of the later layer {layer_of[name]}"
                    tree.problem("layers", crate, f"{what}: {named[name][0]}")


def check_apart(tree: Tree) -> None:
    """Modules that are `apart` do not name each other."""
    for crate, modules in tree.rules["apart"].items():
        arrows = tree.arrows[crate][()]
        for module in modules:
            if module not in arrows:
                tree.problem("apart", RULES, f"names {crate}::{module}, which does not exist")
            for name in sorted(arrows.get(module, {}).keys() & set(modules)):
                tree.problem("apart", crate, f"{module} names {name}: {arrows[module][name][0]}")


def check_module_documents(tree: Tree) -> None:
    """Each module says in its first lines what it is for."""
    for modules in tree.modules.values():
        for module in modules:
            if not MODULE_DOCUMENT.match(module.text):
                tree.problem("modules", module.file, "does not begin with a sentence in `//!` about its subject")


def check_only(tree: Tree) -> None:
    """Only some crates depend on the external crates in `only`, and name them."""
    for crate, package in tree.packages.items():
        others = [external for external, allowed in tree.rules["only"].items() if crate not in allowed]
        for dependency in package["dependencies"]:
            if dependency["name"] in others:
                tree.problem("only", crate, f"depends on {dependency['name']}; {RULES} does not allow it")
        pattern = re.compile(rf"\b(?:{'|'.join(others)})::")
        tree.grep([crate], pattern, "only", f"{RULES} does not allow it in {crate}")


def check_pure(tree: Tree) -> None:
    """Pure crates do no I/O, run no tasks and read no clock."""
    pure = tree.rules["pure"]
    for crate in pure["crates"]:
        for dependency in tree.packages[crate]["dependencies"]:
            if dependency["kind"] is None and dependency["name"] in pure["forbidden"]:
                tree.problem("pure", crate, f"depends on {dependency['name']}")
    may = tree.rules["code"]["clock"]["except"]
    tree.grep(pure["crates"], IMPURE, "pure", "this crate does no I/O and runs no tasks", may)


def check_code(tree: Tree) -> None:
    """Only the files in `code` contain code that is forbidden elsewhere."""
    for rule, (pattern, what) in FORBIDDEN_CODE.items():
        scope = tree.rules["code"][rule]
        tree.grep(scope.get("crates", tree.packages), pattern, rule, what, scope["except"])


def check_order(tree: Tree) -> None:
    """Types that contain cells have no order of their own."""
    for module in tree.modules["recto-model"]:
        for name in DERIVED_ORDER.findall(module.code) + OWN_ORDER.findall(module.code):
            if name in tree.rules["order"]["types_without_order"]:
                tree.problem("order", module.file, f"{name} must have no order: the type of a column defines it")


def check_lints(tree: Tree) -> None:
    """All crates use the lints of the workspace, which forbid unsafe code."""
    for crate in tree.packages:
        manifest = tree.root / tree.folder(crate) / "Cargo.toml"
        if not re.search(r"^\[lints\]\nworkspace = true$", manifest.read_text(encoding="utf-8"), re.MULTILINE):
            tree.problem("lints", str(manifest.relative_to(tree.root)), "does not use the lints of the workspace")
    if 'unsafe_code = "forbid"' not in (tree.root / "Cargo.toml").read_text(encoding="utf-8"):
        tree.problem("lints", "Cargo.toml", "does not forbid unsafe code")


def check_formats(tree: Tree) -> None:
    """Every version of stored bytes has a golden file."""
    formats = tree.rules["formats"]
    listed = set()
    for file, constant, golden in formats["versions"]:
        listed.add((file, constant))
        text = (tree.root / file).read_text(encoding="utf-8")
        if not (found := re.search(rf"const {constant}: \w+ = (\d+);", text)):
            tree.problem("formats", file, f"has no {constant}")
            continue
        for version in range(1, int(found.group(1)) + 1):
            if not (tree.root / golden.format(version)).is_file():
                what = f"{constant} is {found.group(1)}, but {golden.format(version)} is missing"
                tree.problem("formats", file, what)
    for crate in tree.modules.keys() - set(tree.rules["tools"]["crates"]):
        for module in tree.modules[crate]:
            for name in VERSION.findall(module.code):
                if name not in formats["not_versions"] and (module.file, name) not in listed:
                    tree.problem("formats", module.file, f"{name} has no golden files: list them in {RULES}")


def check_required(tree: Tree) -> None:
    """Callers cannot omit deadlines and limits."""
    for file, name, fields in tree.rules["required"]["fields"]:
        text = (tree.root / file).read_text(encoding="utf-8")
        body = re.search(rf"pub struct {name} \{{(.*?)\n\}}", text, re.DOTALL)
        for field in fields:
            if not body or f"pub {field}," not in body.group(1):
                tree.problem("required", file, f"{name} has no field `{field}`")


def check_dependencies(tree: Tree) -> None:
    """Each external dependency has a reason."""
    listed = {name for names in tree.rules["dependencies"] for name in names.split()}
    used = {dependency["name"] for package in tree.packages.values() for dependency in package["dependencies"]}
    for name in sorted(used - tree.packages.keys() - listed):
        tree.problem("dependencies", RULES, f"has no reason for {name}")
    for name in sorted(listed - used):
        tree.problem("dependencies", RULES, f"has a reason for {name}, which no crate uses")


def check_document(tree: Tree) -> None:
    """ARCHITECTURE.md is short, names each crate, and names only files that exist."""
    text = (tree.root / DOCUMENT).read_text(encoding="utf-8")
    if (size := len(text.encode())) > MAX_DOCUMENT_BYTES:
        tree.problem("document", DOCUMENT, f"has {size} bytes; {MAX_DOCUMENT_BYTES} are allowed")
    for crate in tree.packages:
        if f"`{crate}`" not in text:
            tree.problem("document", DOCUMENT, f"does not name the crate {crate}")
    for path in PATH_IN_DOCUMENT.findall(FENCE.sub("", text)):
        if not (tree.root / path).exists() and not (tree.root / "crates" / path).exists():
            tree.problem("document", DOCUMENT, f"names {path}, which does not exist")


def anchors(text: str) -> List[str]:
    """Returns the anchors that GitHub gives to the headings of a text."""
    return [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in HEADING.findall(text)]


def check_files(tree: Tree) -> None:
    """No file contains a path of one machine, and links in Markdown lead to files and headings that exist."""
    for name, text in tree.files():
        for number, line in enumerate(text.splitlines(), 1):
            if found := MACHINE_PATH.search(line):
                tree.problem("files", f"{name}:{number}", f"{found.group(0)} is a path of one machine")
        if not name.endswith(".md") or "/src/" in name:
            continue
        for path, anchor in MARKDOWN_LINK.findall(FENCE.sub("", text)):
            target = (tree.root / name).parent / path if path else tree.root / name
            if not target.exists():
                tree.problem("files", name, f"links to {path}, which does not exist")
            elif anchor and target.suffix == ".md" and anchor not in anchors(target.read_text(encoding="utf-8")):
                tree.problem("files", name, f"links to {path}#{anchor}; there is no such heading")


CHECKS: List[Callable[[Tree], None]] = [
    check_crates,
    check_cycles,
    check_layers,
    check_apart,
    check_module_documents,
    check_only,
    check_pure,
    check_code,
    check_order,
    check_lints,
    check_formats,
    check_required,
    check_dependencies,
    check_document,
    check_limits,
    check_files,
]


def check(root: Path) -> Tree:
    """Returns the tree with the problems that the checks found."""
    tree = Tree(root)
    for one in CHECKS:
        one(tree)
    return tree
