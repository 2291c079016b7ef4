"""Hooks store each session as an episode, when it ends and before its context is compacted."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from conftest import Run, contents, refused, succeeded, until, write
from import_sources import claude_code

_EPISODE = "episode/2026-11-18 Orders are charged twice when the customer clicks fast.md"


def hooks_of(folder: Path) -> dict[str, Any]:
    """Return the hooks in a project's settings of Claude Code."""
    found: dict[str, Any] = json.loads((folder / ".claude/settings.json").read_text("utf-8"))
    return dict(found.get("hooks", {}))


def test_capture_stores_session_once_and_updates_it(run: Run, folder: Path, tmp_path: Path) -> None:
    """The installed hooks store a session once, even if it ends repeatedly; recall finds it."""
    succeeded(run("setup", "claude-code", "--capture", "--yes"))
    [entry] = hooks_of(folder)["SessionEnd"]
    command = entry["hooks"][0]["command"]
    record = claude_code.write_session(tmp_path, claude_code.lines())
    given = json.dumps({"transcript_path": str(record), "reason": "exit", "cwd": str(folder)})

    words = shlex.split(command.replace("$CLAUDE_PROJECT_DIR", str(folder)))
    hook = words[words.index("hook") : words.index("||")]

    def end() -> None:
        assert succeeded(run(*hook, stdin=given)).err == ""

    end()
    until((folder / _EPISODE).exists)
    claude_code.write_session(tmp_path, [*claude_code.lines(), *claude_code.more()])
    end()
    until(lambda: "How long do we keep the key?" in (folder / _EPISODE).read_text("utf-8"))
    assert len(list((folder / "episode").iterdir())) == 1
    found = succeeded(run("recall", "charged twice", "--json")).json
    assert found["memories"][0]["filePath"] == _EPISODE


def test_setup_without_capture_removes_its_hooks(run: Run, folder: Path) -> None:
    """Capture is off by default; setup without it, or with --remove, deletes its hooks."""
    before = contents(folder)
    succeeded(run("setup", "claude-code", "--yes"))
    plain = (folder / ".claude/settings.json").read_text("utf-8")
    assert "--capture" not in plain
    succeeded(run("setup", "claude-code", "--capture", "--yes"))
    assert {"SessionEnd", "PreCompact"} <= hooks_of(folder).keys()
    succeeded(run("setup", "claude-code", "--yes"))
    assert (folder / ".claude/settings.json").read_text("utf-8") == plain
    succeeded(run("setup", "claude-code", "--capture", "--yes"))
    succeeded(run("setup", "claude-code", "--remove", "--yes"))
    assert contents(folder) == before


@pytest.mark.parametrize("program", ["opencode", "cursor"])
def test_capture_needs_transcript_path_from_program(program: str, run: Run) -> None:
    """If a program's hooks do not pass a transcript, setup --capture is refused with the reason."""
    assert "do not pass the session's transcript" in refused(
        run("setup", program, "--capture", "--yes"), 2
    )


def test_capture_hook_never_fails(run: Run, folder: Path, tmp_path: Path) -> None:
    """A missing or broken transcript does not make the program's hook fail."""
    broken = write(tmp_path, "broken.jsonl", b"\0\xff{")
    for path in (str(tmp_path / "gone.jsonl"), str(broken), "", 7):
        given = json.dumps({"transcript_path": path})
        ran = run("hook", "session-end", "--for", "claude-code", "--capture", stdin=given)
        assert (ran.code, ran.err) == (0, "")
