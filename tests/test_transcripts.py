"""Replays shell sessions: the transcripts and the tours in docs show real output.

Each page's ``console`` blocks contain commands after ``$`` and their output; a page is one vault.
Ids, times, etags and tokens differ between runs and are compared by their form. A score depends on
the background process's progress, and is shown as ``…``. ``--rewrite-transcripts`` updates the
pages, and README's recording.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import draw_recording
from conftest import write
from launcher import Launcher

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("tests/transcripts/*.md"), *ROOT.glob("docs/guide/tour/*.md")])
_BLOCK = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)
_QUOTED = re.compile(r"'[^']*'|\"[^\"$`\\]*\"")
_MARKS = set("|&;<>()$`\\\"'*?[#~!{\n")
"""Characters that a shell interprets outside of quotes."""
_VARYING = (
    (re.compile(r"\d{8}T\d{6}\.\d{6}Z-[0-9a-z]{10}"), "<event>"),
    (re.compile(r"\b\d\.\d+(?= seconds have passed)"), "<seconds>"),
    (re.compile(r"(?<=talk )\d{9,}|(?<=reply to )\d{9,}"), "<talk>"),
    (re.compile(r'(?<="talkId": )\d{9,}|(?<="inReplyTo": )\d{9,}'), "<talk>"),
    (re.compile(r"\d{8}T\d{6}\.\d{3}Z-[0-9a-f]{20}"), "<revision>"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3}Z)?"), "<time>"),
    (re.compile(r"(?<=  )20\d\d-\d\d-\d\d$", re.MULTILINE), "<date>"),
    (re.compile(r"(?<=oldest from )20\d\d-\d\d-\d\d"), "<date>"),
    (re.compile(r"(?<=^> )20\d\d-\d\d-\d\d(?= )", re.MULTILINE), "<date>"),
    (re.compile(r"\b[0-9a-f]{20}\b"), "<etag>"),
    (re.compile(r"\d+(?= of 2000 tokens$)", re.MULTILINE), "<tokens>"),
    (re.compile(r"(?<= in )[0-9a-f]{7}\b|(?<=until )[0-9a-f]{7}\b"), "<commit>"),
    (re.compile(r'(?<="since": ")[0-9a-f]{7}\b'), "<commit>"),
    (
        re.compile(
            r"(?<=  )[0-9a-hjkmnp-tv-z]{8}(?=  |$)|(?<=undo )[0-9a-hjkmnp-tv-z]{8}(?=[ `])"
            r"|(?<=undoes )[0-9a-hjkmnp-tv-z]{8}|(?<=undone by )[0-9a-hjkmnp-tv-z]{8}"
            r"|(?<=since )[0-9a-hjkmnp-tv-z]{8}(?=,)",
            re.MULTILINE,
        ),
        "<change>",
    ),
    (re.compile(r'(?<=--confirm )[0-9a-f]{12}|(?<="confirmToken": ")[0-9a-f]{12}'), "<token>"),
    (re.compile(r"(?<=[^\W_]-)(?=[0-9a-z]*[0-9])[0-9a-hjkmnp-tv-z]{6}\b"), "<id>"),
    (
        re.compile(
            r"(?<=[^\W_]-)[0-9a-hjkmnp-tv-z]{6}(?=  |\"|`|\)|\]|;|$| is | puts | names | moves )",
            re.MULTILINE,
        ),
        "<id>",
    ),
)
_SCORE = re.compile(
    r"(?<![\d.])0\.\d\d(?=  (?:strong|fair|weak)\b)|(?<=^   )0\.\d\d(?=  .*\.md$)"
    r"|(?<=  )[01]\.\d\d(?=  [0-9a-f]{20}$)"
    r"|(?<=  strong )[01]\.\d\d\b|(?<=  (?:fair|weak) )0\.\d\d\b"
    r'|(?<="score": )0\.\d+|(?<="probability": )[01]\.\d+',
    re.MULTILINE,
)


class _Shell:
    """Runs command lines in a folder with merged streams, in ``sh`` if needed.

    ``prefix`` is a program that starts each command.
    """

    def __init__(self, launcher: Launcher | None, folder: Path, prefix: Sequence[str]) -> None:
        self._launcher = launcher
        self._folder = folder
        self._prefix = prefix
        shim = write(
            folder.parent, "bin/memvault", f'#!/bin/sh\nexec "{sys.executable}" -m memvault "$@"\n'
        )
        shim.chmod(0o755)

    def run(self, line: str) -> tuple[int, str]:
        """Return the exit code and the output."""
        plain = _QUOTED.sub("", line)
        is_plain = plain.startswith("memvault ") and not _MARKS & {*plain}
        if is_plain and self._launcher is not None:
            words = shlex.split(line)[1:]
            found = self._launcher.run(words, b"", self._folder, 60, merged=True)
            assert found is not None
            code, said, _ = found
        else:
            done = subprocess.run(
                [*self._prefix, "/bin/sh", "-c", line],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                check=False,
                timeout=60,
            )
            code, said = done.returncode, done.stdout
        return code, said.decode()


def _played(block: str, shell: _Shell, folder: Path) -> str:
    """Return a block with the current output of every command."""
    lines = []
    for command in [line[2:] for line in block.splitlines() if line.startswith("$ ")]:
        code, said = shell.run(command)
        lines += [f"$ {command}", *said.replace(str(folder), "~").splitlines()]
        if code:
            lines.append(f"[exit {code}]")
    return "\n".join(lines) + "\n"


def formal(text: str) -> str:
    """Return a text with placeholders for values that differ between runs."""
    for pattern, name in _VARYING:
        text = pattern.sub(name, text)
    return text


def play(
    page: Path,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    launcher: Launcher | None,
    prefix: Sequence[str] = (),
) -> str:
    """Return a page with the current output of every command.

    Without a launcher, commands run in processes started by the program of ``prefix``.
    """
    folder = place / "notes"
    folder.mkdir()
    text = page.read_text("utf-8")
    if "$ git " in text and shutil.which("git") is None:
        pytest.skip("there is no git")
    monkeypatch.setenv("PATH", f"{place / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(folder))
    shell = _Shell(launcher, folder, prefix)
    return _SCORE.sub("…", _BLOCK.sub(lambda block: _played(block[0], shell, folder), text))


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_transcripts_match_program_output(
    page: Path,
    tmp_path: Path,
    launcher: Launcher,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """The sessions in the documentation match the actual output."""
    text = page.read_text("utf-8")
    played = play(page, tmp_path, monkeypatch, launcher)
    if request.config.getoption("--rewrite-transcripts"):
        if formal(played) != formal(text):
            page.write_text(played, "utf-8")
        return
    assert formal(played) == formal(text), "make docs writes the pages again"


def test_recording_matches_program_output(request: pytest.FixtureRequest) -> None:
    """The recording in README matches the output of the same lines typed by a user."""
    drawn = draw_recording.draw(draw_recording.play())
    if request.config.getoption("--rewrite-transcripts"):
        if not draw_recording.is_current(drawn):
            draw_recording.PICTURE.write_text(drawn, "utf-8")
        return
    assert draw_recording.is_current(drawn), "make docs draws the recording again"
