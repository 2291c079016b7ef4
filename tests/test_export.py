"""A vault can be exported completely or partly, and imported again."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import Ran, Run, refused, succeeded, write
from import_sources import memvault as vault_source
from memvault import open_vault
from memvault.errors import MemvaultError, Refused
from memvault.exporters import formats
from memvault.exporters.files import ExportedFiles
from memvault.files.target import open_folder, target_file, target_files
from memvault.importers import detection
from memvault.importers.applying import apply
from memvault.importers.archives import open_source
from memvault.importers.planning import plan
from memvault.importers.state import vault_state
from memvault.settings.vault_settings import load_settings
from memvault.store.memory_store import MemoryStore
from test_import_safety import limited

SECRET = "The spare key is under the third stone"
NOBODY = 65_534
needs_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0,
    reason="only root can create files owned by other users",
)
has_web = find_spec("jinja2") is not None and find_spec("starlette") is not None
FILES = ["x.jsonl", "x.zip", "x.md", *(["x.html"] if has_web else [])]
FOLDERS = ["folder", *(["site"] if has_web else [])]


def mode(path: Path) -> int:
    """Return a file's permissions."""
    return stat.S_IMODE(path.lstat().st_mode)


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
def test_export_and_import_restore_every_byte(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes], name: str
) -> None:
    """Exporting and importing a vault preserves every byte of files with any content."""
    tmp_path = tmp_path_factory.mktemp("round")
    store, other = store_at(tmp_path / "vault"), store_at(tmp_path / "other")
    for path, data in files.items():
        write(store.root, path, data)
    target = tmp_path / name
    formats.chosen(str(target), "").write(ExportedFiles(store), target, False)
    source = open_source(str(target))
    kind = detection.detect_format(source)
    made = plan(kind.read(source), kind.name, "", vault_state(other, [], kind.name))
    assert not made.unreadable
    assert not apply(other, made, kind.read(source))
    assert files_of(other.root) == files_of(store.root)


def test_jsonl_export_has_files_with_metadata(run: Run, tmp_path: Path, folder: Path) -> None:
    """Other programs can read the export; bytes that are not UTF-8 are base64-encoded."""
    vault_source.make(tmp_path)
    succeeded(run("export", "../all.jsonl", cwd=tmp_path / "other"))
    first, *entries = map(json.loads, (tmp_path / "all.jsonl").read_text("utf-8").splitlines())
    assert first == {"memvault": "export", "format": 1}
    found: dict[str, Any] = {entry["path"]: entry for entry in entries}
    assert list(found) == ["fact/deploys.md", "memvault.toml", "old.md", "pictures/x.png"]
    deploys = found["fact/deploys.md"]
    assert (deploys["memId"], deploys["tags"]) == ("deploys-7k2m9q", ["ops"])
    assert found["old.md"]["encoding"] == "base64"


def test_export_filters_select_memories_and_embeds(run: Run, folder: Path, tmp_path: Path) -> None:
    """A filtered export contains the matching memories and the files they link to."""
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


def test_export_prints_normalized_path(run: Run, folder: Path, tmp_path: Path) -> None:
    """A relative target is printed as an absolute path without ``..``, unless it follows a link."""
    write(folder, "a.md", "# A\n")
    (tmp_path / "out/deep").mkdir(parents=True)
    ran = succeeded(run("export", "../out/deep/../a.zip"))
    assert f"to {tmp_path / 'out/a.zip'} (zip)" in ran.out
    assert f"{tmp_path / 'out/a.zip'} already exists" in refused(run("export", "../out/a.zip"), 1)
    (tmp_path / "link").symlink_to(tmp_path / "out/deep")
    succeeded(run("export", "../link/../b.zip"))
    assert (tmp_path / "out/b.zip").is_file()


@pytest.mark.parametrize("command", ["export --to site", "graph", "model use"])
def test_link_to_itself_is_reported(run: Run, folder: Path, tmp_path: Path, command: str) -> None:
    """A path through a symlink to itself is reported as an error, not as a bug."""
    (tmp_path / "loop").symlink_to("loop")
    assert "hit a bug" not in refused(run(*command.split(), "../loop/a.html"), 1)


def test_export_replaces_only_with_force(run: Run, folder: Path, tmp_path: Path) -> None:
    """An existing file or non-empty folder is kept without --force; the vault is never a target."""
    write(folder, "a.md", "A")
    kept = write(tmp_path, "x.jsonl", "mine")
    write(tmp_path, "out/mine.txt", "mine")
    assert "already exists" in refused(run("export", str(kept)), 1)
    assert kept.read_text("utf-8") == "mine"
    assert "not empty" in refused(run("export", str(tmp_path / "out")), 1)
    succeeded(run("export", str(kept), "--force"))
    succeeded(run("export", str(tmp_path / "out"), "--force"))
    assert (tmp_path / "out/mine.txt").exists()
    assert (tmp_path / "out/a.md").read_text("utf-8") == "A"
    assert "inside the vault" in refused(run("export", "x.zip"), 1)
    assert "Cannot tell the format of" in refused(run("export", str(tmp_path / "x.xyz")), 2)


def test_import_of_an_export_keeps_existing_files(run: Run, folder: Path, tmp_path: Path) -> None:
    """Importing another vault replaces nothing and lists hidden paths and unreadable entries."""
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


def test_export_includes_ignored_files(run: Run, folder: Path, tmp_path: Path) -> None:
    """Files excluded from recall by the ignore setting are exported and restored."""
    write(folder, "memvault.toml", 'version = 1\nignore = ["README.md", "drafts/**"]\n')
    for name in ("README.md", "drafts/a.md", "b.md"):
        write(folder, name, f"# {name}\n")
    succeeded(run("export", str(tmp_path / "x.zip")))
    with zipfile.ZipFile(tmp_path / "x.zip") as archive:
        assert set(archive.namelist()) == set(files_of(folder))
    succeeded(run("export", str(tmp_path / "x.md")))
    assert (tmp_path / "x.md").read_text("utf-8").count("\n# ") == 0


@pytest.mark.parametrize("form", ["folder", "site"])
def test_export_refuses_symlink_in_target_path(
    form: str, run: Run, folder: Path, tmp_path: Path
) -> None:
    """A symlink in the target path is refused, and nothing is written behind it."""
    write(folder, "notes/a.md", "A")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out/notes").symlink_to(tmp_path / "elsewhere")
    failed = refused(run("export", str(tmp_path / "out"), "--to", form, "--force"), 1)
    assert "is a link" in failed
    assert not [*(tmp_path / "elsewhere").iterdir()]


def test_export_completes_interrupted_site(run: Run, folder: Path, tmp_path: Path) -> None:
    """An export that failed halfway can be run again without --force."""
    write(folder, "a.md", "A " * 100_000)
    run("list")
    command = ["export", str(tmp_path / "out"), "--to", "site"]
    assert limited(folder, 100, *command).returncode == 1
    assert [*(tmp_path / "out").iterdir()]
    succeeded(run(*command))
    assert (tmp_path / "out/notes/a.html").exists()


def written(run: Run, target: Path, *options: str) -> Ran:
    """Export a vault to a target, or draw its map."""
    if target.suffix == ".html":
        return run("graph", str(target), *options)
    kind = ["--to", target.name] if target.name in FOLDERS else []
    return run("export", str(target), *kind, *options)


@pytest.mark.promise("S96")
@pytest.mark.parametrize("name", FILES)
def test_export_does_not_follow_symlink_at_target(
    run: Run, folder: Path, tmp_path: Path, name: str
) -> None:
    """A link with the name of an exported file, and its target, are unchanged even with --force."""
    write(folder, "a.md", SECRET)
    drop = tmp_path / "drop"
    drop.mkdir()
    victim = write(tmp_path, "victim", "made by memvault graph")
    victim.chmod(0o666)
    for place, leads_to in (("dangling", drop / "stolen"), ("live", victim)):
        target = tmp_path / place / name
        target.parent.mkdir()
        target.symlink_to(leads_to)
        for options in ([], ["--force"]):
            assert "is a link" in refused(written(run, target, *options), 1)
        assert target.readlink() == leads_to
    assert list(drop.iterdir()) == []
    assert (victim.read_text("utf-8"), mode(victim)) == ("made by memvault graph", 0o666)
    named = tmp_path / "fifo" / name
    named.parent.mkdir()
    os.mkfifo(named)
    assert "is not a regular file" in refused(written(run, named, "--force"), 1)


@pytest.mark.promise("S96")
@pytest.mark.parametrize("name", FILES)
def test_export_file_is_private(run: Run, folder: Path, tmp_path: Path, name: str) -> None:
    """The exported file and its new folders are private to the user; a stricter mode is kept."""
    write(folder, "a.md", SECRET)
    target = tmp_path / "new/folder" / name
    before = os.umask(0)
    try:
        succeeded(written(run, target))
        assert (mode(target), mode(target.parent), mode(target.parent.parent)) == (
            0o600,
            0o700,
            0o700,
        )
        for given, expected in ((0o666, 0o600), (0o400, 0o400)):
            other = tmp_path / f"other-{given:o}"
            target.unlink()
            write(target.parent, name, "old").chmod(given)
            os.link(target, other)
            succeeded(written(run, target, "--force"))
            assert mode(target) == expected
            assert other.read_text("utf-8") == "old", "another name of the old file was written"
        assert [file.name for file in target.parent.iterdir()] == [name]
    finally:
        os.umask(before)
    if name == "x.zip":
        with zipfile.ZipFile(target) as archive:
            assert {one.external_attr >> 16 & 0o777 for one in archive.infolist()} == {0o600}


@pytest.mark.promise("S96")
@pytest.mark.parametrize("name", FOLDERS)
def test_export_folder_is_private(run: Run, folder: Path, tmp_path: Path, name: str) -> None:
    """All exported files and folders are private to the user, even in an existing folder."""
    write(folder, "fact/deep/a.md", SECRET)
    target = tmp_path / name
    before = os.umask(0)
    try:
        succeeded(written(run, target))
        for path in (target, *target.rglob("*")):
            assert mode(path) == (0o700 if path.is_dir() else 0o600), path
        for path in target.rglob("*"):
            path.chmod(0o777)
        succeeded(written(run, target, "--force"))
        assert {mode(path) for path in target.rglob("*") if path.is_file()} == {0o600}
    finally:
        os.umask(before)


@pytest.mark.promise("S96")
@pytest.mark.parametrize("name", FOLDERS)
def test_export_does_not_follow_symlinks_below_target(
    run: Run, folder: Path, tmp_path: Path, name: str
) -> None:
    """A symlink in the target folder, to a folder or a file, is neither followed nor replaced."""
    write(folder, "fact/a.md", SECRET)
    victim = write(tmp_path, "victim/a.md", "mine")
    inner = "notes/fact" if name == "site" else "fact"
    target = tmp_path / "one" / name
    (target / inner).parent.mkdir(parents=True)
    (target / inner).symlink_to(victim.parent)
    assert "is a link" in refused(written(run, target, "--force"), 1)
    file = f"{inner}/a.{'html' if name == 'site' else 'md'}"
    target = tmp_path / "two" / name
    (target / file).parent.mkdir(parents=True)
    (target / file).symlink_to(victim.parent / "new")
    assert "is a link" in refused(written(run, target, "--force"), 1)
    assert [(one.name, one.read_text("utf-8")) for one in victim.parent.iterdir()] == [
        ("a.md", "mine")
    ]


@pytest.mark.promise("S96")
@needs_root
def test_export_refuses_symlinks_of_other_users(tmp_path: Path) -> None:
    """A parent folder may be a symlink owned by this user or root, not by anyone else."""
    real = tmp_path / "real"
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    (shared / "mine").symlink_to("../real")
    (shared / "chain").symlink_to("mine/")
    (shared / "theirs").symlink_to(real)
    os.lchown(shared / "theirs", NOBODY, NOBODY)
    (shared / "through").symlink_to("theirs/more")
    (shared / "round").symlink_to("round")
    real.mkdir()
    for number, way in enumerate(("mine", "chain", "../shared/mine/../real", "mine/new/folder")):
        with target_file(shared / way / f"{number}.md", False) as file:
            file.write(b"x")
    assert len(list(real.rglob("*.md"))) == 4
    for way in ("theirs", "theirs/new", "through", "theirs/../real"):
        for writes in (target_file(shared / way / "x.md", True), target_files(shared / way, True)):
            with pytest.raises(Refused, match="symbolic link owned by another user"):
                writes.__enter__()
    with pytest.raises(MemvaultError), target_file(shared / "round/x.md", True):
        pass
    assert not (real / "x.md").exists()
    assert not (real / "more").exists()


@pytest.mark.promise("S96")
@needs_root
def test_export_over_file_of_another_user_needs_force(tmp_path: Path) -> None:
    """Replacing another user's export file or folder needs --force, even if memvault made it."""
    file = write(tmp_path, "map.html", "made by memvault graph")
    os.chown(file, NOBODY, NOBODY)
    writes = target_file(file, False, b"made by memvault graph")
    with pytest.raises(Refused, match="did not create it"), writes:
        pass
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    os.chown(theirs, NOBODY, NOBODY)
    with pytest.raises(Refused, match="another user"), target_files(theirs, False):
        pass
    listed = write(tmp_path, "mine/.memvault-site", "notes/a.html\n")
    os.chown(listed, NOBODY, NOBODY)
    fills = target_files(listed.parent, False, ".memvault-site")
    with pytest.raises(Refused, match="not empty"), fills:
        pass
    with target_files(theirs, True) as files:
        files.write("a/b.md", b"x")
    assert mode(theirs / "a/b.md") == 0o600


@pytest.mark.promise("S96")
def test_export_keeps_file_created_while_writing(tmp_path: Path) -> None:
    """A symlink or file created at the target during the export is not followed or replaced."""
    target, victim = tmp_path / "x.md", tmp_path / "victim"
    for force in (False, True):
        writes = target_file(target, force)
        with pytest.raises(Refused, match="already exists"), writes as file:
            target.symlink_to(victim if file.write(b"x") else target)
        target.unlink()
    write(tmp_path, "x.md", "old")
    with target_file(target, True) as file:
        file.write(b"new")
        target.unlink()
        target.symlink_to(victim)
    assert not victim.exists()
    assert [(one.name, one.is_symlink()) for one in tmp_path.iterdir() if one.is_file()] == [
        ("x.md", False)
    ]


def test_interrupted_export_leaves_nothing(tmp_path: Path) -> None:
    """A failed write removes the partial file and keeps the existing one."""
    for before in (None, "old"):
        if before:
            write(tmp_path, "x.md", before)
        with pytest.raises(TypeError), target_file(tmp_path / "x.md", True) as file:
            file.writelines([b"half", "text"])  # type: ignore[list-item]
        assert [one.read_text("utf-8") for one in tmp_path.iterdir()] == (
            [before] if before else []
        )


def test_export_closes_folder_descriptors(tmp_path: Path) -> None:
    """Neither writing many folders nor a failure leaves a file descriptor open."""
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    with target_files(tmp_path / "out", False) as files:
        for number in range(30):
            files.write(f"a{number}/b/c/x.md", b"x")
            files.write(f"y{number}.md", b"x")
    write(tmp_path, "file", "")
    for way in ("file/x", "file/y/z"):
        with pytest.raises(MemvaultError):
            open_folder(tmp_path / way)
    if before:
        assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("name", ["x.jsonl", "folder"])
def test_export_works_without_folder_descriptors(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """As on Windows, files are written by path, and symlinks are still not followed."""
    monkeypatch.setattr("memvault.files.target._HAS_DESCRIPTORS", False)
    write(folder, "fact/a.md", SECRET)
    store, target = store_at(folder), tmp_path / "new" / name
    kind = formats.chosen(str(target), "")
    assert kind.write(ExportedFiles(store), target, False) == 2
    with pytest.raises(Refused, match="already exists"):
        kind.write(ExportedFiles(store), target, False)
    assert kind.write(ExportedFiles(store), target, True) == 2
    place = target / "fact" if name == "folder" else target
    victim = tmp_path / "victim"
    if name == "folder":
        for path in place.iterdir():
            path.unlink()
        place.rmdir()
    else:
        place.unlink()
    place.symlink_to(victim)
    with pytest.raises(Refused, match="is a link"):
        kind.write(ExportedFiles(store), target, True)
    assert not victim.exists()
    with pytest.raises(MemvaultError), target_file(folder / "memvault.toml/x.md", True):
        pass


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


@pytest.mark.skipif(sys.platform != "linux", reason="nameless files need Linux")
@pytest.mark.promise("R29")
@pytest.mark.parametrize("kind", ["zip", "jsonl"])
def test_killed_export_leaves_no_file(folder: Path, tmp_path: Path, kind: str) -> None:
    """A killed export to a single file leaves no other file next to its target."""
    for number in range(5):
        write(folder, f"n{number}.md", f"# N{number}\n")
    with open_vault(folder) as vault:
        assert vault.call("memory_list")["success"]  # so that only the export reads the files
    place = tmp_path / "target"
    place.mkdir()
    line = ["--vault", str(folder), "export", str(place / f"all.{kind}")]
    killed = [sys.executable, "-c", _KILLED, "open", "n3.md", "0", *line]
    assert subprocess.run(killed, check=False, capture_output=True).returncode == 9
    assert list(place.iterdir()) == []


@pytest.mark.promise("R29")
def test_export_deletes_temporary_files_of_killed_export(folder: Path, tmp_path: Path) -> None:
    """An export to a folder deletes the temporary files that a killed export left there."""
    for number in range(5):
        write(folder, f"n{number}.md", f"# N{number}\n")
    place = tmp_path / "target"
    line = ["--vault", str(folder), "export", str(place), "--to", "folder"]
    killed = [sys.executable, "-c", _KILLED, "os.remove", ".tmp", "3", *line]
    ran = subprocess.run(killed, check=False, capture_output=True)
    assert ran.returncode == 9, ran
    left = list(place.rglob(".*.tmp"))
    assert left
    for path in left:  # if processes cannot be checked, the file must be old
        os.utime(path, (0, 0))
    ran = subprocess.run(
        [sys.executable, "-m", "memvault", *line, "--force"], check=False, capture_output=True
    )
    assert ran.returncode == 0, ran
    assert not list(place.rglob(".*.tmp"))
