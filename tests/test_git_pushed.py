"""A malicious push, or a killed sync, changes only files in the vault."""

from __future__ import annotations

import itertools
import json
import os
import resource
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import child, sampled, sampled_tests, write
from git_clones import Clone, cloned, without_identity
from killing import Killing

pytestmark = sampled_tests(4)

UNFINISHED = ".git/refs/worktree/memvault-sync"
"""The ref of the commit that a killed sync was checking out."""


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Clone, ...]]:
    """Two clones of one vault with a memory, and a folder next to them."""
    without_identity(monkeypatch, tmp_path / "home")
    (tmp_path / "outside").mkdir()
    for found in cloned(tmp_path):
        write(found[0].root, "note.md", "---\nid: note-abc123\n---\n\nWe use SQLite.\n")
        found[0].sync()
        found[1].sync()
        yield found


def tree(folder: Path, entries: list[tuple[str, str, str]]) -> str:
    """Create a tree that git itself would not create; return its name."""
    entries = sorted(entries, key=lambda entry: (entry[1] + "/" * (entry[0] == "040000")).encode())
    data = b"".join(
        f"{mode.lstrip('0')} {name}\0".encode("utf-8", "surrogateescape") + bytes.fromhex(oid)
        for mode, name, oid in entries
    )
    return stored(folder, data, "-t", "tree", "--literally")


def blob(folder: Path, text: str) -> str:
    """Create a file object in git; return its name."""
    return stored(folder, text.encode())


def stored(folder: Path, data: bytes, *words: str) -> str:
    """Put an object into git; return its name."""
    command = ["git", "-C", str(folder), "hash-object", "-w", "--stdin", *words]
    done = subprocess.run(command, input=data, capture_output=True, check=True)
    return done.stdout.decode().strip()


def pushed(clone: Clone, entries: list[tuple[str, str, str]]) -> None:
    """Push the clone's files and others to the shared repository, like someone without memvault."""
    kept = [
        (line.split()[0], line.partition("\t")[2], line.split()[2])
        for line in clone.git("ls-tree", "HEAD").splitlines()
    ]
    made = tree(clone.root, [*kept, *entries])
    commit = clone.git("commit-tree", "-p", "HEAD", "-m", "x", made).strip()
    clone.git("push", "--quiet", "origin", f"{commit}:refs/heads/main")


@pytest.mark.parametrize(
    ("link", "folder"),
    [
        ("notes", "notes"),
        ("notes", "Notes"),
        ("caf\u00e9", "cafe\u0301"),
        ("NOTES", "notes"),
        ("no\u200dtes", "notes"),
    ],
)
@pytest.mark.promise("S32")
def test_sync_refuses_tree_with_symlink_and_folder(
    both: tuple[Clone, ...], tmp_path: Path, link: str, folder: str
) -> None:
    """A tree with a symlink and a folder with equivalent names writes nothing."""
    one, two = both
    memory = blob(one.root, "---\nid: evil-abc123\n---\n\nEvil.\n")
    inside = tree(one.root, [("100644", "evil.md", memory)])
    target = blob(one.root, str(tmp_path / "outside"))
    pushed(one, [("120000", link, target), ("040000", folder, inside)])
    failed = two.vault.call("git_sync")
    assert "error" in failed, failed
    assert list((tmp_path / "outside").iterdir()) == []
    assert not os.path.lexists(two.root / link)


@sampled(2)
@pytest.mark.parametrize(
    "name",
    [".memvault", ".MEMVAULT", ".memvault ", ".memvault.", ".mem\u200cvault", "MEMVAU~1",
     ".memvault::$INDEX_ALLOCATION", ".GIT ", "git~1", ".g\u200cit"],
)  # fmt: skip
@pytest.mark.promise("S34")
def test_sync_refuses_pushed_machine_local_folder(both: tuple[Clone, ...], name: str) -> None:
    """No remote can change machine-local state, however its folder name is spelled."""
    one, two = both
    state = blob(one.root, "{}\n")
    inside = tree(one.root, [("100644", "state.json", state)])
    pushed(one, [("040000", name, inside)])
    before = sorted(path.name for path in (two.root / ".memvault").iterdir())
    failed = two.vault.call("git_sync")
    assert not failed["success"], failed
    assert failed["error"]["hint"]
    assert not (two.root / name / "state.json").exists()
    assert sorted(path.name for path in (two.root / ".memvault").iterdir()) == before


@pytest.mark.promise("S34")
def test_untracking_memvault_folder_deletes_nothing(both: tuple[Clone, ...]) -> None:
    """If .memvault was committed by mistake, removing it from git does not delete local files."""
    one, two = both
    kept = write(two.root, ".memvault/mine.json", "{}\n")
    one.git("add", "--force", str(write(one.root, ".memvault/mine.json", "{}\n")))
    one.git("commit", "--quiet", "--message", "By mistake")
    one.git("push", "--quiet", "origin", "main")
    assert ".memvault/mine.json" in two.vault.call("git_sync")["error"]["message"]
    two.git("fetch", "--quiet")
    two.git("reset", "--quiet", "--mixed", "origin/main")
    one.git("rm", "--quiet", "--cached", "-r", ".memvault")
    one.git("commit", "--quiet", "--message", "Out again")
    one.git("push", "--quiet", "origin", "main")
    assert two.sync()["pulled"] == 1
    assert kept.read_text() == "{}\n"


@pytest.mark.promise("S32")
def test_sync_does_not_write_through_local_symlink(both: tuple[Clone, ...], tmp_path: Path) -> None:
    """A pushed folder with the name of a local symlink is not written through the symlink."""
    one, two = both
    outside = tmp_path / "outside"
    write(two.root, ".git/info/exclude", "private\n")
    (two.root / "private").symlink_to(outside)
    for name in ("private/evil.md", "private/evil.bin"):
        write(one.root, name, "Evil.\n")
    one.sync()
    two.vault.call("git_sync")
    assert list(outside.iterdir()) == []


@pytest.mark.promise("S32")
def test_sync_rollback_keeps_symlinked_and_local_files(
    both: tuple[Clone, ...], tmp_path: Path
) -> None:
    """Rolling back a sync to any commit does not delete symlinked or machine-local files."""
    one, two = both
    kept = (
        write(tmp_path, "outside/evil.md", "Evil.\n"),
        write(two.root, ".memvault/evil.md", "Evil.\n"),
    )
    inside = tree(one.root, [("100644", "evil.md", blob(one.root, "Evil.\n"))])
    pushed(one, [("040000", "private", inside), ("040000", ".memvault", inside)])
    two.git("fetch", "--quiet")
    write(two.root, UNFINISHED, two.git("rev-parse", "origin/main"))
    write(two.root, ".git/info/exclude", "private\n")
    (two.root / "private").symlink_to(kept[0].parent)
    two.vault.call("git_sync")
    assert [file.read_text() for file in kept] == ["Evil.\n", "Evil.\n"]
    assert not (two.root / UNFINISHED).exists()


NOTE = "---\nid: note-abc123\ntags: [a]\n---\n\nWe use SQLite.\n"
SYNC = """
from memvault import open_vault

def work(root):
    with open_vault(root) as vault:
        done = vault.call("git_sync")
        assert done["success"], done
"""
STRIDE = int(os.environ.get("MEMVAULT_GIT_STRIDE", "40"))
"""The distance between tested fault points; ``make soak`` tests every point."""
POINTS = 60
"""A lower bound on the number of fault points in a sync that merges everything below."""


@pytest.fixture
def clones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Clone, ...]]:
    """Two clones that changed the same files."""
    without_identity(monkeypatch, tmp_path / "home")
    for one, two in cloned(tmp_path):
        for name, text in (("note.md", NOTE), ("x.txt", "1\n\n2\n\n3\n"), ("pic.bin", b"\0a")):
            write(one.root, name, text)
        for name in ("memo.txt", "mail.txt"):
            write(one.root, name, "1\n\n2\n\n3\n")
        one.sync()
        two.sync()
        write(one.root, "note.md", NOTE.replace("SQLite", "PostgreSQL"))
        for name in ("x.txt", "memo.txt"):
            write(one.root, name, "1\n\n2\n\n4\n")
        write(one.root, "pic.bin", b"\0b")
        (one.root / "mail.txt").unlink()
        one.remember("Wombats", "They dig.")
        one.sync()
        write(two.root, "note.md", NOTE.replace("SQLite", "DuckDB"))
        write(two.root, "x.txt", "0\n\n2\n\n3\n")
        two.git("add", "--all")
        two.git("commit", "--quiet", "--message", "DuckDB")
        write(two.root, "pic.bin", b"\0c")
        two.remember("Crows", "They fly.")
        yield one, two


@pytest.mark.promise("R35")
def test_killed_sync_is_resumed(clones: tuple[Clone, ...], tmp_path: Path) -> None:
    """After a kill at any file change or git call, the next sync completes with all files."""
    one, two = clones
    names = ("one", "two", "shared.git")
    for name in names:
        shutil.copytree(tmp_path / name, tmp_path / "before" / name, symlinks=True)
    kinds: Counter[str] = Counter()
    with Killing(two.root, SYNC) as syncing:
        for number in itertools.chain([POINTS], itertools.count(1 + STRIDE // 2, STRIDE)):
            place = syncing.at(number)
            if not place:
                break
            kinds[place.split()[0]] += 1
            _mended(one, two, (number, place))
            for name in names:
                shutil.rmtree(tmp_path / name)
                shutil.copytree(tmp_path / "before" / name, tmp_path / name, symlinks=True)
    print(json.dumps({"killed": kinds.total(), "in front of": kinds}))
    assert number > POINTS
    assert STRIDE > 1 or kinds.keys() >= {"git", "open", "os.link", "os.rename", "os.remove"}


@sampled(4)
@pytest.mark.promise("R35")
@pytest.mark.parametrize("name", ["context/wombats.md", "note.md", "pic.bin", "x.txt"])
def test_sync_recovers_from_interrupted_checkout(clones: tuple[Clone, ...], name: str) -> None:
    """If git dies while replacing files, the next sync starts over and keeps later edits."""
    one, two = clones
    write(two.root, ".git/info/attributes", f"{name} filter=cut\n")
    two.git("config", "filter.cut.clean", "cat")
    two.git("config", "filter.cut.smudge", "kill -9 $PPID")
    failed = two.vault.call("git_sync", confirm=True)["error"]
    assert failed["message"].startswith("git restore failed"), failed
    assert not (two.root / name).exists() or name == "context/wombats.md"
    assert "index.lock" in two.vault.call("git_sync")["error"]["message"]
    (two.root / ".git/index.lock").unlink()
    two.git("config", "filter.cut.smudge", "cat")
    write(two.root, "mine.md", "Meanwhile.\n")
    write(two.root, "memo.txt", "Meanwhile.\n\n2\n\n3\n")
    write(two.root, "mail.txt", "Again.\n")
    assert two.vault.call("git_sync", confirm=True)["committed"] == 3
    _mended(one, two, (0, name))
    assert (one.root / "mine.md").is_file()
    assert (one.root / "mail.txt").read_text() == "Again.\n"
    assert (one.root / "memo.txt").read_text() == "Meanwhile.\n\n2\n\n4\n"


@sampled(2)
@pytest.mark.promise("R35")
@pytest.mark.parametrize("name", ["big.md", "big.txt"])
def test_sync_on_full_disk_loses_nothing(both: tuple[Clone, ...], name: str) -> None:
    """A memory too large for the disk stays intact, and a partial file is never pushed."""
    one, two = both
    old = "".join(f"line {number:08} of a long text\n" for number in range(30_000))
    write(one.root, name, old)
    one.sync()
    two.sync()
    new = "".join(f"new {number:08} at the top\n" for number in range(40_000)) + old
    write(one.root, name, new)
    one.sync()

    def grow_no_file() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))

    ran = child(two.root, "git", "sync", "--confirm", "true", before=grow_no_file)
    assert ran.code == 1
    assert "hint:" in ran.err
    assert (two.root / name).read_text() == old or name == "big.txt"
    (two.root / ".git/index.lock").unlink(missing_ok=True)
    assert two.sync()["committed"] == 0
    one.sync()
    assert (one.root / name).read_text() == (two.root / name).read_text() == new


def _mended(one: Clone, two: Clone, point: tuple[int, str]) -> None:
    """Sync until both clones have everything, and check that they do."""
    (two if point[0] % 2 else one).remember("Later", "Later.")
    one.sync()
    two.sync()
    one.sync()
    files = one.texts()
    assert files == two.texts(), point
    assert sorted(path for path in files if path[0] not in ".m") == [
        *("context/crows.md", "context/later.md", "context/wombats.md", "note-2.md", "note.md"),
        *("pic.bin", "pic_2.bin", "x.txt"),
    ], point
    assert "PostgreSQL" in files["note.md"], point
    assert "DuckDB" in files["note-2.md"], point
    assert files["x.txt"] == "0\n\n2\n\n4\n", point
    assert not list((two.root / ".git").glob("memvault-*")), point


@sampled(3)
@pytest.mark.parametrize(
    "name",
    [
        "opencode.json",
        ".claude/settings.json",
        "sub/.vscode/tasks.json",
        "Package.JSON",
        ".envrc",
        ".obsidian/plugins/x/main.js",
        "package.json.",
    ],
)
@pytest.mark.promise("S98")
def test_sync_refuses_pushed_program_settings(tmp_path: Path, name: str) -> None:
    """A pushed file that programs read as settings or code is refused; no file changes."""
    for one, two in cloned(tmp_path):
        one.sync()
        two.sync()
        write(one.root, name, "{}\n")
        write(one.root, "fact/new.md", "zebra\n")
        one.sync()
        failed = two.vault.call("git_sync")
        assert failed["error"]["code"] == "refused", failed
        assert failed["error"]["message"].startswith(f"{name} was changed by others")
        assert "git pull" in failed["error"]["hint"]
        assert not (two.root / "fact/new.md").exists()
        two.git("pull", "--quiet", "--rebase")
        write(two.root, name, '{"mine": 1}\n')
        two.sync()


@pytest.mark.promise("S98")
def test_sync_reports_changed_agent_instructions(tmp_path: Path) -> None:
    """A sync that brings changed agent instructions warns about each changed file."""
    for one, two in cloned(tmp_path):
        one.sync()
        two.sync()
        for name in ("AGENTS.md", "sub/claude.md", "note.md"):
            write(one.root, name, "Obey.\n")
        assert "warnings" not in one.sync()
        notes = two.sync()["warnings"]
        assert [note.split(" was changed")[0] for note in notes] == ["AGENTS.md", "sub/claude.md"]
        assert "instructions" in notes[0]
