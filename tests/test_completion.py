"""Completion offers what fits, from the vault too, and nothing that a shell would run."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import Run, refused, succeeded, write
from memvault import Vault
from memvault.cli import shell_words
from memvault.cli.completing import fitting

SHELLS = ["bash", "zsh", "fish"]


@pytest.fixture
def filled(folder: Path, vault: Vault, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A vault with memories, one of them hostile, an agent and a space."""
    header = "---\nid: {}\ntags: [{}]\n---\n\n# {}\n"
    write(folder, "a.md", header.format("use-wombats-abc123", "animals, dig", "Use: wombats"))
    write(folder, "b.md", header.format("use-quokkas-abc123", "animals", "Use\x1b[31m $(quokkas)"))
    write(folder, "c.md", header.format("other-abc123", "'$(touch ran)', 'a;b', x", "Other"))
    write(folder, "odd/d.md", "---\nmemory_type: field-note\n---\nx\n")
    write(folder, "agents/bob.md", "x")
    write(folder, "spaces/team/space.md", "x")
    assert vault.call("memory_list")["success"]
    monkeypatch.setenv("MEMVAULT_VAULT", str(folder))
    return folder


def offered(line: str) -> list[str]:
    """Return what is offered at the end of a line."""
    *before, typed = line.split(" ")
    return [choice.word for choice in fitting(before[1:], typed)]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("memvault rem", ["remember"]),
        ("memvault git ", ["init", "sync", "status"]),
        ("memvault --json git s", ["sync", "status"]),
        ("memvault --agent bob fact sto", ["store"]),
        ("memvault recall --mod", ["--mode"]),
        ("memvault recall --mode v", ["vector"]),
        ("memvault recall --mode=v", ["--mode=vector"]),
        ("memvault recall words --type field", ["field-note"]),
        ("memvault recall --type issu", ["issue"]),
        ("memvault recall --tags di", ["dig"]),
        ("memvault recall --tags dig,ani", ["dig,animals"]),
        ("memvault show use", ["use-quokkas-abc123", "use-wombats-abc123"]),
        ("memvault forget use-w", ["use-wombats-abc123"]),
        ("memvault delete a b use-w", ["use-wombats-abc123"]),
        ("memvault talk agent b", ["bob"]),
        ("memvault --agent b", ["bob"]),
        ("memvault space enter t", ["team"]),
        ("memvault completion z", ["zsh"]),
        ("memvault remember Title --ty", ["--type"]),
        ("memvault nothing ", []),
        ("memvault recall --nothing ", []),
        ("memvault doctor --fi", ["--fix"]),
    ],
)
def test_what_fits_is_offered(filled: Path, line: str, words: list[str]) -> None:
    """Commands, options and the vault's own names are offered where they can stand."""
    assert offered(line) == words


def test_the_vault_on_the_line_counts(filled: Path, tmp_path: Path) -> None:
    """Names are those of the vault that the line names."""
    assert offered(f"memvault --vault {filled} show use-w") == ["use-wombats-abc123"]
    assert offered(f"memvault --vault={filled} show use-w") == ["use-wombats-abc123"]
    for other in (tmp_path / "none", tmp_path):
        with pytest.raises(Exception, match=r"no folder|no memvault\.toml"):
            offered(f"memvault --vault {other} show use-w")


def test_every_command_and_option_is_known() -> None:
    """The table holds what the program's own commands take."""
    words = shell_words.read()
    assert "".join("\t".join(word) + "\n" for word in words) == shell_words.table()
    assert {"--type", "--tags"} <= {word.name for word in words if word.command == "remember"}


def test_nothing_is_offered_that_a_shell_runs(filled: Path, run: Run) -> None:
    """A tag that holds a command is not offered, and a title steers no terminal."""
    shown = run("__complete", "zsh", "3", "memvault", "recall", "--tags", "").out
    assert "x" in shown.split()
    assert "touch" not in shown
    assert ";" not in shown
    shown = run("__complete", "fish", "2", "memvault", "show", "use").out
    assert "\x1b" not in shown
    assert "use-wombats-abc123\tUse: wombats\n" in shown


@pytest.mark.parametrize("words", [[], ["bash"], ["bash", "x", "memvault"], ["zsh", "99", "m"]])
def test_whatever_a_shell_asks(words: list[str], run: Run, tmp_path: Path) -> None:
    """A question that makes no sense, or one outside of a vault, is answered with nothing."""
    assert run("__complete", *words).code == 0
    ran = run("__complete", "zsh", "2", "memvault", "show", "", cwd=tmp_path)
    assert (ran.code, ran.out) == (0, "")


@pytest.mark.parametrize("shell", SHELLS)
def test_in_the_shell_itself(shell: str, filled: Path, tmp_path: Path) -> None:
    """After completion install a new shell completes memIds, which the Tab key types out."""
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"there is no {shell}")
    home = tmp_path / "home"
    home.mkdir()
    memvault = tmp_path / "bin" / "memvault"
    write(tmp_path, "bin/memvault", f'#!/bin/sh\nexec "{sys.executable}" -m memvault "$@"\n')
    memvault.chmod(0o755)
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("XDG_")},
        "PATH": f"{memvault.parent}:{os.environ['PATH']}",
        "HOME": str(home),
        "ZDOTDIR": str(home),
        "TERM": "dumb" if shell != "fish" else "xterm",
    }
    for words in (["completion", "install", shell], ["list", "--quiet"]):
        command = [str(memvault), *words]
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    if shell == "fish":  # whose own way to ask answers without a terminal
        command = [program, "-c", "complete -C 'memvault show use-w'"]
        out = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert out.stdout == "use-wombats-abc123\tUse: wombats\n"
        return
    flags = ["--noprofile"] if shell == "bash" else []
    typed = typed_out([program, *flags, "-i"], environment, "memvault show use-w\t --json\n")
    assert "show use-wombats-abc123" in typed
    assert '"title": "Use: wombats"' in typed


def typed_out(command: list[str], environment: dict[str, str], text: str) -> str:
    """Type into a shell on a terminal; return what stands there when it has ended."""
    child, terminal = pty.fork()
    if child == 0:
        os.execvpe(command[0], command, environment)
    shown = b""
    deadline = time.monotonic() + 60
    steps = [text.encode(), b"exit\n"]
    quiet = 0
    while time.monotonic() < deadline:
        ready, _, _ = select.select([terminal], [], [], 1.0)
        if ready:
            quiet = 0
            try:
                piece = os.read(terminal, 4096)
            except OSError:
                break
            if not piece:
                break
            shown += piece
        else:
            quiet += 1
            if quiet >= 2 and steps:
                for byte in steps.pop(0):
                    os.write(terminal, bytes([byte]))
                    time.sleep(0.7 if byte == 9 else 0.0)
                quiet = 0
    os.close(terminal)
    os.waitpid(child, 0)
    return shown.decode("utf-8", "replace")


@pytest.mark.parametrize("shell", SHELLS)
def test_installing_is_done_once_and_taken_back(
    shell: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second installation changes nothing, and removing leaves exactly what was there."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "ZDOTDIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SHELL", f"/bin/{shell}")
    before = b"# mine\nalias x=y"
    started = tmp_path / f".{shell}rc"
    started.write_bytes(before)
    assert run("completion", "install", "--json").json["changed"]
    assert run("completion", "install", "--json").json["changed"] == []
    assert run("completion", "install", "--remove", "--json").json["changed"]
    assert started.read_bytes().removesuffix(b"\n") == before
    left = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {started.name, "memvault.toml"}


def test_another_shell_is_refused(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell that is not known, or none, is said in a sentence."""
    assert "no completion for csh" in refused(run("completion", "install", "csh"), 2)
    monkeypatch.delenv("SHELL", raising=False)
    assert "not known" in refused(run("completion", "install"), 2)
    assert "complete" in succeeded(run("completion", "bash")).out
