"""Reads Rust: the code without comments, texts and tests, and the paths that the code names."""

import functools
import re
from typing import Iterator, Tuple

# Names from the root of a crate to a module or an item. The root is ().
Names = Tuple[str, ...]

NOT_CODE = re.compile(
    r"""//[^\n]*|/\*.*?\*/|\bb?r(#*)".*?"\1|"(?:\\.|[^"\\])*"|'(?:\\[^']+|[^\\'\n])'""", re.DOTALL
)
NOT_BUILT = re.compile(r"#\[cfg\((?:test|doc|all\(test\b[^\]]*)\)\]")
ATTRIBUTE = re.compile(r"\s*#\[[^\]]*\]")
ITEM = re.compile(r"\s*(?:pub|use|mod|fn|async|const|static|type|struct|enum|trait|impl|macro_rules)\b")
END_OR_BRACKET = re.compile(r"[(\[{}\]);,]")
USE = re.compile(r"\buse\s+([^;]+);")
USE_MARK = re.compile(r"[{},]")
PATH = re.compile(r"\b(?:crate|super|self)(?:\s*::\s*\w+)+")
INLINE_MODULE = re.compile(r"\bmod (\w+) (?=\{)")


def blank(text: str) -> str:
    """Replaces a text by spaces, so that offsets and line numbers remain the same."""
    return re.sub(r"[^\n]", " ", text)


def end_of_item(code: str, start: int) -> int:
    """Returns the end of the item, field or block that begins at an offset."""
    ends, depth = ";" if ITEM.match(code, start) else ";,", 0
    for found in END_OR_BRACKET.finditer(code, start):
        mark = found.group()
        if mark in "([{":
            depth += 1
        elif mark in ")]}":
            depth -= 1
            if depth < 0:
                return found.start()
            if depth == 0 and mark == "}":
                return found.end()
        elif depth == 0 and mark in ends:
            return found.end()
    return len(code)


@functools.lru_cache(maxsize=None)
def code_of(text: str) -> str:
    """Returns Rust with spaces in place of comments, texts, and items that only tests or documents use."""
    code = NOT_CODE.sub(lambda found: blank(found.group()), text)
    while found := NOT_BUILT.search(code):
        start = found.end()
        while attribute := ATTRIBUTE.match(code, start):
            start = attribute.end()
        end = end_of_item(code, start)
        code = code[: found.start()] + blank(code[found.start() : end]) + code[end:]
    return code


def use_paths(tree: str, start: int, prefix: Names = ()) -> Iterator[Tuple[int, Names, str]]:
    """Yields the paths of a `use` tree: for each its offset, its names, and the name that it introduces."""
    opening = tree.find("{")
    if opening < 0:
        path, _, alias = tree.partition(" as ")
        names = prefix + tuple(re.findall(r"\w+|\*", path))
        if len(names) > 1 and names[-1] == "self":
            names = names[:-1]
        yield start + len(tree) - len(tree.lstrip()), names, alias.strip() or names[-1]
        return
    prefix += tuple(re.findall(r"\w+", tree[:opening]))
    begin, depth = opening + 1, 0
    for found in USE_MARK.finditer(tree, begin):
        depth += (found.group() == "{") - (found.group() == "}")
        if depth < 0 or (depth == 0 and found.group() == ","):
            if part := tree[begin : found.start()].strip():
                yield from use_paths(part, start + begin + tree[begin:].index(part), prefix)
            begin = found.end()


def inline_modules(code: str) -> Iterator[Tuple[int, int, str]]:
    """Yields the begin, the end and the name of each `mod name { … }`."""
    for found in INLINE_MODULE.finditer(code):
        yield found.start(), end_of_item(code, found.end()), found.group(1)
