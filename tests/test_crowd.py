"""Many processes call every writing tool beside an editor; acknowledged changes are kept."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import random
import re
import shutil
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT, SOAK, SUPPORT, write
from crowd_worker import contested
from memvault import open_vault

PROCESSES, SECONDS = (16, max(60.0, SOAK / 10)) if SOAK else (4, 2.0)
LONGEST = 5.0
"""The maximum wait in seconds; in the suite only for locks, because the disk is shared."""
MARK = re.compile(rb"mark-\w+-\d+-")
WHOLE = {"vault_reindex", "model_use", "vault_doctor"}
"""Tools that build or check the entire index, one after the other."""
NEVER = {"bug", "timed_out", "storage"}
"""Failures that concurrency does not excuse; a wait without an event times out normally."""
EXCHANGE, HERE = 2, -100
"""The flag of ``renameat2`` that exchanges two files, and its descriptor for the working folder."""


class Editor(threading.Thread):
    """A person's editor: it reads a file, and later writes in place, renames, or deletes.

    It takes no lock, and never checks whether the file has changed since. It records replaced
    content: it keeps the file open, or exchanges the new file and the old one atomically.
    ``overwritten`` contains the marks in replaced content that it had not read: it overwrote them
    with older content, which no program can prevent. ``written`` contains the marks that it wrote,
    by method.
    """

    def __init__(self, root: Path, bin_: Path) -> None:
        super().__init__()
        self._root = root
        self._bin = bin_
        self._bin.mkdir()
        self._chance = random.Random(5)
        self._over = threading.Event()
        self.overwritten: set[str] = set()
        self.written: dict[str, str] = {}
        self.done: Counter[str] = Counter()

    def run(self) -> None:
        ways = [self._in_place, self._in_place, self._deleted]
        if sys.platform == "linux":
            ways += [self._renamed, self._renamed]
        while not self._pauses():
            files = [*self._root.glob("*.md"), *self._root.glob("fact/*.md")]
            if not files:
                continue
            way = self._chance.choice(ways)
            with contextlib.suppress(FileNotFoundError):
                file = self._chance.choice(contested(files, self._chance))
                way(file, f"mark-editor-{self.done.total()}-")
                self.done[way.__name__] += 1

    def _pauses(self) -> bool:
        return self._over.wait(self._chance.uniform(0, 0.05))

    def _in_place(self, file: Path, mark: str) -> None:
        read = file.read_bytes()
        self._pauses()
        with file.open("r+b", 0) as opened:
            self.overwritten |= _marks(opened.read()) - _marks(read)
            opened.seek(0)
            opened.truncate()
            opened.write(read + f"{mark}\n".encode())
        self.written[mark] = "in place"

    def _renamed(self, file: Path, mark: str) -> None:
        read = file.read_bytes()
        self._pauses()
        other = file.with_name(f".{file.name}.swp")
        other.write_bytes(read + f"{mark}\n".encode())
        try:
            _exchange(other, file)
            self.overwritten |= _marks(other.read_bytes()) - _marks(read)
        finally:
            other.unlink()
        self.written[mark] = "renamed"

    def _deleted(self, file: Path, mark: str) -> None:
        file.rename(self._bin / mark)

    def end(self) -> None:
        self._over.set()
        self.join()


def _exchange(one: Path, other: Path) -> None:
    """Exchange two files atomically.

    Raises:
        FileNotFoundError: if one of them is gone.
    """
    library = ctypes.CDLL(None, use_errno=True)
    if library.renameat2(HERE, os.fsencode(one), HERE, os.fsencode(other), EXCHANGE):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(other))


def _marks(data: bytes) -> set[str]:
    return {mark.decode() for mark in MARK.findall(data)}


def _played(root: Path) -> list[list[dict[str, Any]]]:
    """Run the workers; return the output of each process."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(SUPPORT)]),
    }
    started = [
        subprocess.Popen(
            [sys.executable, str(SUPPORT / "crowd_worker.py"), f"w{who}", str(SECONDS)],
            cwd=root,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for who in range(PROCESSES)
    ]
    told = []
    for process in started:
        out, complaint = process.communicate(timeout=SECONDS + 180)
        assert (process.returncode, complaint) == (0, ""), complaint
        told.append([json.loads(line) for line in out.splitlines()])
    return told


@pytest.mark.promise("R30")
def test_concurrent_writers_keep_all_acknowledged_changes(filled: Path, tmp_path: Path) -> None:
    """No acknowledged change is lost unless the editor replaced it; no call exceeds 5 seconds."""
    root = tmp_path / "vault"
    shutil.copytree(filled, root)
    settings = "version = 1\nworld.enabled = true\n"
    write(root, "memvault.toml", settings + "[history]\nrevisions = 1000000\nmegabytes = 1000000\n")
    editor = Editor(root, tmp_path / "bin")
    editor.start()
    try:
        told = [call for calls in _played(root) for call in calls]
    finally:
        editor.end()
    failed = Counter((call["tool"], call["error"]["code"]) for call in told if "error" in call)
    wrong = [
        call
        for call in told
        if (error := call.get("error"))
        and (error["code"] in NEVER or not error.get("hint"))
        and (call["tool"], error["code"]) != ("wait_for", "timed_out")
    ]
    found: set[str] = set()
    for path in (*root.rglob("*"), *(tmp_path / "bin").iterdir()):
        if path.is_file():
            found |= _marks(path.read_bytes())
    kept = {call["mark"]: call["tool"] for call in told if call.get("mark")} | editor.written
    missing = {mark: by for mark, by in kept.items() if mark not in found}
    lost = {mark: by for mark, by in missing.items() if mark not in editor.overwritten}
    replaced = [mark for mark, by in lost.items() if by == "renamed"]
    figures = {
        "calls": len(told),
        "marked": len(kept),
        "overwritten by the editor": len(missing) - len(lost),
        "lost": lost,
        "renamed by the editor": f"{len(replaced)} of {editor.done['_renamed']} lost",
        "failed": {f"{tool} {code}": count for (tool, code), count in failed.items()},
        "slowest": round(max(call["seconds"] for call in told), 2),
        "longest asleep": _longest((call["tool"], call["asleep"]) for call in told),
        "longest waits for a lock": _longest(
            (f"{call['tool']} {lock}", waited)
            for call in told
            for lock, waited in call["locks"].items()
        ),
        "editor": dict(editor.done),
        "wrong": [(call["tool"], call["error"]) for call in wrong],
    }
    print(json.dumps(figures, indent=1))
    assert not wrong, figures["wrong"]
    assert len(replaced) == len(lost), figures
    late = [
        call
        for call in told
        if call["tool"] not in WHOLE
        and (call["asleep"] if SOAK else sum(call["locks"].values())) > LONGEST
    ]
    assert not late, (late[:5], figures)
    with open_vault(root) as vault:
        assert vault.call("memory_list", limit=5)["success"]
        assert vault.call("memory_log", limit=5)["success"]


def _longest(found: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Return the maximum of each kind, longest first."""
    most: dict[str, float] = {}
    for name, seconds in found:
        most[name] = max(most.get(name, 0.0), round(seconds, 2))
    return dict(sorted(most.items(), key=lambda entry: -entry[1])[:12])
