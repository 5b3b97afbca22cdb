"""Counts the hits of all measures in a set of texts."""

import collections
import re
from typing import Counter, Dict, List, NamedTuple, Tuple

from prose.measures import BUDGETS, GROUP_MEASURES, GROUPS, MEASURES, PER_WORDS
from prose.texts import MIN_WORDS, WORD, Passage, passages_of, rust_names

SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[A-Z\"(`])")


class Hit(NamedTuple):
    """One violation of a measure."""

    group: str
    measure: str
    path: str
    line: int
    found: str
    text: str

    def identity(self) -> Tuple[str, str, str, str]:
        """Identifies a hit without its place, so that a moved sentence stays the same hit."""
        return self.group, self.measure, self.found, self.text

    def __str__(self) -> str:
        text = self.text if len(self.text) <= 200 else self.text[:199] + "…"
        return f"{self.path}:{self.line}: {self.measure} ({self.found}): {text}"


class Findings:
    """The hits in a set of texts, and the sizes of the groups: numbers of words, sentences and so on."""

    def __init__(self, texts: Dict[str, str]):
        self.hits: List[Hit] = []
        self.counts: Counter[Tuple[str, str]] = collections.Counter()
        self.sizes: Dict[str, Counter[str]] = {group: collections.Counter() for group in GROUPS}
        for path, text in texts.items():
            for passage in passages_of(path, text):
                self.add_passage(path, passage)
            if path.endswith(".rs"):
                for name in rust_names(text):
                    self.sizes["names"][name.unit] += 1
                    self.search("names", name.unit, path, name.line, name.text)

    def add_passage(self, path: str, passage: Passage) -> None:
        group, sizes = passage.group, self.sizes[passage.group]
        if passage.is_first:
            sizes["passage"] += 1
            self.search(group, "passage", path, passage.line, " ".join(passage.text.split()))
        if len(passage.text.split()) < MIN_WORDS:
            return
        begin = 0
        for end in [*SENTENCE_END.finditer(passage.text), None]:
            sentence = passage.text[begin : end.start() if end else None]
            line = passage.line + passage.text.count("\n", 0, begin)
            begin = end.end() if end else begin
            sentence = " ".join(sentence.split())
            sizes["sentence"] += 1
            sizes["word"] += len(WORD.findall(sentence))
            self.search(group, "sentence", path, line, sentence)

    def search(self, group: str, unit: str, path: str, line: int, text: str) -> None:
        for name in GROUP_MEASURES[group]:
            measure = MEASURES[name]
            if measure.unit == unit:
                found = measure.find(text)
                self.hits += [Hit(group, name, path, line, one, text) for one in found]
                self.counts[group, name] += len(found)

    def size(self, group: str, measure: str) -> float:
        """Returns the size of a group in the unit of rates: 1,000 words, or 100 sentences, passages or names."""
        if measure in PER_WORDS:
            return self.sizes[group]["word"] / 1000
        return self.sizes[group][MEASURES[measure].unit] / 100

    def rate(self, group: str, measure: str) -> float:
        size = self.size(group, measure)
        return self.counts[group, measure] / size if size else 0.0

    def budget(self, group: str, measure: str) -> int:
        """Returns the maximum number of hits that the budget allows in a group of this size."""
        # Add a little against rounding: 1.1 * 10 is a little less than 11.
        return int(BUDGETS[group][measure] * self.size(group, measure) + 1e-9)
