"""Commands on Windows and macOS, emulated on Linux."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import SUPPORT, sampled, write

EMULATOR = SUPPORT / "emulated_platform.py"
LINES = """
remember Tea --text green --tags hot
remember Cups --text [[Tea]]
recall green --mode hybrid
list --json
show tea
tag rename hot warm --yes
rename cups Mugs
backlinks tea
today first
log --limit 2
doctor
undo
delete mugs
export {folder}/all.zip
import {folder}/all.zip --yes
trash list
tasks
stats
reindex
watch --status
git sync
"""


@sampled(2)
@pytest.mark.parametrize("platform", ["win32", "darwin"])
def test_platform_commands_behave_as_on_linux(platform: str, tmp_path: Path) -> None:
    """Without Linux features, all commands except the resident process and git behave the same."""
    expected, found = (_played(one, tmp_path / one) for one in ("linux", platform))
    assert "Traceback" not in found
    assert "hit a bug" not in found
    missing = ("watch", "git") if platform == "win32" else ("watch",)
    for ours, theirs in zip(expected.split("\n$ "), found.split("\n$ "), strict=True):
        if ours.removeprefix("$ ").split()[0] not in missing:
            assert theirs == ours
    assert "`memvault watch` needs Linux" in found


def _played(platform: str, folder: Path) -> str:
    """Return the output of the lines on a platform, without ids, times and paths."""
    root = folder / "vault"
    write(root, "memvault.toml", "version = 1\n")
    shown = LINES.format(folder=folder).split("\n")
    lines = [["--vault", str(root), *line.split()] for line in shown if line]
    own = dict.fromkeys(("APPDATA", "LOCALAPPDATA", "HOME", "MEMVAULT_CACHE"), str(folder))
    ran = subprocess.run(
        [sys.executable, str(EMULATOR), platform, json.dumps(lines)],
        env={**os.environ, **own}, cwd=folder, text=True, check=False,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    text = ran.stdout.replace(f"--vault {root} ", "").replace(str(folder), "")
    ids = r"(?<=-)[a-z0-9]{6}\b|(?<=  )[a-z0-9]{8}$|(?<=undo )\w+|\b(?=[a-z]*\d)[a-z0-9]{8,20}\b"
    return re.sub(rf"(?m){ids}|\d[\dT:.Z-]{{7,}}\S*|(?<=- )\d\d:\d\d\b", "*", text)
