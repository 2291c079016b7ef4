"""A person reaches the files themselves: by path, in an editor, in Obsidian, from a template."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from conftest import Run, refused, succeeded, until, write

NOTE = "---\nid: plan-7k2m9q\ntitle: The plan\n---\n\nBegin.\n"
EDITOR = """import sys
with open(sys.argv[-1], "a") as file:
    file.write("Go on.\\n")
"""
SLOW_EDITOR = """import pathlib, signal, sys, time
signal.signal(signal.SIGINT, lambda *_: pathlib.Path("interrupted").touch())
pathlib.Path("begun").touch()
while not pathlib.Path("go").exists():
    time.sleep(0.01)
with open(sys.argv[-1], "a") as file:
    file.write("Saved.\\n")
"""


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An editor that adds a line."""
    script = tmp_path / "my editor.py"
    script.write_text(EDITOR, "utf-8")
    monkeypatch.setenv("VISUAL", f"{sys.executable} '{script}'")


@pytest.fixture(autouse=True)
def noted(folder: Path) -> None:
    """A vault with one memory."""
    write(folder, "ideas/the plan.md", NOTE)


def test_a_path_is_for_other_programs(run: Run, folder: Path) -> None:
    """One line, the whole path and nothing else; without a memory that of the vault."""
    assert run("path", "The plan").out == f"{folder.resolve()}/ideas/the plan.md\n"
    assert run("path").out == f"{folder.resolve()}\n"


def test_an_edit_says_what_changed(run: Run, folder: Path, editor: None) -> None:
    """The editor gets the file, and the change is counted and found at once."""
    said = succeeded(run("edit", "The plan", "--json")).json
    assert "+Go on." in said["diff"]
    assert (said["added"], said["removed"], said["filePath"]) == (1, 0, "ideas/the plan.md")
    assert (folder / "ideas/the plan.md").read_text("utf-8") == f"{NOTE}Go on.\n"
    assert "Go on." in run("show", "The plan").out


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("/nowhere/editor", 1, "could not be started"),
        ("no-such-editor", 1, "could not be started"),
        ("false", 1, "ended with 1"),
        ("'unclosed", 2, "VISUAL cannot be read"),
    ],
)
def test_an_editor_that_fails_is_named(
    run: Run, monkeypatch: pytest.MonkeyPatch, command: str, code: int, said: str
) -> None:
    """What cannot be read or started, or ends in an error, is said in a sentence."""
    monkeypatch.setenv("VISUAL", command)
    assert said in refused(run("edit", "The plan"), code)


def test_a_vault_brings_no_editor(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program in the vault is no editor, even where PATH would find it there."""
    write(folder, "my-editor", f"#!/bin/sh\ntouch {folder}/ran\n").chmod(0o755)
    monkeypatch.setenv("VISUAL", "my-editor")
    monkeypatch.setenv("PATH", f".:{folder}:{os.environ['PATH']}")
    assert "could not be started" in refused(run("edit", "The plan"), 1)
    assert not (folder / "ran").exists()


@pytest.mark.skipif(os.name == "nt", reason="signals are of POSIX")
def test_ctrl_c_is_the_editors_own(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Ctrl-C at the terminal, which an editor takes, does not end it and what it would save."""
    script = tmp_path / "editor.py"
    script.write_text(SLOW_EDITOR, "utf-8")
    monkeypatch.setenv("VISUAL", f"{sys.executable} {script}")
    child = subprocess.Popen(
        [sys.executable, "-m", "memvault", "edit", "The plan"],
        cwd=folder, stdout=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    until((folder / "begun").exists)
    os.killpg(child.pid, signal.SIGINT)
    until((folder / "interrupted").exists)
    (folder / "go").touch()
    said = child.communicate(timeout=60)[0].decode()
    assert (child.returncode, "1 line added" in said) == (0, True), said
    assert (folder / "ideas/the plan.md").read_text("utf-8") == f"{NOTE}Saved.\n"


def test_without_an_editor_nobody_waits(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no editor is set and nobody is at a terminal, the hint says what to set."""
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.delenv("EDITOR", raising=False)
    ran = run("edit", "The plan")
    assert "No editor is known" in refused(ran, 1)
    assert "VISUAL" in ran.err


def test_obsidian_is_told_the_file(run: Run, folder: Path) -> None:
    """The address is one that Obsidian opens; --print opens nothing."""
    ran = succeeded(run("open", "The plan", "--print"))
    path = str(folder.resolve() / "ideas/the plan.md").replace("/", "%2F").replace(" ", "%20")
    assert ran.out == f"obsidian://open?path={path}\n"


@pytest.mark.skipif(os.name == "nt", reason="a script stands for the desktop's program")
def test_a_vault_of_obsidians_is_opened_there(
    run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, editor: None
) -> None:
    """With .obsidian in the vault its address goes to the desktop, else the editor opens."""
    write(tmp_path, "bin/xdg-open", f'#!/bin/sh\necho "$1" > {tmp_path}/opened\n')
    (tmp_path / "bin/xdg-open").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    succeeded(run("open", "The plan"))
    assert "Go on." in (folder / "ideas/the plan.md").read_text("utf-8")
    (folder / ".obsidian").mkdir()
    succeeded(run("open", "The plan"))
    assert (tmp_path / "opened").read_text("utf-8").startswith("obsidian://open?path=")


def test_a_template_is_filled_in(run: Run, folder: Path) -> None:
    """Title, date and time are put in as Obsidian's plugin does; type and tags are the header's."""
    text = (
        "---\nmemory_type: issue\ntags: [bug]\n---\n\n# {{title}}\n\n{{date:DD.MM.YYYY}} {{time}}\n"
        "{{date:MMM Do, h A}} {{date:[Week] W}}\n"
    )
    write(folder, "templates/fault.md", text)
    made = succeeded(run("new", "Disk full", "--template", "fault", "--json")).json
    found = (folder / made["filePath"]).read_text("utf-8")
    assert made["filePath"] == "issue/disk-full.md"
    assert "tags: [bug]" in found
    now = datetime.now().astimezone()
    assert re.search(rf"# Disk full\n\n{now:%d\.%m\.%Y} \d\d:\d\d\n", found)
    assert re.search(rf"{now:%b} {now.day}(st|nd|rd|th), \d+ [AP]M Week \d+\n$", found)
