"""If an editor saves while a command replaces the same file, nothing is lost."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from caseless import ignore_case
from children import in_child
from conftest import called, write
from memvault import open_vault
from memvault.vault.document import etag
from tool_calls import typed

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")

EDIT = "saved by an editor\n"
MOMENTS = {"while the new file is written": "open", "when the old file is kept": "os.link"}


def saving_at(moment: str, file: Path, in_place: bool) -> Callable[[], bool]:
    """Save a file like an editor at a point in this process; return a check that it happened."""
    done: list[str] = []

    def happens(event: str, arguments: tuple[Any, ...]) -> None:
        path = (
            os.fsdecode(arguments[0])
            if arguments and isinstance(arguments[0], str | bytes | Path)
            else ""
        )
        about = Path(path).name.startswith(f".{file.stem.lstrip('.')}")
        is_temporary = event == "open" and about and path.endswith(".tmp")
        if done or (event != moment) or (event == "open" and not is_temporary):
            return
        if event == "os.link" and path != str(file):
            return
        done.append(path)
        if in_place:
            with file.open("a") as stream:
                stream.write(EDIT)
        else:
            new = file.with_name("editor.swap")
            new.write_text(file.read_text("utf-8") + EDIT, "utf-8")
            new.replace(file)

    sys.addaudithook(happens)
    return lambda: bool(done)


def revisions(root: Path) -> list[str]:
    """Return the content of a vault's revisions, each of which matches its name."""
    found = []
    for path in root.glob(".memvault/history/*/*.md"):
        data = path.read_bytes()
        assert path.stem.endswith(etag(data)), "a revision is damaged"
        found.append(data.decode())
    return found


def plan_ends(root: Path) -> Path:
    """Prepare a plan that is due."""
    with open_vault(root) as vault:
        plan = {"name": "p", "instruction": "Do it", "scheduledAt": "2999-01-01"}
        assert vault.call("set_plans", plans=[plan])["success"]
    file = root / "agents/main/plans/p.md"
    text = (
        file.read_text("utf-8")
        .replace("2999-01-01T00:00:00.000Z", "2026-11-20")
        .replace("2999-01-01", "2026-11-20")
    )
    file.write_text(text, "utf-8")
    return file


def note(root: Path) -> Path:
    """Prepare a note."""
    return write(root, "fact/a.md", "---\nid: m1\nmemory_type: fact\n---\n\n# A\n\nzebra\n")


def value(root: Path) -> Path:
    """Prepare a value of an agent."""
    with open_vault(root) as vault:
        assert vault.call("set_memories", memories=[{"key": "k", "value": "v"}])["success"]
    return root / "agents/main/memories/k.md"


VAULT_CASES: dict[str, tuple[Callable[[Path], Path], list[str]]] = {
    "plan ends": (plan_ends, ["inbox", "peek"]),
    "compound": (note, ["compound", "m1", "more"]),
    "retype": (note, ["compound", "m1", "more", "--type", "issue"]),
    "rename": (note, ["rename", "m1", "B"]),
    "tag": (note, ["tag", "add", "m1", "x"]),
    "values set": (value, ["memories", "set", "k=w"]),
    "values delete": (value, ["memories", "delete", "k"]),
}


@pytest.mark.promise("R89")
@pytest.mark.parametrize("moment", MOMENTS.values(), ids=MOMENTS.keys())
@pytest.mark.parametrize("in_place", [True, False], ids=["in place", "by rename"])
@pytest.mark.parametrize("case", VAULT_CASES.values(), ids=VAULT_CASES.keys())
def test_edit_during_a_change_is_kept(
    folder: Path,
    case: tuple[Callable[[Path], Path], list[str]],
    moment: str,
    in_place: bool,
) -> None:
    """Text saved by an editor while a tool replaces the file is kept in the file or a revision."""
    prepare, words = case
    file = prepare(folder)

    def work() -> tuple[bool, int, str]:
        saved = saving_at(moment, file, in_place)
        ran = typed("--vault", str(folder), *words)
        return saved(), ran.code, ran.err

    saved, code, err = in_child(work)
    if saved:
        now = file.read_text("utf-8") if file.exists() else ""
        assert EDIT in now or any(EDIT in text for text in revisions(folder)), (code, err)
    assert saved or moment == "open"  # nothing is written to delete a value
    assert "Traceback" not in err


HOME_CASES: dict[str, tuple[str, list[str]]] = {
    "setup": (".claude.json", ["setup", "claude-code", "--user", "--yes"]),
    "completion": (".bashrc", ["completion", "install", "bash", "--yes"]),
    "vaults": ("config/memvault/settings.toml", ["vaults", "add", "work", "VAULT"]),
    "git init": ("VAULT/.gitignore", ["git", "init", "--confirm", "true"]),
}


@pytest.mark.promise("R89")
@pytest.mark.parametrize("case", HOME_CASES.values(), ids=HOME_CASES.keys())
def test_edit_of_settings_during_a_command_is_kept(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, case: tuple[str, list[str]]
) -> None:
    """A settings file that another program saves during a command is not overwritten."""
    name, words = case
    words = [word.replace("VAULT", str(folder)) for word in words]
    if words[0] == "git":
        if not shutil.which("git"):
            pytest.skip("there is no git")
        subprocess.run(["git", "init", "-q", str(folder)], check=True)
    monkeypatch.setenv("HOME", str(tmp_path))
    text = {".claude.json": '{"a": 1}\n', "config/memvault/settings.toml": "# mine\n"}
    file = write(tmp_path, name.replace("VAULT", "vault"), text.get(name, "x\n"))
    file.chmod(0o600)

    def work() -> tuple[bool, int, str]:
        saved = saving_at("open", file, True)
        ran = typed("--vault", str(folder), *words)
        return saved(), ran.code, ran.err

    saved, code, err = in_child(work)
    assert saved, err
    assert EDIT in file.read_text("utf-8")
    assert code != 0
    assert "changed" in err


@pytest.mark.promise("R90")
@pytest.mark.parametrize("save", ["in place", "not at all"])
def test_kill_before_rename_is_repaired_by_the_next_change(folder: Path, save: str) -> None:
    """After a kill between saving a revision and replacing the note, the next change repairs it."""
    file = note(folder)
    before = file.read_text("utf-8")
    _killed_at_rename(folder, file)
    assert file.stat().st_nlink == 2
    if save == "in place":
        with file.open("a") as stream:
            stream.write(EDIT)
    edited = file.read_text("utf-8")
    with open_vault(folder) as vault:
        assert vault.call("memory_compound", query="m1", modifications="Later.")["success"]
        assert file.stat().st_nlink == 1
        assert edited in revisions(folder)
        if save != "in place":
            assert before in revisions(folder)
        assert "revision-damaged" not in str(vault.call("vault_doctor"))
        assert vault.call("memory_undo")["success"]
    assert file.read_text("utf-8") == edited


@pytest.mark.promise("R90")
@pytest.mark.parametrize("save", ["in place", "not at all"])
def test_doctor_separates_note_sharing_a_file_with_its_revision(folder: Path, save: str) -> None:
    """Doctor reports the state after a kill, and its fix keeps note and history intact."""
    file = note(folder)
    _killed_at_rename(folder, file)
    if save == "in place":
        with file.open("a") as stream:
            stream.write(EDIT)
    text = file.read_text("utf-8")
    with open_vault(folder) as vault:
        assert "revision-linked" in str(vault.call("vault_doctor"))
        assert vault.call("vault_doctor", fix=True)["success"]
        assert vault.call("vault_doctor")["findings"] == []
    assert file.stat().st_nlink == 1
    assert file.read_text("utf-8") == text
    revisions(folder)


def _killed_at_rename(root: Path, file: Path) -> None:
    """Kill a change after it has stored the revision, before it replaces the note."""
    child = os.fork()
    if not child:

        def happens(event: str, arguments: tuple[Any, ...]) -> None:
            if event == "os.rename" and str(arguments[1]) == str(file):
                os._exit(9)

        sys.addaudithook(happens)
        typed("--vault", str(root), "compound", "m1", "never written")
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


@pytest.mark.promise("R89")
def test_vault_name_edit_keeps_comments(folder: Path, tmp_path: Path) -> None:
    """Adding or removing a vault's name keeps all comments in the settings."""
    text = (
        "# mine\n[vaults]\n# which are searched\ndefault = []\n\n[vaults.names]\n"
        "# at home\nhome = '/home/me/a'  # the old one\n# at work\n"
    )
    file = write(tmp_path, "config/memvault/settings.toml", text)
    file.chmod(0o600)
    assert typed("vaults", "add", "work", str(folder)).code == 0
    now = file.read_text("utf-8")
    for line in text.splitlines():
        assert line in now
    assert f'work = "{folder}"' in now
    assert typed("vaults", "remove", "work").code == 0
    now = file.read_text("utf-8")
    for line in text.splitlines():
        assert line in now
    assert "work =" not in now


@pytest.mark.promise("R91")
@pytest.mark.parametrize("body", ["zebra\n", "---\nid: m1\n---\n\nzebra\n"], ids=["no id", "an id"])
def test_rename_can_change_case_on_case_insensitive_disk(folder: Path, body: str) -> None:
    """A rename can change only the case of a name, and undo reverts it byte for byte."""
    file = write(folder, "fact/postgres.md", body)
    file.chmod(0o600)

    def names() -> list[str]:
        return sorted(path.name for path in (folder / "fact").iterdir())

    def work() -> int:
        ignore_case(folder)
        with open_vault(folder) as vault:
            renamed = called(vault, "memory_rename", memId="fact/postgres.md", title="Postgres")
            assert names() == ["Postgres.md"]
            after = file.read_bytes()
            for name, data in (("postgres.md", body.encode()), ("Postgres.md", after)) * 2:
                undone = called(vault, "memory_undo", change=renamed.get("changeId"))
                renamed = undone
                assert names() == [name]
                assert file.read_bytes() == data
                assert file.stat().st_mode & 0o777 == 0o600
            assert vault.call("memory_list")["memories"][0]["title"] == "Postgres"
        return 0

    in_child(work)
