"""The first session looks the same regardless of the background process's progress.

The demo, the README's session and the transcripts run while none, half and all of the memories
have transformer vectors.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT, SUPPORT, Run, sampled, soak_only
from deep_share import stopped_at
from test_transcripts import _BLOCK, _SCORE, PAGES, formal

SHARES = {"quick-alone": 0.0, "half-way": 0.5, "complete": 1.0}
_ASKING = re.compile(r"memvault (?:\w+ )?(?:recall|search|context|compound|remember)\b")
"""Matches commands that may use transformer vectors."""
_SHELL = re.compile(r"[|<>;&$`*?~\\]")
_TOKEN = re.compile(r"(?<=--confirm )(?!0{12})[0-9a-f]{12}")

_STOPPED = """
import sys
from pathlib import Path

if sys.orig_argv[1:3] == ["-m", "memvault"]:
    from deep_share import stopped_at

    kept = stopped_at(Path.cwd(), {})
    kept.__enter__()
"""
"""Run by Python before each command of the demo; its process then holds the lock until it exits."""

pytestmark = pytest.mark.usefixtures("_as_a_user")


@pytest.fixture
def _as_a_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("MEMVAULT_DEEP")
    monkeypatch.setenv("HOME", str(tmp_path))
    shim = tmp_path / "bin" / "memvault"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m memvault "$@"\n', "utf-8")
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", f"{shim.parent}:{os.environ['PATH']}")


class Session:
    """A shell in a folder, with the vault's deep vectors kept at a given share."""

    def __init__(self, run: Run, folder: Path, home: Path, share: float) -> None:
        self._run = run
        self._folder = folder
        self._home = home
        self._share = share
        self._token = ""

    def play(self, block: str) -> str:
        """Return a block with the current output of every command."""
        return "".join(f"$ {command}\n{self._output(command)}" for command in _commands(block))

    def _output(self, command: str) -> str:
        typed = _TOKEN.sub(lambda shown: self._token or shown[0], command)
        asks = _ASKING.search(typed)
        with stopped_at(self._folder, self._share) if asks else nullcontext():
            if typed.startswith("memvault ") and not _SHELL.search(typed):
                ran = self._run(*shlex.split(typed)[1:], cwd=self._folder)
                code, out = ran.code, f"{ran.out}{ran.err}"
            else:
                done = subprocess.run(
                    ["/bin/sh", "-c", typed],
                    cwd=self._folder,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    check=False,
                )
                code, out = done.returncode, done.stdout.decode()
        moved = re.search(r"&& cd (\w+)$", typed)
        self._folder = self._folder / moved[1] if moved else self._folder
        if shown := _TOKEN.search(out):
            self._token = shown[0]
        out = out.replace(str(self._home), "~")
        return f"{out}[exit {code}]\n" if code else out


def _shares_of_pages() -> Iterator[Any]:
    """Yield each page with both shares, alternating which comes first."""
    pages = [page for page in PAGES if _ASKING.search(page.read_text("utf-8"))]
    for number, page in enumerate(pages):
        shares = ["half-way", "complete"]
        for share in shares if number % 2 else reversed(shares):
            yield pytest.param(page, share, id=f"{page.stem}-{share}")


def _commands(block: str) -> Iterator[str]:
    """Yield the typed commands, each with its continuation lines."""
    for found in re.finditer(r"^\$ ((?:.*\\\n)*.*)\n", block, re.MULTILINE):
        yield found[1]


@sampled(11)
@pytest.mark.parametrize(("page", "share"), list(_shares_of_pages()))
def test_transcript_is_independent_of_embedding_progress(
    page: Path, share: str, run: Run, tmp_path: Path
) -> None:
    """The answers, scores and notes in documented sessions are the same for all users."""
    folder = tmp_path / "notes"
    folder.mkdir()
    text = page.read_text("utf-8")
    if "$ git " in text and shutil.which("git") is None:
        pytest.skip("there is no git")
    session = Session(run, folder, folder, SHARES[share])
    played = _BLOCK.sub(lambda block: session.play(block[0]), text)
    assert formal(_SCORE.sub("…", played)) == formal(text)


@sampled(6)
@pytest.mark.parametrize("share", SHARES)
def test_readme_session_matches_real_output(share: str, run: Run, tmp_path: Path) -> None:
    """The session in README matches real output; ``…`` marks omitted text."""
    text = (ROOT / "README.md").read_text("utf-8")
    (shown,) = (block for block in _BLOCK.findall(text) if "\n$ memvault" in block)
    played = Session(run, tmp_path, tmp_path, SHARES[share]).play(shown)
    form = re.escape(formal(_SCORE.sub("…", shown)))
    pattern = form.replace("\\ \\ \\ …\\\n", "(?:   .*\n)*").replace("…", ".*")
    assert re.fullmatch(pattern, formal(played)), played


def play_demo(
    place: Path, before: str, monkeypatch: pytest.MonkeyPatch, prefix: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Play the demo in a fresh copy, with merged streams.

    ``before`` is Python code that runs before each command, and ``prefix`` a program that starts
    the commands.
    """
    shutil.copytree(ROOT / "sample", place / "copy" / "sample")
    script = place / "copy" / "scripts" / "demo.py"
    script.parent.mkdir()
    shutil.copy(ROOT / "scripts" / "demo.py", script)
    (place / "sitecustomize.py").write_text(before, "utf-8")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(place), str(SUPPORT)]))
    return subprocess.run(
        [*prefix, sys.executable, str(script)],
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )


@soak_only
@pytest.mark.parametrize("share", ["half-way", "quick-alone", "complete"])
def test_demo_succeeds_during_background_embedding(
    share: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The demo in a fresh copy finds its documented results during any background work."""
    done = play_demo(tmp_path, _STOPPED.format(SHARES[share]), monkeypatch)
    assert done.returncode == 0, done.stdout
