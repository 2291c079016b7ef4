"""Which file of the vault a path below ``/memories`` is."""

from __future__ import annotations

from pathlib import PurePosixPath

from memvault.call import Call
from memvault.errors import UsageError
from memvault.model import Memory
from memvault.vault import layout

TOP = "/memories"
_LEFT_OUT = "node_modules"
_SHOWN_ENDINGS = frozenset(
    ".cfg .css .csv .html .ini .js .json .log .py .sh .sql .toml .tsv .txt .xml .yaml .yml".split()
)
"""Endings that a file keeps behind which the vault writes ``.md``."""


class MemoryFolder:
    """Where ``/memories`` is in the vault, and of which type new memories are."""

    def __init__(self, folder: str, memory_type: str) -> None:
        self.folder = folder
        self.memory_type = memory_type

    def path(self, inside: str) -> str:
        """Return the path in the vault of one below ``/memories``."""
        return "/".join(filter(None, (self.folder, inside)))

    def target(self, inside: str) -> str:
        """Return the path in the vault of a new file; errors as for ``check``."""
        name = inside if inside.lower().endswith(".md") else f"{inside}.md"
        target = self.path(name)
        check(target)
        return target

    def file(self, call: Call, inside: str) -> Memory | None:
        """Return the memory of a path, if it is one."""
        if not inside:
            return None
        for name in dict.fromkeys((self.path(inside), f"{self.path(inside)}.md")):
            if layout.is_memory_path(name) and (memory := call.store.read_listed(name)):
                return memory
        return None

    def below(self, call: Call, inside: str) -> dict[str, int]:
        """Return the paths in the vault of the memories in a folder, with their bytes."""
        top = self.path(inside)
        start = f"{top}/" if top else ""
        found = {state.path: state.size for state in call.store.scan().files}
        return {
            path: found[path]
            for path in sorted(found)
            if path.startswith(start) and _LEFT_OUT not in path.split("/")
        }


def relative_path(path: str) -> str:
    """Return a path without ``/memories``, empty for that itself.

    Raises:
        UsageError: it does not lie below it, or tries to leave it.
    """
    below = path.removeprefix(TOP)
    if path == below or below[:1] not in ("", "/"):
        raise UsageError(f"Error: The path {path} is not below {TOP}")
    parts = [part for part in below.split("/") if part]
    for part in parts:
        left_out = part.startswith(".") or part == _LEFT_OUT
        if left_out or "\\" in part or "%" in part or part != part.strip():
            raise UsageError(f"Error: The path {path} is invalid: {part!r} cannot be a name in it")
        if not part.isprintable():
            raise UsageError("Error: The path is invalid: it holds characters that cannot be seen")
    return "/".join(parts)


def check(target: str) -> None:
    """Make sure that a path in the vault can be a memory's.

    Raises:
        UsageError: it cannot.
    """
    if not layout.is_memory_path(target):
        raise UsageError(f"Error: {target} cannot be a memory: choose another folder")


def shown_name(name: str) -> str:
    """Return a file's name as Claude gave it: the vault's ``.md`` behind another ending goes."""
    stem = name[: -len(".md")]
    return stem if PurePosixPath(stem).suffix.lower() in _SHOWN_ENDINGS else name
