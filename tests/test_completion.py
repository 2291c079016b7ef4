"""Completion offers what fits, from the vault too, and nothing that a shell would run."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import Run, refused, succeeded
from memvault.cli import completion
from memvault.cli.completion import candidates
from shells import completing_shell, hostile_names, typed_in_shell

SHELLS = ["bash", "zsh", "fish"]
filled = pytest.fixture(hostile_names)


def offered(line: str) -> list[str]:
    """Return what is offered at the end of a line."""
    *before, typed = line.split(" ")
    return [choice.word for choice in candidates(before[1:], typed)]


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
    words = completion.read()
    assert "".join("\t".join(word) + "\n" for word in words) == completion.table()
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


def test_in_the_shell_itself(filled: Path, tmp_path: Path) -> None:
    """After completion install a new shell completes memIds, which the Tab key types out."""
    environment = completing_shell("bash", tmp_path)
    typed = typed_in_shell(["bash", "--noprofile", "-i"], environment, "memvault show use-w\t")
    assert "show use-wombats-abc123" in typed
    assert '"title": "Use: wombats"' in typed


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
