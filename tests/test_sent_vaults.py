"""A vault published by another machine can be recalled, listed and shown, but not changed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from conftest import (
    Ran,
    Run,
    only_with,
    refused,
    sampled,
    sampled_tests,
    soak_only,
    some_of,
    succeeded,
    write,
)
from engine_server import LOADED as LOADED  # modules preloaded for commands; see conftest
from made_documents import pdf
from memvault.tools.core import registry
from milvus_script import elsewhere

pytestmark = [only_with("pymilvus", "milvus_lite", extra="milvus"), sampled_tests(2)]

SETTINGS = 'version = 1\n\n[index]\nengine = "milvus"\nuri = "{}"\npatience = 60\n'
PATIENT = ("--patience", "60")
"""Options for tests that are not about slow engines, because the machine may be slow."""
There = Callable[..., Ran]


def settled(folder: Path, file: Path) -> None:
    """Configure a milvus-lite file as a vault's engine."""
    write(folder, "memvault.toml", SETTINGS.format(file))


@contextmanager
def machine(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[None]:
    """Act as another machine, with separate folders for settings, state and indexes."""
    with monkeypatch.context() as other:
        for kind in ("STATE", "CACHE", "CONFIG"):
            other.setenv(f"MEMVAULT_{kind}", str(folder / kind.lower()))
        yield


@pytest.fixture
def there(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> There:
    """Run a command at another machine."""

    def ran(*words: str) -> Ran:
        with machine(monkeypatch, tmp_path / "there"):
            return run(*words)

    return ran


@pytest.fixture
def engine(folder: Path, tmp_path: Path, run: Run) -> Path:
    """The file to which a vault of two memories was published."""
    file = tmp_path / "engine.db"
    settled(folder, file)
    header = "---\nid: {}-7k2m9q\ntitle: {}\n{}\n---\n\n"
    tea = header.format("green-tea", "Green tea", "tags: [drinks]")
    write(folder, "context/green-tea.md", f"{tea}Green tea at four.\n")
    disk = header.format("disk", "Disk", "memory_type: issue")
    write(folder, "issue/disk.md", f"{disk}The disk of db1 is full.\n")
    assert succeeded(run("index", "push", "--json")).json["documents"] == 2
    return file


@pytest.fixture
def team(engine: Path, there: There) -> str:
    """The vault's name on the other machine."""
    told = succeeded(there("vaults", "add", "team", str(engine), *PATIENT, "--json")).json
    assert told["documents"] == 2
    return "team"


SAY = """
import json
fields = ["id", "vault", "generation", "uid", "block", "text", "lengths", "format_2"]
where = 'generation == "card"'
client.load_collection("memvault_words")
(row,) = client.query("memvault_words", filter=where, output_fields=fields)
row["lengths"].update(json.loads(sys.argv[1]))
client.upsert("memvault_words", [row])
"""


def said(engine: Path, **changes: Any) -> None:
    """Change the engine's data about its only vault; only one process can open a file."""
    elsewhere(engine, SAY, json.dumps(changes))


def test_remote_vault_recall_equals_owner_recall(team: str, run: Run, there: There) -> None:
    """Memories and scores equal the owner's, without lines; each shows when it was current."""
    asked = ["recall", "when is tea, and which disk is full", "--json", "--explain"]
    own = succeeded(run(*asked)).json["memories"]
    assert all(entry.pop("line") for entry in own)
    theirs = succeeded(there("--vault", team, *asked)).json["memories"]
    sent = {entry.pop("asOf") for entry in theirs}
    assert theirs == own
    assert len(own) == 2
    assert len(sent) == 1
    lines = succeeded(there("--vault", team, "recall", "tea", "--brief", "--json")).json["brief"]
    assert f"as of {sent.pop()}" in lines[0]


def test_remote_vault_shows_and_lists_memories(team: str, run: Run, there: There) -> None:
    """Content, etags, types and tags equal those in the files, by any name of the memory."""
    own = succeeded(run("show", "Green tea", "--json")).json
    for words in (["--vault", team, "show", own["memId"]], ["show", f"{team}:Green tea"]):
        shown = succeeded(there(*words, "--json")).json
        assert shown["asOf"]
        assert {key: shown[key] for key in own if key != "warnings"} == own
    listed = succeeded(there("--vault", team, "list", "--type", "issue", "--json")).json
    assert [entry["title"] for entry in listed["memories"]] == ["Disk"]
    assert succeeded(there("--vault", team, "tags", "--json")).json["tags"][0]["tag"] == "drinks"
    assert "as it was on" in succeeded(there("--vault", team, "show", "Disk")).out


@soak_only
def test_remote_vault_shows_any_file_as_owner_does(
    folder: Path, engine: Path, run: Run, there: There
) -> None:
    """Files that have no header or are encoded, broken, empty or large are shown the same."""
    files: dict[str, str | bytes] = {
        "plain.md": "No header at all.\n",
        "latin.md": "grün und schön".encode("latin-1"),
        "zero.md": b"a\0b zulu",
        "empty.md": "",
        "broken.md": "---\ntitle: [\n---\nText.\n",
        "windows.md": "---\r\ntitle: W\r\n---\r\nOne\r\nTwo\r\n",
        "large.md": "Lions. " * 30_000,
        "2026-11-20.md": "Met Ann.\n",
        "old.md": "---\nid: old-7k2m9q\n---\nMysql.\n",
        "new.md": "---\nid: new-7k2m9q\nsupersedes: old-7k2m9q\n---\nPostgres.\n",
    }
    for name, text in files.items():
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    succeeded(run("index", "push"))
    succeeded(there("vaults", "add", "team", str(engine), *PATIENT))
    for words in (
        *(("show", name) for name in files),
        ("recall", "which database do we use", "--explain"),
        ("recall", "zulu", "--mode", "keyword"),
        ("recall", "2026-11-20"),
        ("recall", "lions", "--full"),
        ("list",),
        ("types",),
    ):
        own = re.sub(r', "line": \d+', "", succeeded(run(*words, "--json")).out)
        theirs = succeeded(there("--vault", "team", *words, "--json")).out
        assert re.sub(r',?\s+"asOf": "[^"]+"', "", theirs) == own, words


@pytest.mark.promise("R51")
def test_remote_vault_changes_appear_after_push(
    team: str, folder: Path, run: Run, there: There
) -> None:
    """New, changed and deleted memories appear here after the owner's push and no sooner."""
    succeeded(run("compound", "Green tea", "Oolong", "--mode", "replace"))
    succeeded(run("forget", "Disk", "--confirm", "true"))
    before = succeeded(there("--vault", team, "list", "--json")).json["memories"]
    succeeded(run("recall", "oolong"))  # recall uploads the difference
    write(folder, "long.md", "Long " + "naïve 数据库 words " * 9_000)
    succeeded(run("index", "push"))
    titles = [
        {entry["title"] for entry in found}
        for found in (before, succeeded(there("--vault", team, "list", "--json")).json["memories"])
    ]
    assert titles == [{"Green tea", "Disk"}, {"Green tea", "long"}]
    shown = succeeded(there("show", "team:long.md", "--json")).json
    assert shown["content"] == (folder / "long.md").read_text("utf-8")
    assert "Oolong" in succeeded(there("--vault", team, "recall", "oolong")).out


@soak_only
@pytest.mark.promise("R51")
def test_remote_vault_hides_deleted_memories(
    team: str, folder: Path, engine: Path, run: Run, there: There
) -> None:
    """After any number of deletions, the list equals the owner's, even if the engine is wrong."""

    def same() -> None:
        own = succeeded(run("list", "--limit", "1000", "--json")).json["memories"]
        theirs = succeeded(there("--vault", team, "list", "--limit", "1000", "--json")).json
        assert [entry["memId"] for entry in theirs["memories"]] == [entry["memId"] for entry in own]

    for number in range(600):
        write(folder, f"fact/n{number}.md", f"Thing{number} is here.\n")
    succeeded(run("index", "push"))
    same()
    for kept in (598, 40):
        for number in range(kept, 600):
            (folder / f"fact/n{number}.md").unlink(missing_ok=True)
        succeeded(run("index", "push"))
        same()
    for changes in (
        {"recently_removed": [1, 2, 3], "removed": 3},
        {"recently_removed": "x", "removed": 10**9},
        {"recently_removed": [None], "removed": -1, "memories": "many"},
    ):
        said(engine, state=f"of {changes}", **changes)
        same()


UNSEND = """
client.load_collection("memvault_memories")
client.delete("memvault_memories", filter="uid == 1")
"""


def test_remote_vault_missing_text_affects_only_its_memory(
    team: str, engine: Path, there: There
) -> None:
    """If an engine has lost one memory's text, all other memories are still found and shown."""
    assert succeeded(there("--vault", team, "list", "--json")).json["total"] == 2
    elsewhere(engine, UNSEND)
    found = succeeded(there("--vault", team, "recall", "green tea disk", "--json")).json
    assert [entry["title"] for entry in found["memories"]] == ["Disk"]
    assert succeeded(there("--vault", team, "list", "--json")).json["total"] == 1


@soak_only
def test_remote_vault_cannot_answer_for_past_dates(team: str, tmp_path: Path, there: There) -> None:
    """Today's text is never returned for an earlier day; other vaults answer."""
    refused(there("--vault", team, "recall", "tea", "--as-of", "2099-01-01"), 1)
    mine = tmp_path / "mine"
    succeeded(there("init", str(mine)))
    succeeded(there("--vault", str(mine), "remember", "My tea", "I drink black tea."))
    words = ["recall", "tea", "--vaults", f"this,{team}", "--as-of", "2099-01-01", "--json"]
    ran = succeeded(there("--vault", str(mine), *words))
    assert {entry["title"] for entry in ran.json["memories"]} == {"My tea"}
    assert "the vault team was not searched" in ran.err + ran.out


@soak_only
def test_remote_vault_shows_owners_modification_times(
    team: str, folder: Path, run: Run, there: There
) -> None:
    """File times are those on the owner's machine, even after a file is touched."""
    for name in ("a", "b"):
        write(folder, f"{name}.md", f"# {name}\n\nText of {name}.\n")
    succeeded(run("index", "push"))
    os.utime(folder / "a.md", (2_000_000_000, 2_000_000_000))
    succeeded(run("index", "push"))
    own = succeeded(run("list", "--json")).json["memories"]
    theirs = succeeded(there("--vault", team, "list", "--json")).json["memories"]
    assert [entry["modified"] for entry in theirs] == [entry["modified"] for entry in own]


def test_remote_vault_is_ranked_with_local_vaults(team: str, tmp_path: Path, there: There) -> None:
    """One recall ranks local memories together with those of remote vaults."""
    mine = tmp_path / "mine"
    succeeded(there("init", str(mine)))
    succeeded(there("--vault", str(mine), "remember", "My tea", "I drink black tea."))
    found = there("--vault", str(mine), "recall", "tea", "--vaults", f"this,{team}", "--json")
    memories = succeeded(found).json["memories"]
    assert [entry["vault"] for entry in memories if "asOf" in entry] == [team, team]
    assert "My tea" in {entry["title"] for entry in memories}


def test_remote_vault_accepts_only_read_tools() -> None:
    """Tools that work without the files only read."""
    assert all(tool.read_only for tool in registry.all_tools() if tool.works_without_files)


@pytest.mark.promise("S20")
def test_remote_vault_write_error_names_owner(
    team: str, engine: Path, run: Run, there: There
) -> None:
    """Nothing is written on either machine, and the message shows which machine may write."""
    said(engine, host="alice-laptop")
    succeeded(there("vaults", "add", team, str(engine)))
    for words in (
        ["remember", "X", "y"],
        ["compound", "Disk", "x"],
        ["forget", "Disk"],
        ["doctor"],
        ["reindex"],
        ["links", "Disk"],
        ["path", "Disk"],
        ["edit", "Disk"],
        ["index", "push"],
        ["index", "drop"],
    ):
        assert "alice-laptop" in refused(there("--vault", team, *words), 1), words
    assert "alice-laptop" in refused(there("forget", "team:disk"), 1)
    assert succeeded(run("index", "status", "--json")).json["documents"] == 2


def test_remote_vault_is_selected_by_folder_or_id(
    team: str, tmp_path: Path, engine: Path, run: Run, there: There
) -> None:
    """If the engine contains several vaults, they are listed with their owners."""
    other = tmp_path / "other"
    settled(other, engine)
    succeeded(run("--vault", str(other), "remember", "Rum", "Brown rum."))
    succeeded(run("--vault", str(other), "index", "push"))
    refused(there("vaults", "add", "x", str(engine)), 1)
    assert "it has" in there("vaults", "add", "x", str(engine), "--of", "none").err
    succeeded(there("vaults", "add", "rum", str(engine), "--of", "other", *PATIENT))
    assert "Brown rum" in succeeded(there("--vault", "rum", "recall", "rum")).out
    assert "Green tea" not in succeeded(there("--vault", "rum", "list")).out
    again = there("vaults", "add", team, str(engine), "--of", "other")
    assert "is already the name of" in again.err


def test_remote_vault_missing_in_engine_is_reported(tmp_path: Path, there: There) -> None:
    """An address without collections or without a response is reported, and nothing is stored."""
    said = refused(there("vaults", "add", "team", str(tmp_path / "none.db")), 1)
    assert "There is no file" in said
    assert "did not answer" in refused(there("vaults", "add", "team", "http://127.0.0.1:1"), 1)
    invalid = there("vaults", "add", "A B", "http://127.0.0.1:1")
    assert "is not a valid vault name" in refused(invalid, 2)
    for option in ("--of", "--patience"):
        assert "need an engine's address" in there("vaults", "add", "t", ".", option, "2").err
    assert succeeded(there("vaults", "list", "--json")).json["vaults"] == []


@soak_only
@pytest.mark.promise("R46")
def test_remote_vault_removed_by_owner_is_noted(
    team: str, engine: Path, run: Run, tmp_path: Path, there: There
) -> None:
    """After its owner removed a vault, a note reports it, and other vaults still answer."""
    mine = tmp_path / "mine"
    succeeded(there("init", str(mine)))
    succeeded(there("--vault", str(mine), "remember", "My tea", "I drink black tea."))
    succeeded(run("index", "drop"))
    assert "no longer has the vault" in refused(there("--vault", team, "recall", "tea"), 1)
    ran = succeeded(there("--vault", str(mine), "recall", "tea", "--vaults", "this,team"))
    assert "the vault team was not searched" in ran.err
    assert "black tea" in ran.out


@soak_only
def test_remote_vault_of_other_version_or_clock_is_reported(
    team: str, engine: Path, run: Run, there: There
) -> None:
    """Rows of another version are not read; a future time is reported on both sides."""
    said(engine, published_at="2099-01-01T00:00:00.000Z")
    assert "clock is wrong" in succeeded(there("--vault", team, "recall", "tea")).err
    assert "clock is wrong" in succeeded(run("index", "status")).out
    said(engine, version="of another version")
    assert "another version of memvault" in refused(there("--vault", team, "recall", "tea"), 1)


@pytest.mark.promise("S20")
def test_engine_in_untrusted_settings_is_not_contacted(
    folder: Path, engine: Path, there: There
) -> None:
    """A copied settings file does not grant permission to contact the engine in it."""
    text = (folder / "memvault.toml").read_text("utf-8")
    strange = folder.parent / "strange"
    write(strange, "memvault.toml", f'{text}sent = "somebody"\n')
    assert "not allowed here" in refused(there("--vault", str(strange), "recall", "tea"), 1)


def test_remote_vault_cache_is_deleted_with_last_name(
    team: str, tmp_path: Path, there: There
) -> None:
    """Removing the last name of a vault deletes the data fetched for it."""
    succeeded(there("--vault", team, "list"))
    indexes = tmp_path / "there" / "cache" / "indexes"
    (kept,) = (tmp_path / "there" / "state" / "sent").iterdir()
    succeeded(there("vaults", "add", "also", str(kept)))
    succeeded(there("vaults", "remove", "also"))
    assert list(indexes.iterdir())
    succeeded(there("vaults", "remove", team))
    assert not list(indexes.iterdir())
    assert not list((tmp_path / "there" / "state" / "sent").iterdir())


def killed_at(words: list[str], folder: Path, name: str) -> None:
    """Run a command, and kill it as soon as a file with that name exists."""
    process = subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True)
    while not any(folder.rglob(name)):
        time.sleep(0.001)
        assert process.poll() is None
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL


def test_remote_vault_without_writable_cache_is_reported(
    team: str, tmp_path: Path, there: There, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If no cache can be written, one sentence reports it and does not promise results."""
    write(tmp_path / "there", "cache", "no folder")
    write(tmp_path / "temporary", f"memvault-{os.geteuid()}", "no folder")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    sentence = refused(there("--vault", team, "recall", "tea"), 1)
    assert "The index cannot be written" in sentence
    assert "works without it" not in sentence


@sampled(1)
@pytest.mark.promise("R47")
def test_remote_vault_push_resumes_after_kill(
    folder: Path, tmp_path: Path, run: Run, there: There
) -> None:
    """After a push is killed at any point, the next one completes it, for readers too."""
    file = tmp_path / "engine.db"
    settled(folder, file)
    for number in range(400):
        write(folder, f"fact/n{number}.md", f"# Note {number}\n\nThing{number} is here.\n")
    words = [sys.executable, "-m", "memvault", "--vault", str(folder), "index", "push"]
    caches = tmp_path / "cache"
    for left in some_of(("manifest.db", "engine-*.json", "copies.json"), every=3, first=2):
        killed_at(words, caches, left)

    def generations() -> set[str]:
        cards = caches.rglob("engine-*.json")
        return {json.loads(card.read_text("utf-8"))["generation"] for card in cards}

    before = generations()
    assert len(before) == 1
    assert succeeded(run("index", "push", "--json")).json["documents"] == 400
    assert generations() == before  # not sent again
    told = succeeded(run("index", "status", "--json")).json
    assert (told["rows"]["words"], told["problem"]) == (400, "")
    succeeded(there("vaults", "add", "team", str(file), *PATIENT))
    found = succeeded(there("--vault", "team", "recall", "thing377", "-n", "1", "--json")).json
    assert found["memories"][0]["filePath"] == "fact/n377.md"
    assert succeeded(there("--vault", "team", "list", "--json")).json["total"] == 400


@only_with("pypdfium2", extra="documents")
def test_remote_documents_are_recalled(
    folder: Path, engine: Path, there: There, run: Run, tmp_path: Path
) -> None:
    """Documents in a published vault are recalled and shown as on the machine with the files."""
    write(folder, "report.pdf", pdf(["The wombat census.", "Hire two zookeepers."], "Report"))
    succeeded(run("index", "push"))
    here = succeeded(run("recall", "hire zookeepers", "--json")).json["memories"]
    succeeded(there("vaults", "add", "team", str(engine)))
    found = succeeded(there("recall", "hire zookeepers", "--json", "--vault", "team"))
    assert found.json["memories"][0]["place"] == "report.pdf#page=2"
    assert [entry["title"] for entry in found.json["memories"]] == [e["title"] for e in here]
    shown = succeeded(there("show", "report.pdf", "--page", "2", "--vault", "team"))
    assert "Hire two zookeepers." in shown.out
    assert "document" in shown.out
    listed = succeeded(there("list", "--type", "document", "--json", "--vault", "team"))
    assert listed.json["total"] == 1
