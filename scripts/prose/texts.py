"""Extracts the prose and the names of a file: passages without markup and code, with line numbers."""

import bisect
import os
import re
from typing import Callable, List, NamedTuple

# Skip the string literals in these files, because users do not see them.
STRINGS_SKIP = re.compile(r"(?:^|/)(?:tests|conformance|snapshots|recto-testkit)/|tests\.rs$")
# Skip statements of CQL and SQL, because they are not prose.
STATEMENT = re.compile(r"\s*(?:SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP|BEGIN|TRUNCATE|GRANT|LIST|USE)\s")
# Skip shorter literals, which are names, keywords or parts of paths.
MIN_LITERAL_WORDS = 3
# Skip shorter passages, which have no sentence to judge.
MIN_WORDS = 3

# Skip the comments of these files, because they contain planted bad comments.
NO_COMMENTS = ("scripts/prose/self_test.py",)
HASH_COMMENT_SUFFIXES = {".py", ".sh", ".toml"}
SLASH_COMMENT_SUFFIXES = {".js", ".mjs", ".ts"}
# Programs without a suffix are in these folders.
HASH_COMMENT_FOLDERS = ("scripts/", ".ci/")


class Passage(NamedTuple):
    """A paragraph, list item, table cell or literal. Its text keeps the line breaks of the file."""

    group: str
    line: int
    text: str
    is_first: bool  # Whether a comment, document or literal begins with this passage.


class Name(NamedTuple):
    """The name of a function, type or test."""

    unit: str
    line: int
    text: str


def blank(text: str) -> Callable[["re.Match[str]"], str]:
    """Returns a replacement for a match: `text`, and the line breaks of the match."""
    return lambda found: text + "\n" * found.group().count("\n")


CODE_SPAN = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
QUOTED = re.compile(r"(?<![\w\"])\"[^\"]{1,200}\"(?!\w)|“[^“”]{1,200}”")
LINK = re.compile(r"!?\[([^\]]*)\](?:\([^)\s]*\)|\[[^\]]*\])?")
EMPHASIS = re.compile(r"(?<!\w)[*_]{1,3}(?=\S)|(?<=\S)[*_]{1,3}(?!\w)")
HTML_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


def clean(text: str) -> str:
    """Removes markup. Replaces code and quotations by one word, since the rules do not apply to them."""
    text = CODE_SPAN.sub(blank("CODE"), text)
    text = LINK.sub(r"\1", text)
    text = QUOTED.sub(blank("CODE"), text)
    return EMPHASIS.sub("", text)


FENCE = re.compile(r"\s*(```+|~~~+)")
LIST_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+(.*)")
NO_PROSE_LINE = re.compile(r"\s*(?:#{1,6}\s|[=+-]{3,}|<|\[[^\]]+\]:)")


def markdown(group: str, lines: List[str], first_line: int) -> List[Passage]:
    """Returns the paragraphs, list items and table cells of a Markdown text, without code and headings."""
    passages: List[Passage] = []
    paragraph: List[str] = []
    begin = fence = None

    def end_paragraph() -> None:
        nonlocal begin
        if paragraph:
            passages.append(Passage(group, begin, clean("\n".join(paragraph)), not passages))
            paragraph.clear()
        begin = None

    for number, line in enumerate(lines, first_line):
        found = FENCE.match(line)
        if fence:
            if found and found.group(1).startswith(fence):
                fence = None
            continue
        if found:
            end_paragraph()
            fence = found.group(1)
            continue
        if line.lstrip().startswith("|"):
            end_paragraph()
            for cell in CODE_SPAN.sub("CODE", line.strip().replace(r"\|", " ")).strip("|").split("|"):
                passages.append(Passage("tables", number, clean(cell), False))
            continue
        if not line.strip() or NO_PROSE_LINE.match(line):
            end_paragraph()
            continue
        item = LIST_ITEM.match(line)
        if item:
            end_paragraph()
        begin = begin or number
        paragraph.append(item.group(1) if item else line.strip().lstrip("> "))
    end_paragraph()
    return passages


RUST_TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*)
      | /\*.*?\*/
      | (?<!\w)[bc]?r(?P<hashes>\#*)"(?P<raw>.*?)"(?P=hashes)
      | "(?P<string>(?:[^"\\]|\\.)*)"
      | '(?:[^'\\\n]|\\(?:x..|u\{[^}]*\}|.))'   # a character
      | '\w+                                    # a lifetime or label
    """,
    re.DOTALL | re.VERBOSE,
)
COMMENT_MARK = re.compile(r"//(?:/(?!/)|!)?")
TEST_MODULE = re.compile(r"#\[cfg\(test\)\]\s*(?:#\[[^\n]*\]\s*)*mod \w+ \{")
PLACEHOLDER = re.compile(r"\{[^{}]*\}")
ESCAPE = re.compile(r"\\(?:\n\s*|u\{[^}]*\}|x..|.)", re.DOTALL)
WORD = re.compile(r"[A-Za-z][A-Za-z'’-]*")
BREAK = "\x1e"  # Ends a paragraph inside a literal.


def unescape(found: "re.Match[str]") -> str:
    escape = found.group()
    if escape[1] == "\n":
        return blank(" ")(found)
    return {"n": BREAK, "t": " ", '"': '"', "'": "'", "\\": "\\"}.get(escape[1], "X")


def literal(text: str, is_raw: bool, line: int) -> List[Passage]:
    """Returns the printed lines of a string literal. Placeholders become one word."""
    if len(WORD.findall(text)) < MIN_LITERAL_WORDS or " " not in text or STATEMENT.match(text):
        return []
    if is_raw:
        text = text.replace("\n", BREAK + "\n")
    else:
        # A program prints the line breaks of a literal, unless a backslash precedes them.
        text = ESCAPE.sub(unescape, re.sub(r"(?<!\\)\n", BREAK + "\n", text))
    text = PLACEHOLDER.sub("CODE", text.replace("{{", "(").replace("}}", ")"))
    passages = []
    for part in text.split(BREAK):
        begin = line + part[: len(part) - len(part.lstrip())].count("\n")
        passages.append(Passage("strings", begin, clean(part.strip()), not passages))
        line += part.count("\n")
    return passages


def line_numbers(text: str) -> Callable[[int], int]:
    """Returns a function from an offset in the text to its line."""
    starts = [found.end() for found in re.finditer("\n", text)]
    return lambda offset: bisect.bisect_right(starts, offset) + 1


def rust_passages(path: str, text: str) -> List[Passage]:
    """Returns the comments of a Rust file, and the string literals that users may see."""
    line_of = line_numbers(text)
    has_strings = path.startswith("crates/") and "/src/" in path and not STRINGS_SKIP.search(path)
    test_module = TEST_MODULE.search(text)
    end_of_strings = test_module.start() if test_module else len(text)
    passages: List[Passage] = []
    mark, block, begin = "", [], 0

    def end_block() -> None:
        if block:
            passages.extend(markdown("code-comments" if mark == "//" else "doc-comments", block, begin))
            block.clear()

    for token in RUST_TOKEN.finditer(text):
        if token.group("comment"):
            found, line = COMMENT_MARK.match(token.group()), line_of(token.start())
            is_alone = not text[text.rfind("\n", 0, token.start()) + 1 : token.start()].strip()
            if not (is_alone and found.group() == mark and line == begin + len(block)):
                end_block()
                mark, begin = found.group(), line
            block.append(token.group()[found.end() :])
        elif has_strings and token.start() < end_of_strings:
            raw, string = token.group("raw"), token.group("string")
            if raw or string:
                passages.extend(literal(raw or string, bool(raw), line_of(token.start())))
    end_block()
    return passages


FUNCTION = re.compile(r"^[ \t]*(?:pub(?:\([^)]*\))? )?(?:(?:const|async|unsafe) )*fn (\w+)", re.MULTILINE)
TYPE = re.compile(r"^[ \t]*(?:pub(?:\([^)]*\))? )?(?:struct|enum|union|trait|type) (\w+)", re.MULTILINE)
TEST = re.compile(
    r"#\[(?:\w+::)*test(?:\([^\]]*\))?\]\s*(?:(?:#\[[^\n]*\]|//[^\n]*)\s*)*(?:pub )?(?:async )?fn (\w+)"
)


def rust_names(text: str) -> List[Name]:
    line_of = line_numbers(text)
    return [
        Name(unit, line_of(found.start(1)), found.group(1))
        for unit, pattern in (("function", FUNCTION), ("type", TYPE), ("test", TEST))
        for found in pattern.finditer(text)
    ]


def script_passages(text: str, mark: str) -> List[Passage]:
    """Returns the comments of a script, except comments after code."""
    passages: List[Passage] = []
    block: List[str] = []
    begin = 0
    for number, line in enumerate(text.split("\n") + [""], 1):
        line = line.strip()
        if line.startswith(mark) and not line.startswith("#!"):
            begin = begin if block else number
            # Leave out indented lines, which are commands or tables.
            block.append("" if line.startswith(mark + "   ") else line[len(mark) :])
        elif block:
            passages.extend(markdown("code-comments", block, begin))
            block = []
    return passages


def markdown_group(path: str) -> str:
    """Returns the group of a Markdown file; empty for other files."""
    if not path.endswith(".md"):
        return ""
    known = {"README.md": "readme", "ARCHITECTURE.md": "architecture", "CHANGELOG.md": "changelog"}
    is_docs = path.startswith("docs/") or path == "CONTRIBUTING.md" or path.endswith("/README.md")
    return known.get(path) or ("docs" if is_docs else "")


def comment_mark(path: str) -> str:
    """Returns the mark that begins a comment in a script; empty for other files."""
    suffix = os.path.splitext(path)[1]
    if path in NO_COMMENTS or path.endswith(".min.js"):
        return ""
    if suffix in SLASH_COMMENT_SUFFIXES:
        return "//"
    is_program = not suffix and path.startswith(HASH_COMMENT_FOLDERS)
    return "#" if is_program or suffix in HASH_COMMENT_SUFFIXES else ""


def is_read(path: str) -> bool:
    """Returns whether a file has texts of any group."""
    return bool(path.endswith(".rs") or markdown_group(path) or comment_mark(path))


def passages_of(path: str, text: str) -> List[Passage]:
    if path.endswith(".rs"):
        return rust_passages(path, text)
    if path.endswith(".md"):
        return markdown(markdown_group(path), HTML_COMMENT.sub(blank(""), text).split("\n"), 1)
    return script_passages(text, comment_mark(path))
