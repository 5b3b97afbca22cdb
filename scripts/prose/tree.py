"""Reads the texts of the tree, now and at an earlier commit."""

import os
import subprocess
from pathlib import Path
from typing import Dict, List

from prose.texts import is_read


def git(root: Path, *arguments: str, standard_input: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
    """Runs git in a folder, and returns its exit status and output. Without git the status is 127."""
    command = ["git", "-C", str(root), *arguments]
    try:
        return subprocess.run(command, input=standard_input, capture_output=True, check=False)
    except FileNotFoundError:
        return subprocess.CompletedProcess(command, 127, b"", b"git is not installed")


def read_tree(root: Path) -> Dict[str, str]:
    """Returns the texts of all files that git does not ignore, by path. Without git: of all files."""
    listed = git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    if listed.returncode == 0:
        paths = sorted(set(os.fsdecode(listed.stdout).split("\0")))
    else:
        skipped = {"target", ".git", "node_modules"}
        files = (path.relative_to(root) for path in root.rglob("*"))
        paths = sorted(path.as_posix() for path in files if not skipped.intersection(path.parts))
    texts = {}
    for path in filter(is_read, paths):
        # Skip a file that is deleted but still tracked.
        if (root / path).is_file() and not (root / path).is_symlink():
            texts[path] = (root / path).read_text(encoding="utf-8", errors="replace")
    return texts


def commit_of(root: Path, path: str) -> str:
    """Returns the last commit that changed a file; empty if there is no such commit or no git."""
    return git(root, "log", "-1", "--format=%H", "--", path).stdout.decode().strip()


def changed_paths(root: Path, commit: str) -> List[str]:
    """Returns the files that differ between a commit and the tree, including untracked files."""
    changed = git(root, "diff", "--name-only", "--no-renames", "-z", commit).stdout
    untracked = git(root, "ls-files", "-z", "--others", "--exclude-standard").stdout
    return [path for path in os.fsdecode(changed + untracked).split("\0") if path and is_read(path)]


def read_old(root: Path, commit: str, paths: List[str]) -> Dict[str, str]:
    """Returns the texts of files at a commit, without the files that did not exist then."""
    wanted = "".join(f"{commit}:{path}\n" for path in paths)
    output = git(root, "cat-file", "--batch", standard_input=os.fsencode(wanted)).stdout
    texts, offset = {}, 0
    for path in paths:
        header, _, _ = output[offset:].partition(b"\n")
        offset += len(header) + 1
        if header.endswith(b" missing"):
            continue
        size = int(header.split()[-1])
        texts[path] = output[offset : offset + size].decode("utf-8", errors="replace")
        offset += size + 1
    return texts
