"""Finds which modules of a crate name which others, and the cycles among them.

The modules of a folder are compared with each other: the modules at the root of a crate, and those
inside each module. A path counts for the modules that re-export an item, and for the module that
defines it. A module may name what its parent defines, and a parent what its children define: that is
no cycle.
"""

import re
from bisect import bisect
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Dict, FrozenSet, Iterator, List, Optional, Set, Tuple

from architecture.rust import PATH, USE, Names, blank, code_of, inline_modules, use_paths

DECLARATION = re.compile(r"\bmod (\w+);")
PATH_ATTRIBUTE = re.compile(r'#\[path = "([^"]+)"\]\s*(?:pub(?:\([^)]*\))? )?$')
DEFINITION = re.compile(
    r"^(?:pub(?:\([^)]*\))? )?(?:async |unsafe |const )*"
    r"(?:fn|struct|enum|trait|type|union|static|const|mod|macro_rules!) (\w+)",
    re.MULTILINE,
)


@dataclass
class Module:
    """A file of a crate, and the names that its code defines, imports and mentions."""

    names: Names
    # The path of the file in the project.
    file: str
    text: str
    items: Set[str] = field(default_factory=set)
    imports: Dict[str, Names] = field(default_factory=dict)
    globs: List[Names] = field(default_factory=list)
    # Each path that the code names, with its line.
    paths: List[Tuple[Names, int]] = field(default_factory=list)

    @property
    def code(self) -> str:
        return code_of(self.text)


# The modules that each module of a folder names, with the lines that do so.
Arrows = Dict[str, Dict[str, List[str]]]


def find_modules(files: List[Path], root: Path) -> List[Module]:
    """Returns the modules that the root files of a crate declare, without modules for tests."""
    modules, waiting = [], deque((file, file.parent, ()) for file in files)
    while waiting:
        file, folder, names = waiting.popleft()
        module = Module(names, str(file.relative_to(root)), file.read_text(encoding="utf-8"))
        modules.append(module)
        for declared in DECLARATION.finditer(module.code):
            child = declared.group(1)
            children = [folder / f"{child}.rs", folder / child / "mod.rs"]
            if path := PATH_ATTRIBUTE.search(module.text[: declared.start()]):
                children = [file.parent / path.group(1)]
            waiting.extend((path, folder / child, names + (child,)) for path in children if path.is_file())
    return modules


class Crate:
    """The modules of a crate, by name, and what their paths mean."""

    def __init__(self, modules: List[Module]):
        # A crate with a library and a program has two roots. Their modules are told apart by their names.
        self.modules = {module.names: module for module in reversed(modules)}
        self.all = modules
        for module in modules:
            module.items = set(DEFINITION.findall(module.code))
            self.read_paths(module)

    def read_paths(self, module: Module) -> None:
        code = module.code
        line_starts = [0] + [found.end() for found in re.finditer("\n", code)]
        inline = list(inline_modules(code))

        def absolute(names: Names, offset: int) -> Optional[Names]:
            """Returns a path from the root of the crate; None for a path of another crate."""
            base = module.names + tuple(name for begin, end, name in inline if begin < offset < end)
            if names[0] == "crate":
                return names[1:]
            if names[0] not in ("self", "super"):
                return base + names if module.names + names[:1] in self.modules else None
            for name in names:
                if name == "super":
                    base = base[:-1]
                elif name != "self":
                    break
            return base + tuple(name for name in names if name not in ("self", "super"))

        for found in USE.finditer(code):
            for offset, names, name in use_paths(found.group(1), found.start(1)):
                path = absolute(names, offset)
                if path is None:
                    continue
                if name == "*":
                    path = path[:-1]
                    module.globs.append(path)
                else:
                    module.imports[name] = path
                module.paths.append((path, bisect(line_starts, offset)))
        for found in PATH.finditer(USE.sub(lambda use: blank(use.group()), code)):
            path = absolute(tuple(re.findall(r"\w+", found.group())), found.start())
            if path is not None:
                module.paths.append((path, bisect(line_starts, found.start())))

    def modules_of(self, path: Names, seen: Tuple[Names, ...] = ()) -> List[Names]:
        """Returns the modules that a path names: those that re-export the item, and the one that defines it."""
        module: Names = ()
        for index, name in enumerate(path):
            if module + (name,) in self.modules:
                module += (name,)
                continue
            target = self.import_of(module, name)
            if target is None or path in seen:
                break
            return [module, *self.modules_of(target + path[index + 1 :], seen + (path,))]
        return [module]

    def import_of(self, names: Names, name: str) -> Optional[Names]:
        """Returns the path by which a module imports a name; None if it defines the name."""
        module = self.modules[names]
        if name in module.items:
            return None
        if name in module.imports:
            return module.imports[name]
        for glob in module.globs:
            if glob[: len(names) + 1] == names + (name,):
                continue
            source = self.modules_of(glob)[-1]
            if source != names and (name in self.modules[source].items or name in self.modules[source].imports):
                return source + (name,)
        return None

    def arrows(self) -> Dict[Names, Arrows]:
        """Returns, for each folder of modules, which of them names which others."""
        folders: Dict[Names, Arrows] = {}
        for names in self.modules:
            if names:
                folders.setdefault(names[:-1], {}).setdefault(names[-1], {})
        for module in self.all:
            lines = module.text.splitlines()
            for path, line in module.paths:
                for target in self.modules_of(path):
                    shared = 0
                    while module.names[shared : shared + 1] == target[shared : shared + 1] != ():
                        shared += 1
                    # A module, its parents and its children have no arrows between them.
                    if shared < min(len(module.names), len(target)):
                        arrows = folders[target[:shared]][module.names[shared]]
                        where = f"{module.file}:{line}: {lines[line - 1].strip()}"
                        arrows.setdefault(target[shared], []).append(where)
        return folders


def shortest_cycle(arrows: Arrows, start: str) -> List[str]:
    """Returns the modules of a shortest cycle through a module, which is first and last; empty if there is none."""
    came_from: Dict[str, str] = {}
    waiting = deque([start])
    while waiting:
        module = waiting.popleft()
        for named in arrows[module]:
            if named == start:
                cycle = [start, module]
                while cycle[-1] != start:
                    cycle.append(came_from[cycle[-1]])
                return cycle[::-1]
            if named not in came_from:
                came_from[named] = module
                waiting.append(named)
    return []


def knots(arrows: Arrows) -> Iterator[List[str]]:
    """Yields the sets of modules that name each other, directly or through others."""
    reached: Dict[str, Set[str]] = {}
    for module in arrows:
        reached[module], waiting = set(), [module]
        while waiting:
            new = arrows[waiting.pop()].keys() - reached[module]
            reached[module] |= new
            waiting.extend(new)
    left = {module for module in arrows if module in reached[module]}
    while left:
        first = min(left)
        knot = {module for module in left if module in reached[first] and first in reached[module]}
        left -= knot
        yield sorted(knot)


def describe_knot(folder: Names, arrows: Arrows, knot: List[str]) -> str:
    """Describes modules in cycles: their names, and the shortest cycles with the lines that cause them."""
    cycles = sorted((shortest_cycle(arrows, module) for module in knot), key=len)
    text = f"{len(knot)} modules of {'::'.join(('crate',) + folder)} name each other: {', '.join(knot)}"
    seen: Set[FrozenSet[str]] = set()
    for cycle in cycles:
        if frozenset(cycle) not in seen:
            seen.add(frozenset(cycle))
            text += f"\n  cycle {' → '.join(cycle)}"
            for module, named in zip(cycle, cycle[1:]):
                text += f"\n    {module} names {named}: {arrows[module][named][0]}"
    return text
