"""Reads and writes the recorded numbers of hits, and compares them with the tree."""

import collections
import json
import sys
from pathlib import Path
from typing import Dict, List, NamedTuple, Tuple

from prose.findings import Findings, Hit
from prose.measures import BUDGET_ONLY, GROUP_MEASURES, GROUPS
from prose.tree import changed_paths, commit_of, read_old

HITS_FILE = "scripts/prose-hits.json"

# A group and a measure.
Pair = Tuple[str, str]

PAIRS: List[Pair] = [(group, measure) for group in GROUPS for measure in GROUP_MEASURES[group]]
RECORDED_PAIRS = [(group, measure) for group, measure in PAIRS if group not in BUDGET_ONLY]


def read_recorded(root: Path) -> Dict[Pair, int]:
    path = root / HITS_FILE
    if not path.exists():
        return {}
    try:
        groups = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        hint = "after a merge conflict, take either side and run scripts/check-prose --lower"
        sys.exit(f"{HITS_FILE}: {error}\nhint: {hint}")
    return {(group, measure): number for group in groups for measure, number in groups[group].items()}


def write_recorded(root: Path, numbers: Dict[Pair, int]) -> None:
    """Writes one line a pair. Merges conflict only if both sides changed lines next to each other."""
    groups: Dict[str, Dict[str, int]] = {}
    for (group, measure), number in numbers.items():
        groups.setdefault(group, {})[measure] = number
    path = root / HITS_FILE
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(groups, indent=2) + "\n", encoding="utf-8")


class Comparison(NamedTuple):
    rises: List[Pair]  # Above the recorded number and above the budget.
    falls: List[Pair]  # Below the recorded number.
    missing: List[Pair]  # No number is recorded.


def compare(findings: Findings, recorded: Dict[Pair, int]) -> Comparison:
    rises = [pair for pair in PAIRS if findings.counts[pair] > max(recorded.get(pair, 0), findings.budget(*pair))]
    falls = [pair for pair in RECORDED_PAIRS if findings.counts[pair] < recorded.get(pair, 0)]
    missing = [pair for pair in RECORDED_PAIRS if pair not in recorded]
    return Comparison([pair for pair in rises if pair not in missing], falls, missing)


def lowered(findings: Findings, recorded: Dict[Pair, int]) -> Dict[Pair, int]:
    """Returns the recorded numbers with falls applied and missing numbers added. Raises no number."""
    return {pair: min(findings.counts[pair], recorded.get(pair, sys.maxsize)) for pair in RECORDED_PAIRS}


def new_hits(root: Path, now: Findings) -> List[Hit]:
    """Returns the hits that appeared after the last commit of recorded numbers; without git, none."""
    base = commit_of(root, HITS_FILE)
    if not base:
        return []
    changed = changed_paths(root, base)
    before = Findings(read_old(root, base, changed))
    # All files are compared together, so that a sentence that moved to another file is not new.
    old = collections.Counter(hit.identity() for hit in before.hits)
    hits = []
    for hit in now.hits:
        if hit.path in changed:
            if old[hit.identity()]:
                old[hit.identity()] -= 1
            else:
                hits.append(hit)
    return hits
