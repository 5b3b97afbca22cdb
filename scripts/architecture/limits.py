"""Writes docs/limits.md from the constants that are limits, and from their documentation."""

import operator
import re
from typing import List, NamedTuple, Tuple

from architecture.tree import RULES, Tree

DOCUMENT = "docs/limits.md"
WRITE_COMMAND = "scripts/check-architecture --write-limits"
HEADER = f"""\
# Limits

These are the public limits of each crate, and other limits that users notice.
`{WRITE_COMMAND}` writes this file from the documentation of the constants.
"""
CONSTANT = re.compile(r"^ *(pub(?:\([a-z]+\))? )?const ([A-Z_]+): [^=;]+=\s*([^;]+);", re.MULTILINE)
PUBLIC_LIMIT = re.compile(r"(?:MAX|DEFAULT)_")
NUMBER = re.compile(r"(\d[\d_]*)(?: (<<|\*) (\d[\d_]*))?")
OPERATORS = {"<<": operator.lshift, "*": operator.mul}
DURATION = re.compile(r"Duration::from_(secs|millis)\((\d[\d_]*)\)")
UNITS = {"secs": "s", "millis": "ms"}
BYTE_UNITS = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")]
# A link in the documentation of an item: [text](path) or [`path`].
LINK = re.compile(r"\[([^\]]+)\](?:\([^)]*\))?")


class Limit(NamedTuple):
    name: str
    value: str
    meaning: str
    file: str
    # The names of the module and of the constant, as in architecture.toml.
    path: str


def value_text(name: str, expression: str) -> str:
    """Writes a value for people: `1 << 20` bytes as 1 MiB. Writes other expressions as they are."""
    if found := DURATION.fullmatch(expression):
        return f"{found.group(2).replace('_', ',')} {UNITS[found.group(1)]}"
    if not (found := NUMBER.fullmatch(expression)):
        return f"`{expression}`"
    left, symbol, right = found.groups()
    number = OPERATORS[symbol](int(left), int(right)) if symbol else int(left)
    if "BYTES" in name:
        for size, unit in BYTE_UNITS:
            if number >= size and number % size == 0:
                return f"{number // size:,} {unit}"
    return f"{number:,}" if number >= 10_000 else str(number)


def meaning_text(text_before: str) -> str:
    """Returns the first paragraph of the doc comment that ends before an item, without links."""
    paragraph: List[str] = []
    for line in reversed(text_before.splitlines()):
        line = line.strip()
        if line == "///":
            paragraph = []
        elif line.startswith("///"):
            paragraph.insert(0, line[3:].strip())
        elif not line.startswith("#["):
            break
    return LINK.sub(r"\1", " ".join(paragraph)).replace("|", r"\|")


def limits_of(tree: Tree, crate: str) -> List[Limit]:
    also = tree.rules["limits"].get(crate, [])
    limits = []
    for module in tree.modules[crate]:
        for found in CONSTANT.finditer(module.text):
            visibility, name, expression = found.groups()
            # The code of a test is blank.
            is_built = module.code[found.end() - 1] == ";"
            is_public = visibility == "pub " and PUBLIC_LIMIT.match(name)
            path = "::".join(module.names + (name,))
            if is_built and (is_public or path in also):
                value = value_text(name, " ".join(expression.split()))
                meaning = meaning_text(module.text[: found.start()])
                limits.append(Limit(name, value, meaning, module.file, path))
    return sorted(limits)


def sections(tree: Tree) -> List[Tuple[str, List[Limit]]]:
    tools = tree.rules["tools"]["crates"]
    return [(crate, limits) for crate in tree.modules if crate not in tools and (limits := limits_of(tree, crate))]


def document(tree: Tree) -> str:
    text = HEADER
    for crate, limits in sections(tree):
        folder = str(tree.folder(crate))
        text += f"\n## {crate}\n\n| limit | value | meaning | file in `{folder}` |\n|---|---|---|---|\n"
        for limit in limits:
            file = limit.file.removeprefix(folder + "/")
            text += f"| `{limit.name}` | {limit.value} | {limit.meaning} | `{file}` |\n"
    return text


def write_limits(tree: Tree) -> None:
    (tree.root / DOCUMENT).write_text(document(tree), encoding="utf-8")


def check_limits(tree: Tree) -> None:
    found = sections(tree)
    for _, limits in found:
        for limit in limits:
            if not limit.meaning:
                tree.problem("limits", limit.file, f"{limit.name} has no documentation")
    listed = {(crate, limit.path) for crate, limits in found for limit in limits}
    for crate, paths in tree.rules["limits"].items():
        for path in paths:
            if (crate, path) not in listed:
                tree.problem("limits", crate, f"has no constant {path}, which {RULES} names")
    path = tree.root / DOCUMENT
    if not path.is_file() or path.read_text(encoding="utf-8") != document(tree):
        tree.problem("limits", DOCUMENT, f"is out of date; run {WRITE_COMMAND}")
