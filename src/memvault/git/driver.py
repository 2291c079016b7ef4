"""The merge driver that ``git merge``, ``pull`` and ``rebase`` run for a memory.

Conflict markers are written to the text only, never to the header.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from memvault.files import atomic, plain_files
from memvault.git.merge import MemoryMerger, parse_version
from memvault.repository.program import Git
from memvault.sanitize import replace_surrogates
from memvault.secrets.detector import masked

_CONFLICT = 1


def main(arguments: Sequence[str]) -> int:
    """Merge three versions of a file and write the result to ours; return the exit code.

    The arguments are the paths of base, ours and theirs, the length of conflict markers
    (``%L``) and the path of the file (``%P``). The exit code is 0 for a clean merge and
    1 for a conflict.
    """
    names = [Path(name) for name in arguments[:3]]
    path = arguments[4] if len(arguments) > 4 else names[1].name
    base, ours, theirs = (plain_files.read(name) for name in names)
    marks = int(arguments[3]) if arguments[3:4] and arguments[3].isdigit() else 7
    git_folder = Path(os.environ.get("GIT_DIR") or ".git").absolute()
    merger = MemoryMerger(Git(Path.cwd()), git_folder if git_folder.is_dir() else Path.cwd())
    merged = merger.file(base or None, ours, theirs) if _are_one(ours, theirs) else None
    if merged is not None:
        atomic.write(names[1], merged.data, durable=False)
        for value in merged.dropped_values:
            dropped = f"{replace_surrogates(path)}: {replace_surrogates(masked(value))}"
            print(f"discarded from {dropped}", file=sys.stderr)
        return 0
    atomic.write(names[1], _marked(merger, base, ours, theirs, marks), durable=False)
    return _CONFLICT


def _are_one(ours: bytes, theirs: bytes) -> bool:
    """Return whether two files are the same memory: their ids are equal, or either has none."""
    ids = {read.own_id for read in map(parse_version, (ours, theirs)) if read is not None}
    return len(ids - {""}) < 2


def _marked(merger: MemoryMerger, base: bytes, ours: bytes, theirs: bytes, marks: int) -> bytes:
    """Return our version with both bodies between conflict markers.

    The headers are merged if both files are the same memory.
    """
    old, here, there = parse_version(base), parse_version(ours), parse_version(theirs)
    if old is None or here is None or there is None:
        return merger.marked((base, ours, theirs), marks)[1] or ours
    is_one = here.values.get("id") == there.values.get("id")
    other = there.parts.body if is_one else there.decoded.text
    texts = (old.parts.body if is_one else "", here.parts.body, other)
    versions = (text.encode("utf-8", "surrogatepass") for text in texts)
    body = merger.marked(versions, marks)[1].decode("utf-8", "surrogatepass")
    if is_one:
        with contextlib.suppress(ValueError):
            both = merger.with_body(old, here, there, body)
            if both is not None:
                return both.data
    parts = here.parts
    return here.decoded.encode(f"{parts.before}{parts.header}{parts.after}{body}")
