"""Many processes call every tool that writes, beside an editor: what is acknowledged is kept."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

from conftest import ROOT, write
from memvault import open_vault

SOAK = float(os.environ.get("SOAK_SECONDS", "0"))
PROCESSES, SECONDS = (16, max(60.0, SOAK / 10)) if SOAK else (4, 5.0)
LONGEST = 5.0 if SOAK else 60.0
"""Seconds that nobody waits longer than: in the long form what is promised."""
SHARED = max(1.0, PROCESSES / (os.cpu_count() or 1))
"""How much longer work takes where so many share the processors: that is no waiting."""
MARK = re.compile(rb"mark-\w+-\d+-")
WHOLE = {"vault_reindex", "model_use", "vault_doctor"}
"""Tools that make or check the whole index, each when the one before has done so."""
NEVER = {"bug", "timed_out", "storage"}
"""Failures that no crowd is a reason for; a wait that finds nothing times out by itself."""


class Editor(threading.Thread):
    """A person's editor: it writes in place, writes and renames, and deletes, without any lock.

    ``replaced`` names the files that it wrote under another name: what others
    wrote into them in that moment is gone, and nothing can keep it.
    """

    def __init__(self, root: Path, bin_: Path) -> None:
        super().__init__()
        self._root = root
        self._bin = bin_
        self._bin.mkdir()
        self._over = threading.Event()
        self.replaced: set[str] = set()
        self.done: Counter[str] = Counter()

    def run(self) -> None:
        chance = random.Random(5)
        while not self._over.wait(chance.uniform(0, 0.05)):
            files = [*self._root.glob("*.md"), *self._root.glob("fact/*.md")]
            if not files:
                continue
            file = chance.choice(files)
            way = chance.choice(["in place", "in place", "renamed", "deleted"])
            with contextlib.suppress(FileNotFoundError):
                if way == "in place":
                    with file.open("r+b", 0) as opened:
                        data = opened.read()
                        opened.seek(0)
                        opened.write(data + b"edited\n")
                elif way == "renamed":
                    self.replaced.add(file.relative_to(self._root).as_posix())
                    other = file.with_name(f".{file.name}.swp")
                    other.write_bytes(file.read_bytes() + b"edited\n")
                    other.rename(file)
                else:
                    file.rename(self._bin / str(self.done.total()))
                self.done[way] += 1

    def end(self) -> None:
        self._over.set()
        self.join()


def _played(root: Path) -> list[list[dict[str, Any]]]:
    """Let the crowd work; return what each process told."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")]),
    }
    started = [
        subprocess.Popen(
            [sys.executable, str(ROOT / "tests" / "crowd_worker.py"), f"w{who}", str(SECONDS)],
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


def test_what_a_crowd_was_told_is_done(filled: Path, tmp_path: Path, record_property: Any) -> None:
    """No acknowledged text is lost, no call waits without end, meets a bug or fails unexplained."""
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
            found |= {mark.decode() for mark in MARK.findall(path.read_bytes())}
    kept = [call for call in told if call.get("mark")]
    lost = [call for call in kept if call["mark"] not in found]
    slow: dict[str, float] = {}
    for call in told:
        waited = call["seconds"] - call["work"] * SHARED
        slow[call["tool"]] = max(slow.get(call["tool"], 0.0), round(waited, 2))
    longest = sorted(slow.items(), key=lambda entry: -entry[1])
    figures = {
        "calls": len(told),
        "marked": len(kept),
        "lost": len(lost),
        "failed": {f"{tool} {code}": count for (tool, code), count in failed.items()},
        "slowest": round(max(call["seconds"] for call in told), 2),
        "longest waits": longest[:12],
        "editor": dict(editor.done),
    }
    print(json.dumps(figures))
    assert not wrong, wrong[:5]
    assert not [call for call in lost if call["path"] not in editor.replaced], figures
    assert not [entry for entry in longest if entry[1] > LONGEST and entry[0] not in WHOLE], figures
    with open_vault(root) as vault:
        assert vault.call("memory_list", limit=5)["success"]
        assert vault.call("memory_log", limit=5)["success"]
