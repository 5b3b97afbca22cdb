"""Checks the subjects of commits: `topic: imperative`, at most 72 characters."""

import re
from pathlib import Path
from typing import List, Tuple

from prose.tree import git

# Check only the commits after this one, because the rule did not exist before.
SUBJECTS_SINCE = "0e4beeb84f9a85ce4815feaf12843dfc5d69ac7e"
MAX_SUBJECT = 72
SUBJECT = re.compile(r"[a-z0-9][a-z0-9 ,/-]*: (\S+)")
# First words that are not imperative. The list has only verbs that are rarely nouns in these forms.
NOT_IMPERATIVE = re.compile(
    r"(?:an?|the|what|who|whoever|where|whose|of|by|it|they|there|this|that|these|those|no|not)$"
    r"|(?:add|allow|chang|fix|implement|mak|mov|remov|renam|report|return|updat|us|writ)(?:s|es|ed|ing)$",
    re.IGNORECASE,
)


def subject_problem(subject: str) -> str:
    """Returns the problem of a commit subject; empty if the subject is good."""
    if len(subject) > MAX_SUBJECT:
        return f"has {len(subject)} characters, of at most {MAX_SUBJECT}"
    found = SUBJECT.match(subject)
    if not found:
        return "is not of the form `topic: imperative` (topic in lower case)"
    if NOT_IMPERATIVE.match(found.group(1)):
        return f"does not begin with an imperative after the topic, but with `{found.group(1)}`"
    return ""


def check_subjects(root: Path, since: str) -> Tuple[List[str], str]:
    """Checks the commits after `since`. Returns problems, and a remark on the extent of the check."""
    shallow = git(root, "rev-parse", "--is-shallow-repository")
    if shallow.returncode != 0:
        return [], f"NOT CHECKED: commit subjects; {shallow.stderr.decode().strip()}"
    if shallow.stdout.strip() == b"true":
        return [], "NOT CHECKED: commit subjects; the history is shallow (`git fetch --unshallow`)"
    if git(root, "merge-base", "--is-ancestor", since, "HEAD").returncode != 0:
        return [], f"NOT CHECKED: commit subjects; commit {since[:8]} is not in the history of HEAD"
    log = git(root, "log", "--no-merges", "--format=%h%x00%s", f"{since}..HEAD").stdout
    problems, commits = [], log.decode("utf-8", errors="replace").splitlines()
    for commit in commits:
        name, subject = commit.split("\0")
        if problem := subject_problem(subject):
            problems.append(f"commit {name}: the subject {problem}: {subject}")
    return problems, f"{len(commits)} commit subjects checked"
