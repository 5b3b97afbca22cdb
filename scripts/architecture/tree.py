"""Reads the project: its crates, their modules, its other files, and the rules in architecture.toml."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, Tuple

from architecture.modules import Arrows, Crate, Module, find_modules
from architecture.rust import Names

RULES = "architecture.toml"
LIBRARY_OR_PROGRAM = {"lib", "proc-macro", "bin"}


class Tree:
    """The project in a folder, and the problems that checks find in it."""

    def __init__(self, root: Path):
        self.root = root.resolve()
        # Each problem is a rule, a place, and a description.
        self.problems: List[Tuple[str, str, str]] = []
        self.remarks: List[str] = []
        command = ["cargo", "metadata", "--no-deps", "--offline", "--format-version", "1"]
        found = subprocess.run(command, cwd=self.root, capture_output=True, text=True, check=False)
        if found.returncode != 0:
            sys.exit(f"cargo metadata failed:\n{found.stderr}")
        packages = json.loads(found.stdout)["packages"]
        self.packages: Dict[str, Any] = {package["name"]: package for package in packages}
        self.rules: Dict[str, Any] = tomllib.loads((self.root / RULES).read_text(encoding="utf-8"))
        self.check_names_in_rules()
        self.modules: Dict[str, List[Module]] = {name: self.modules_of(name) for name in sorted(self.packages)}
        # For each crate: the arrows among the modules of each of its folders.
        self.arrows: Dict[str, Dict[Names, Arrows]] = {
            name: Crate(modules).arrows() for name, modules in self.modules.items()
        }

    def check_names_in_rules(self) -> None:
        """Ends the script if a rule names a crate or a file that does not exist."""
        rules = self.rules
        lists = [rules["layers"], rules["apart"], rules["limits"], rules["pure"]["crates"], rules["tools"]["crates"]]
        lists += [*rules["only"].values(), *(rule.get("crates", []) for rule in rules["code"].values())]
        files = [file for rule in rules["code"].values() for file in rule["except"]]
        files += [file for file, _, _ in [*rules["required"]["fields"], *rules["formats"]["versions"]]]
        unknown = {crate for crates in lists for crate in crates} - self.packages.keys()
        unknown |= {file for file in files if not (self.root / file).exists()}
        if unknown:
            sys.exit(f"{RULES} names {', '.join(sorted(unknown))}, which does not exist")

    def problem(self, rule: str, where: str, what: str) -> None:
        self.problems.append((rule, where, what))

    def folder(self, crate: str) -> Path:
        return Path(self.packages[crate]["manifest_path"]).parent.relative_to(self.root)

    def modules_of(self, crate: str) -> List[Module]:
        targets = [target for target in self.packages[crate]["targets"] if LIBRARY_OR_PROGRAM & set(target["kind"])]
        # The library is first: its modules count if a program declares modules of the same names.
        targets.sort(key=lambda target: "bin" in target["kind"])
        return find_modules([Path(target["src_path"]) for target in targets], self.root)

    def grep(
        self, crates: Iterable[str], pattern: "re.Pattern[str]", rule: str, what: str, may: Iterable[str] = ()
    ) -> None:
        """Reports code that has a pattern, except in files whose paths begin as `may` says."""
        for crate in crates:
            for module in self.modules[crate]:
                if module.file.startswith(tuple(may)):
                    continue
                for found in pattern.finditer(module.code):
                    line = module.code.count("\n", 0, found.start()) + 1
                    self.problem(rule, f"{module.file}:{line}", f"{found.group(0)}: {what}")

    def files(self) -> Iterator[Tuple[str, str]]:
        """Yields the path and the text of each file that git does not ignore. Without git: of all files."""
        command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=self.root, capture_output=True, text=True, check=False)
        if listed.returncode == 0:
            names = listed.stdout.splitlines()
        else:
            names = [str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file()]
        for name in names:
            path = self.root / name
            if path.is_symlink() or not path.is_file() or "target" in Path(name).parts:
                continue
            try:
                yield name, path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue


def report(tree: Tree) -> None:
    """Prints the remarks and the problems that checks found."""
    for remark in tree.remarks:
        print(remark)
    for rule, where, what in tree.problems:
        print(f"{rule}: {where}: {what}", file=sys.stderr)
