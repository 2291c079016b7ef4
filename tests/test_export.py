"""A vault can be exported, whole or in part, and what was exported can be imported again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import Run, refused, succeeded, write
from import_sources import vault_export as vault_source
from memvault import open_vault
from memvault.exporters import formats
from memvault.exporters.files import ExportedFiles
from memvault.importers import kinds
from memvault.importers.applying import apply
from memvault.importers.planning import plan
from memvault.importers.source import open_source
from memvault.importers.state import vault_state
from memvault.settings.vault_settings import load_settings
from memvault.store.memory_store import MemoryStore
from test_import_safety import limited


def files_of(root: Path) -> dict[str, bytes]:
    """Return the bytes of a vault's visible files."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(root).parts)
    }


def store_at(root: Path) -> MemoryStore:
    """Return the store of a vault, created if missing."""
    if not (root / "memvault.toml").exists():
        write(root, "memvault.toml", "version = 1\n")
    return MemoryStore(root, load_settings(root))


_NAMES = st.from_regex(r"[a-z]{1,6}( [a-zäß漢]{1,3})?", fullmatch=True).filter(
    lambda name: name not in ("con", "prn", "aux", "nul")
)
_PATHS = st.lists(_NAMES, min_size=1, max_size=3).map("/".join)
_FILES = st.dictionaries(
    st.builds("{}{}".format, _PATHS, st.sampled_from([".md", ".md", ".png", ""])),
    st.binary(max_size=40) | st.text(max_size=40).map(lambda text: text.encode("utf-8", "replace")),
    max_size=5,
).filter(lambda found: not any(f"{path}/" in other for path in found for other in found))


@given(_FILES, st.sampled_from(["export.jsonl", "export.zip", "export"]))
def test_an_export_gives_the_same_vault_back(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes], name: str
) -> None:
    """Whatever the files hold, exporting and importing a vault keeps every byte of them."""
    tmp_path = tmp_path_factory.mktemp("round")
    store, other = store_at(tmp_path / "vault"), store_at(tmp_path / "other")
    for path, data in files.items():
        write(store.root, path, data)
    target = tmp_path / name
    formats.chosen(str(target), "").write(ExportedFiles(store), target, False)
    source = open_source(str(target))
    kind = kinds.recognised(source)
    made = plan(kind.read(source), kind.name, "", vault_state(other, [], kind.name))
    assert not made.unreadable
    assert not apply(other, made, kind.read(source))
    assert files_of(other.root) == files_of(store.root)


def test_each_line_of_json_has_a_file_and_what_is_known_of_it(
    run: Run, tmp_path: Path, folder: Path
) -> None:
    """Another program can read an export; bytes that are not UTF-8 are base64."""
    vault_source.make(tmp_path)
    succeeded(run("export", "../all.jsonl", cwd=tmp_path / "other"))
    first, *entries = map(json.loads, (tmp_path / "all.jsonl").read_text("utf-8").splitlines())
    assert first == {"memvault": "export", "format": 1}
    found: dict[str, Any] = {entry["path"]: entry for entry in entries}
    assert list(found) == ["fact/deploys.md", "memvault.toml", "old.md", "pictures/x.png"]
    deploys = found["fact/deploys.md"]
    assert (deploys["memId"], deploys["tags"]) == ("deploys-7k2m9q", ["ops"])
    assert found["old.md"]["encoding"] == "base64"


def test_filters_choose_the_memories_and_what_they_embed(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    """With filters, an export has the memories that pass, and the files that they link to."""
    write(folder, "a.md", "---\ntags: [x]\n---\n![[plan.png]] and ![b](sub/b.png)\n")
    write(folder, "b.md", "![[other.png]]\n")
    for name in ("pictures/plan.png", "sub/b.png", "other.png"):
        write(folder, name, b"\x89PNG")
    succeeded(run("export", str(tmp_path / "x.zip"), "--tags", "x"))
    with zipfile.ZipFile(tmp_path / "x.zip") as archive:
        names = set(archive.namelist())
    assert names == {"a.md", "pictures/plan.png", "sub/b.png", "memvault.toml"}
    succeeded(run("export", str(tmp_path / "x.md"), "--tags", "x"))
    assert (tmp_path / "x.md").read_text("utf-8").startswith("# a\n\n*a.md · context · #x · ")


def test_nothing_is_replaced_without_force(run: Run, folder: Path, tmp_path: Path) -> None:
    """An existing file or full folder is kept unless --force is given; nor is the vault filled."""
    write(folder, "a.md", "A")
    kept = write(tmp_path, "x.jsonl", "mine")
    write(tmp_path, "out/mine.txt", "mine")
    assert "is there already" in refused(run("export", str(kept)), 1)
    assert kept.read_text("utf-8") == "mine"
    assert "not empty" in refused(run("export", str(tmp_path / "out")), 1)
    succeeded(run("export", str(kept), "--force"))
    succeeded(run("export", str(tmp_path / "out"), "--force"))
    assert (tmp_path / "out/mine.txt").exists()
    assert (tmp_path / "out/a.md").read_text("utf-8") == "A"
    assert "inside the vault" in refused(run("export", "x.zip"), 1)
    assert "ending of no format" in refused(run("export", str(tmp_path / "x.xyz")), 2)


def test_what_the_vault_has_already_is_kept(run: Run, folder: Path, tmp_path: Path) -> None:
    """Importing another vault replaces nothing, and lists hidden paths and what it cannot read."""
    lines = [
        {"memvault": "export", "format": 9},
        {"path": "fact/a.md", "encoding": "utf-8", "content": "theirs"},
        {"path": "b.md", "encoding": "utf-8", "content": "new"},
        {"path": ".git/hooks/pre-commit", "encoding": "utf-8", "content": "evil"},
        {"path": "../evil.md", "encoding": "utf-8", "content": "evil"},
        {"path": "c.md", "encoding": "rot13", "content": "new"},
        {"path": 7},
    ]
    made = write(tmp_path, "x.jsonl", "\n".join(map(json.dumps, lines)))
    write(folder, "fact/a.md", "mine")
    found = succeeded(run("import", str(made), "--yes", "--json")).json
    assert found["new"] == 1
    assert found["edited"] == ["fact/a.md"]
    assert [one["what"] for one in found["unreadable"]] == [
        "x.jsonl, line 1",
        ".git/hooks/pre-commit",
        "../evil.md",
        "c.md",
        "x.jsonl, line 7",
    ]
    assert (folder / "fact/a.md").read_text("utf-8") == "mine"
    assert set(files_of(folder)) == {"memvault.toml", "fact/a.md", "b.md"}


def test_files_that_are_no_memories_are_exported(run: Run, folder: Path, tmp_path: Path) -> None:
    """What the setting ignore leaves out of recall is in an export, and given back by it."""
    write(folder, "memvault.toml", 'version = 1\nignore = ["README.md", "drafts/**"]\n')
    for name in ("README.md", "drafts/a.md", "b.md"):
        write(folder, name, f"# {name}\n")
    succeeded(run("export", str(tmp_path / "x.zip")))
    with zipfile.ZipFile(tmp_path / "x.zip") as archive:
        assert set(archive.namelist()) == set(files_of(folder))
    succeeded(run("export", str(tmp_path / "x.md")))
    assert (tmp_path / "x.md").read_text("utf-8").count("\n# ") == 0


@pytest.mark.parametrize("form", ["folder", "site"])
def test_an_export_follows_no_link(form: str, run: Run, folder: Path, tmp_path: Path) -> None:
    """A link in the folder to write to is refused, and nothing is written behind it."""
    write(folder, "notes/a.md", "A")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out/notes").symlink_to(tmp_path / "elsewhere")
    failed = refused(run("export", str(tmp_path / "out"), "--to", form, "--force"), 1)
    assert "is a link" in failed
    assert not [*(tmp_path / "elsewhere").iterdir()]


def test_a_site_that_was_interrupted_is_written_by_the_next_export(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    """An export that failed half way needs no --force to be run again."""
    write(folder, "a.md", "A " * 100_000)
    run("list")
    command = ["export", str(tmp_path / "out"), "--to", "site"]
    assert limited(folder, 100, *command).returncode == 1
    assert [*(tmp_path / "out").iterdir()]
    succeeded(run(*command))
    assert (tmp_path / "out/notes/a.html").exists()


_KILLED = """
import os, sys
from memvault.__main__ import main
written = 0
def happens(event, arguments):
    global written
    written += event == sys.argv[1] and sys.argv[2] in str(arguments[0])
    if written > int(sys.argv[3]):
        os._exit(9)
sys.addaudithook(happens)
main(sys.argv[4:])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a file without a name is Linux's")
@pytest.mark.promise("R29")
@pytest.mark.parametrize("kind", ["zip", "jsonl"])
def test_killed_export_leaves_no_file(folder: Path, tmp_path: Path, kind: str) -> None:
    """An export into one file that is killed leaves nothing beside its target."""
    for number in range(5):
        write(folder, f"n{number}.md", f"# N{number}\n")
    with open_vault(folder) as vault:
        assert vault.call("memory_list")["success"]  # so that the export alone reads the files
    place = tmp_path / "target"
    place.mkdir()
    line = ["--vault", str(folder), "export", str(place / f"all.{kind}")]
    killed = [sys.executable, "-c", _KILLED, "open", "n3.md", "0", *line]
    assert subprocess.run(killed, check=False, capture_output=True).returncode == 9
    assert list(place.iterdir()) == []


@pytest.mark.promise("R29")
def test_next_export_deletes_what_a_killed_one_left(folder: Path, tmp_path: Path) -> None:
    """An export into a folder deletes the temporary files of one that was killed there."""
    for number in range(5):
        write(folder, f"n{number}.md", f"# N{number}\n")
    place = tmp_path / "target"
    line = ["--vault", str(folder), "export", str(place), "--to", "folder"]
    killed = [sys.executable, "-c", _KILLED, "os.rename", str(place), "3", *line]
    ran = subprocess.run(killed, check=False, capture_output=True)
    assert ran.returncode == 9, ran
    left = list(place.rglob(".*.tmp"))
    assert left
    for path in left:  # where processes cannot be looked up, a file has to be old
        os.utime(path, (0, 0))
    ran = subprocess.run(
        [sys.executable, "-m", "memvault", *line, "--force"], check=False, capture_output=True
    )
    assert ran.returncode == 0, ran
    assert not list(place.rglob(".*.tmp"))
