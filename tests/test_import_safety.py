"""An import keeps what the vault has, whatever the source, and reports what it leaves out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from conftest import Run, refused, succeeded, write
from import_sources import folder as folder_source
from import_sources import logseq as logseq_source
from test_import import import_all, notes_in


def limited(folder: Path, kilobytes: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run memvault where no file can grow beyond a size."""
    script = f'ulimit -f {kilobytes}; trap "" XFSZ; exec "$@"'
    command = ["bash", "-c", script, "bash", sys.executable, "-m", "memvault", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_two_sources_with_the_same_names_are_kept_apart(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    """A folder whose paths are those of an earlier one adds its notes, and changes none."""
    for name in ("one", "two"):
        write(tmp_path, f"{name}/README.md", f"# Read me\n\nThis is {name}: [[start]].\n")
        write(tmp_path, f"{name}/start.md", f"The start of {name}.\n")
        found = import_all(run, tmp_path / name).json
        assert (found["new"], found["changed"]) == (2, 0)
    notes = notes_in(folder)
    assert b"This is one: [[start]]" in notes["imported/notes/README.md"]
    assert b"This is two: [[start-2]]" in notes["imported/notes/README-2.md"]
    write(tmp_path, "two/start.md", "Two starts anew.\n")
    found = import_all(run, tmp_path / "two").json
    assert found["changedPaths"] == ["imported/notes/start-2.md"]
    assert b"The start of one." in notes_in(folder)["imported/notes/start.md"]


def test_a_link_to_a_name_that_the_vault_has_too_gets_the_path(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    """A link in an imported note leads to the imported note, not to one of the same name."""
    write(folder, "team/Plan.md", "The team's plan.\n")
    write(tmp_path, "mine/Plan.md", "My plan.\n")
    write(tmp_path, "mine/Home.md", "See [[Plan]].\n")
    import_all(run, tmp_path / "mine")
    found = succeeded(run("links", "Home", "--json")).json
    assert [link["filePath"] for link in found["links"]] == ["imported/notes/Plan.md"]


def test_the_preview_names_each_note_that_would_change(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    """Before anything is written, the notes to change and the files to copy are listed."""
    made = folder_source.make(tmp_path)
    assert "files: imported/notes/pictures/plan.png" in succeeded(run("import", str(made))).out
    import_all(run, made)
    write(made, "Beta.md", "Beta was rewritten.\n")
    shown = succeeded(run("import", str(made))).out
    assert "to change: imported/notes/Beta.md" in shown
    assert "[[Nowhere]]" in (folder / "imported/notes/Beta.md").read_text("utf-8")


def test_the_times_of_files_alone_change_no_note(run: Run, folder: Path, tmp_path: Path) -> None:
    """A copy of a folder, or a zip of it, is the same source, whatever the times of its files."""
    made = folder_source.make(tmp_path)
    import_all(run, made)
    os.utime(made / "Beta.md", (1_000_000_000, 1_000_000_000))
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for path in (path for path in made.rglob("*.md") if not path.is_symlink()):
            archive.write(path, path.relative_to(tmp_path))
    for source in (made, tmp_path / "all.zip"):
        found = import_all(run, source).json
        assert (found["new"], found["changed"]) == (0, 0)


def test_a_vault_is_not_imported_into_itself(run: Run, folder: Path) -> None:
    """The vault, a folder in it and one around it are refused; a hidden folder in it is not."""
    write(folder, "notes/a.md", "A\n")
    for source in (".", "notes", "notes/a.md", ".."):
        assert "memories already" in refused(run("import", source, "--from", "folder"), 1)
    write(folder, ".old/b.md", "B\n")
    assert import_all(run, ".old").json["new"] == 1


def test_a_name_that_no_file_can_have_is_listed(run: Run, folder: Path, tmp_path: Path) -> None:
    """A path that is too long for the file system is left out, and the rest is imported."""
    lines = [
        {"memvault": "export", "format": 1},
        {"path": f"{'long' * 100}.md", "encoding": "utf-8", "content": "a"},
        {"path": "z.md", "encoding": "utf-8", "content": "z"},
    ]
    made = write(tmp_path, "x.jsonl", "\n".join(map(json.dumps, lines)))
    found = import_all(run, made).json
    assert [one["what"] for one in found["unreadable"]] == [f"{'long' * 100}.md"]
    assert (folder / "z.md").read_text("utf-8") == "z"


def test_an_import_that_could_not_be_undone_stops(run: Run, folder: Path, tmp_path: Path) -> None:
    """If the journal cannot be written, no further note is, and the error names the reason."""
    made = folder_source.make(tmp_path)
    run("list")
    write(folder, ".memvault/journal/1.jsonl", "\n" * 200 * 1024)
    done = limited(folder, 200, "import", str(made), "--yes")
    assert done.returncode == 1
    assert "undo does not know of imported/notes/Beta.md" in done.stderr
    assert [*folder.glob("imported/**/*.*")] == [folder / "imported/notes/Beta.md"]


def test_an_import_that_writes_nothing_is_an_error(run: Run, folder: Path, tmp_path: Path) -> None:
    """If no note can be written, the reason is the error."""
    made = folder_source.make(tmp_path)
    (folder / ".memvault/journal").parent.mkdir(exist_ok=True)
    (folder / ".memvault/journal").symlink_to(tmp_path)
    assert "is a link" in refused(run("import", str(made), "--yes"), 1)


def test_settings_of_other_vaults_are_not_copied(run: Run, folder: Path, tmp_path: Path) -> None:
    """No import makes a vault within the vault."""
    write(tmp_path, "old/memvault.toml", "version = 1\n")
    write(tmp_path, "old/a.md", "A\n")
    for arguments in (["--from", "folder"], ["--to", "team"]):
        found = import_all(run, tmp_path / "old", *arguments).json
        assert [one["what"] for one in found["unreadable"]] == ["memvault.toml"]
    graph = logseq_source.make(tmp_path)
    write(graph, "assets/memvault.toml", "version = 1\n")
    found = import_all(run, graph).json
    assert "assets/memvault.toml" in [one["what"] for one in found["unreadable"]]
    assert [*folder.rglob("memvault.toml")] == [folder / "memvault.toml"]
    assert (folder / "team/a.md").exists()


def test_a_source_of_which_nothing_can_be_read_is_an_error(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    """The reason is in the message: encrypted, leading out of the zip, damaged."""
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as made:
        made.writestr("../a.md", "A")
    assert "leads out of the zip" in refused(run("import", str(tmp_path / "x.zip"), "--yes"), 2)
    with zipfile.ZipFile(tmp_path / "y.zip", "w") as made:
        made.writestr("notes/a.md", "A")
    data = bytearray((tmp_path / "y.zip").read_bytes())
    for sign, at in ((b"PK\1\2", 8), (b"PK\3\4", 6)):
        data[data.index(sign) + at] |= 1
    (tmp_path / "y.zip").write_bytes(data)
    assert "it is encrypted" in refused(run("import", str(tmp_path / "y.zip"), "--yes"), 2)
    write(tmp_path, "z.jsonl", '{"memvault": "export", "format": 1}\nno JSON\n')
    assert "no JSON object" in refused(run("import", str(tmp_path / "z.jsonl"), "--yes"), 2)


def test_an_import_that_fails_half_way_says_how_to_go_on(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    """What was written is named with its undo, and the same command adds the rest."""
    write(tmp_path, "notes/a.md", "A\n")
    write(tmp_path, "notes/b.md", "B " * 200_000)
    run("list")
    done = limited(folder, 200, "import", str(tmp_path / "notes"), "--yes")
    assert done.returncode == 1
    assert "Stopped: imported/notes/a.md was changed before that; memvault undo" in done.stderr
    assert import_all(run, tmp_path / "notes").json["new"] == 1


_LOADS = """
import os, sys
sys.modules["ijson.backends._yajl2"] = None  # as where the package is not compiled
from memvault.importers.json_source import load_ijson
print(load_ijson().backend_name, "IJSON_BACKEND" in os.environ)
"""


@pytest.mark.promise("S95")
def test_import_starts_no_compiler(tmp_path: Path) -> None:
    """Where ijson has no backend in C, it does not look for a library with programs on the PATH."""
    log = tmp_path / "started"
    for name in ("gcc", "cc", "ld", "objdump"):
        script = write(tmp_path, f"vault/bin/{name}", f"#!/bin/sh\necho $0 >> {log}\n")
        script.chmod(0o755)
    path = f"{tmp_path}/vault/bin{os.pathsep}{os.defpath}"
    done = subprocess.run(
        [sys.executable, "-c", _LOADS],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["python", "False"]
    assert not log.exists()
