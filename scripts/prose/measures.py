"""Defines the groups of texts, the measures of each group, and the budgets."""

import re
from typing import Callable, List, NamedTuple

GROUPS = {
    "readme": "README.md",
    "docs": "docs/, CONTRIBUTING.md, and the README files of crates and examples; without tables",
    "architecture": "ARCHITECTURE.md, without tables",
    "changelog": "CHANGELOG.md, without tables",
    "tables": "cells of Markdown tables, in documents and doc comments",
    "doc-comments": "/// and //! in all Rust files",
    "code-comments": "// in Rust and JavaScript; lines that begin with # in scripts, Python and TOML",
    "strings": "string literals in the source of crates: help, errors, hints, OpenAPI, console; without tests",
    "names": "names of functions, types and tests in all Rust files",
}

MAX_SENTENCE_WORDS = 30
MAX_TEST_NAME = 60

# Words in front of a clause that replaces a noun: "a list of what is left".
BEFORE_HEADLESS = (
    "of for with by in to from and or but at on say says has have is are tell tells told than that as beside behind upon"
    " about show shows read reads keep keeps name names take takes make makes give gives"
).split()
# Exceptions in usual English are "in what order", "shows what happens" and "this is what keeps it
# safe". A noun with a clause is one too: "the user, who may read it".
NOT_HEADLESS = "(?:if|order|kind|sort|type|extent|degree|way|happens?|happened)"
HEADLESS = re.compile(
    r"(?:^|[.;:(]\s+|,\s+(?!who\b)|(?<!\bthis )(?<!\bthat )(?<!\bwhich )(?<!\bit )\b(?:"
    + "|".join(BEFORE_HEADLESS)
    + r")\s+)"
    r"((?:what|who)\s+(?!" + NOT_HEADLESS + r"\b)\w+)"
    r"|\b(whoever|whatever)\b",
    re.IGNORECASE,
)

# A preposition may begin a sentence if a comma ends the phrase: "With one node down, a store opens."
INVERTED = re.compile(
    r"(?:What|Who|Whoever|Whatever|Whose|Where|Said|Asked|Told)\s(?!(?:if|possible|necessary|applicable|needed)\b)"
    r"|Only (?:what|who|where|of|by|from|in|to)\s|Not (?:what|who|where|of|by|from|in|to|so)\s"
    r"|So (?:many|much|long|far|few|little)\s|Such (?:is|are|was|were|as)\s"
    r"|(?:Of(?! course\b)|From|By(?! default\b)|With|Beside|Behind|Through)\s(?!(?:\S+\s){0,8}?\S+,\s)"
)

# "Whether the store is open." is clear, and usual for booleans.
BAD_START = re.compile(
    r"(?:What|Who|Whoever|Whose|Where|How|Which|Those|That|Of|By(?! default\b)|It|They|The same|One that|One of)\b"
)

# Phrases to avoid, with their replacements.
ODD_PHRASES = {
    r"(?:is|are|was|were|be|been) told(?! apart)": "reports, prints",
    r"anew": "again",
    r"so (?:many|much)": "the number",
    r"(?:is|are) of (?:version|one|another|no|this|that|its|their)": "has",
    r"(?:stands?|stood|lies?|lay) (?:in(?! for\b)|on|at|by|there|here|where)": "is",
    r"(?:stands?|stood|lies?|lay) (?:before|above|below|between|first|last)": "is",
    r"mend(?:s|ed|ing)?": "repair",
    r"(?:go|goes|went|going|gone) on": "continue",
    r"(?:go|goes|went|going|gone) by(?! the time)": "use, follow",
    r"look(?:s|ed|ing)? after": "maintain",
    r"(?:take|takes|took|taking|taken) over": "switch to, adopt",
    r"(?:has|have|had) to do with": "concern",
    r"once at least": "at least once",
    r"(?:is|are|was|to be) had": "have, be available",
    r"there (?:is|are|was|were) none": "name what is missing",
    r"nobody": "no user, no process",
    r"all the same(?=[.,;:)]|$)": "still",
    r"(?:become|becomes|became) of": "happen to",
    r"(?:is|are|was|were|be) done with(?=[.,;:)]|$)": "finish",
    r"as (?:it stands|they stand)": "unchanged",
    r"beside": "concurrently with, next to",
    r"99th in 100": "p99",
}
ODD = re.compile(r"\b(?:" + "|".join(rf"({phrase})(?!\w)" for phrase in ODD_PHRASES) + ")", re.IGNORECASE)

QUESTION_NAME = re.compile(r"(?:who|whom|whose|whoever|what|whatever|where)(?:_|$)")
EMPTY_TYPE_NAMES = (
    "After As Asked At Bears Because Becomes Before Behind Beside Besides Between Both By Done Either Elsewhere Goes"
    " Here How If In Instead Lies May Might Neither Nothing Of On Once Other Others Said Since Some Something Still"
    " Such Then There These Those To Told Until Upon Whether Which While With Within Without"
).split()
EMPTY_TYPE_NAME = re.compile(r"(?:" + "|".join(EMPTY_TYPE_NAMES) + r")$|(?:What|Who|Whose|Where)(?:[A-Z]|$)")


def find_headless(sentence: str) -> List[str]:
    if sentence.endswith("?"):
        return []
    return [found.group(1) or found.group(2) for found in HEADLESS.finditer(sentence)]


def find_long(sentence: str) -> List[str]:
    words = len(sentence.split())
    return [f"{words} words"] if words > MAX_SENTENCE_WORDS else []


def find_inverted(sentence: str) -> List[str]:
    found = INVERTED.match(sentence)
    return [found.group().strip()] if found and not sentence.endswith("?") else []


def find_odd(sentence: str) -> List[str]:
    better = list(ODD_PHRASES.values())
    return [f"{found.group()} → {better[found.lastindex - 1]}" for found in ODD.finditer(sentence)]


def find_bad_start(passage: str) -> List[str]:
    found = BAD_START.match(passage)
    return [found.group()] if found and not passage.endswith("?") else []


def find_question_name(name: str) -> List[str]:
    return [name] if QUESTION_NAME.match(name) else []


def find_empty_type_name(name: str) -> List[str]:
    return [name] if EMPTY_TYPE_NAME.match(name) else []


def find_long_test_name(name: str) -> List[str]:
    return [f"{len(name)} characters"] if len(name) > MAX_TEST_NAME else []


class Measure(NamedTuple):
    """A way to find one bad habit, with examples that the self-test checks."""

    unit: str  # The kind of text that is searched: `sentence`, `passage`, `function`, `type` or `test`.
    find: Callable[[str], List[str]]  # Returns one short text for each hit.
    rule: str
    bad: str  # Has one hit of this measure, and none of the others.
    good: str  # Has no hits.


MEASURES = {
    "headless": Measure(
        "sentence",
        find_headless,
        "a clause with `what` or `who` in place of a noun",
        "A sweep deletes the rest of what is left there.",
        "A sweep deletes the files that an interrupted run left.",
    ),
    "long": Measure(
        "sentence",
        find_long,
        f"a sentence of more than {MAX_SENTENCE_WORDS} words",
        "Recto reads the rows of the first view and then the rows of the second view and then the rows of the third"
        " view and after that it returns all rows to the caller.",
        "Recto reads the rows of all three views. Then it returns them to the caller.",
    ),
    "inverted": Measure(
        "sentence",
        find_inverted,
        "a sentence that begins with a question word or with a phrase in front of its subject",
        "Of the hidden rows such a token learns nothing.",
        "Such a token cannot learn about hidden rows.",
    ),
    "odd": Measure(
        "sentence",
        find_odd,
        "an odd verb or phrase",
        "The load begins anew after a crash.",
        "The load starts again after a crash.",
    ),
    "bad-start": Measure(
        "passage",
        find_bad_start,
        "a comment or text that begins with neither a verb nor a noun",
        "How long a call may wait.",
        "Maximum time that a call may wait.",
    ),
    "question-names": Measure(
        "function",
        find_question_name,
        "a function named `what_…`, `who_…`, `where_…`",
        "what_is_left",
        "remaining_rows",
    ),
    "empty-type-names": Measure(
        "type",
        find_empty_type_name,
        "a type named by a word that is no noun",
        "Beside",
        "ViewComparer",
    ),
    "long-test-names": Measure(
        "test",
        find_long_test_name,
        f"a test name of more than {MAX_TEST_NAME} characters",
        "a_view_that_nobody_named_is_left_out_of_the_answer_and_rejected_if_it_was_named",
        "rejects_unknown_view",
    ),
}

PROSE = ("headless", "long", "inverted", "odd")
GROUP_MEASURES = {group: PROSE for group in GROUPS}
GROUP_MEASURES["doc-comments"] = GROUP_MEASURES["strings"] = PROSE + ("bad-start",)
GROUP_MEASURES["names"] = ("question-names", "empty-type-names", "long-test-names")

# Measures with a rate per 1,000 words. Other rates are per cent of the sentences, passages or names.
PER_WORDS = ("headless", "odd")

# The rates that redb, jj, TigerBeetle and Datasette keep, rounded up.
BUDGETS = {
    "readme": {"headless": 1.0, "long": 6, "inverted": 5, "odd": 1.0},
    "docs": {"headless": 1.0, "long": 6, "inverted": 5, "odd": 1.0},
    "architecture": {"headless": 1.0, "long": 6, "inverted": 5, "odd": 1.0},
    "changelog": {"headless": 1.0, "long": 9, "inverted": 5, "odd": 1.0},
    "tables": {"headless": 1.0, "long": 6, "inverted": 5, "odd": 1.0},
    "doc-comments": {"headless": 1.0, "long": 9, "inverted": 5, "odd": 1.0, "bad-start": 2},
    "code-comments": {"headless": 1.0, "long": 7, "inverted": 6, "odd": 1.0},
    "strings": {"headless": 1.0, "long": 6, "inverted": 5, "odd": 1.0, "bad-start": 2},
    "names": {"question-names": 0, "empty-type-names": 0, "long-test-names": 0},
}
# These groups have no recorded numbers: their budget is the limit.
BUDGET_ONLY = ("readme",)
