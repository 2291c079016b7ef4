"""memvault init fills an empty folder, and adds one file to any other."""

from __future__ import annotations

import os
from pathlib import Path

from conftest import Run, write


def _bytes(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        path.relative_to(folder).as_posix(): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_init_fills_an_empty_folder_once(tmp_path: Path, run: Run) -> None:
    """A new or empty folder becomes a whole vault; a second init changes nothing."""
    (tmp_path / "empty" / ".git").mkdir(parents=True)
    for root in (tmp_path / "new" / "deep", tmp_path / "empty"):
        ran = run("init", str(root), "--json", cwd=tmp_path)
        assert (ran.code, ran.json["success"]) == (0, True)
        there = _bytes(root)
        assert sorted(ran.json["created"]) == sorted(there)
        assert {"memvault.toml", "README.md", "AGENTS.md", ".gitignore"} <= there.keys()
        assert run("list", "--json", cwd=root).json["total"] == 0
        assert run("init", cwd=root)[:2] == (1, "")
        assert there.items() <= _bytes(root).items()


def test_init_touches_no_file_that_is_there(tmp_path: Path, run: Run) -> None:
    """In a folder with files init adds memvault.toml alone; bytes and times stay as they were."""
    write(tmp_path, "site/_posts/2020-01-01-a.md", b"---\r\ntitle: A\r\n---\r\nb\xff")
    write(tmp_path, "site/README.md", "# R\n")
    write(tmp_path, "site/.obsidian/app.json", "{}")
    os.utime(tmp_path / "site" / "README.md", (1, 1))
    before = _bytes(tmp_path / "site")
    ran = run("init", "site", "--json", cwd=tmp_path)
    assert ran.json["created"] == ["memvault.toml"]
    assert ran.json["memories"] == 2
    for arguments in (["list"], ["recall", "b"], ["status"]):
        assert run(*arguments, cwd=tmp_path / "site").code == 0
    after = _bytes(tmp_path / "site")
    assert before.items() <= after.items()
    new = after.keys() - before.keys()
    assert [name for name in new if not name.startswith(".memvault/")] == ["memvault.toml"]


def test_init_bare_makes_one_file(tmp_path: Path, run: Run) -> None:
    """With --bare even an empty folder gets nothing but its settings."""
    assert run("init", "bare", "--bare", cwd=tmp_path).code == 0
    assert [*_bytes(tmp_path / "bare")] == ["memvault.toml"]
    write(tmp_path, "file", "x")
    ran = run("init", "file", cwd=tmp_path)
    assert (ran.code, ran.out) == (2, "")


def test_examples_are_shown_and_never_found(tmp_path: Path, run: Run) -> None:
    """With --examples a type's example is listed, marked, and no search, fact or context has it."""
    root = tmp_path / "made"
    assert run("init", "--examples", "made", cwd=tmp_path).code == 0
    listed = run("list", "--json", cwd=root).json
    assert listed["total"] == 12
    assert all(entry["example"] for entry in listed["memories"])
    assert not [entry for entry in listed["memories"] if "problem" in entry]
    shown = run("show", "A secret in a vault outlives its deletion", cwd=root).out
    assert shown.splitlines()[0].endswith("  example")
    words = "secret in a vault that was committed to git"
    for mode in ("hybrid", "keyword", "vector"):
        assert run("recall", words, "--mode", mode, "--json", cwd=root).json["memories"] == []
    assert run("recall", "security", "--mode", "tag", "--json", cwd=root).json["memories"] == []
    assert run("recall", "--all", "--json", cwd=root).json["memories"] == []
    assert run("fact", "recall", words, "--json", cwd=root).json["facts"] == []
    known = run("experience", words, "review a vault once a month", "--json", cwd=root).json
    assert not any(known["sources"].values())
    assert run("episode", "recent", "--days", "9999", "--json", cwd=root).json["episodes"] == []
    assert "RECALLED" not in run("context", words, cwd=root).out
    made = run("remember", "A secret", f"Never keep a {words}.", "--json", cwd=root).json
    assert made["similar"] == []
    assert run("recall", words, "--json", cwd=root).json["count"] == 1


def test_a_procedure_named_like_an_example_is_a_procedure(tmp_path: Path, run: Run) -> None:
    """Storing under an example's name makes it one's own, so that it is recalled."""
    root = tmp_path / "made"
    assert run("init", "--examples", "made", cwd=tmp_path).code == 0
    name = "Review a vault once a month"
    stored = run("procedure", "store", name, "Look at each.", "--json", cwd=root).json
    assert stored["isUpdate"]
    found = run("procedure", "recall", name, "--min-success-rate", "0", "--json", cwd=root).json
    assert [entry["name"] for entry in found["procedures"]] == [name]


def test_examples_need_an_empty_folder(tmp_path: Path, run: Run) -> None:
    """Examples are refused where files are, and with --bare; no file is written then."""
    write(tmp_path, "site/a.md", "# A\n")
    for arguments in (["site", "--examples"], ["new", "--examples", "--bare"]):
        ran = run("init", *arguments, cwd=tmp_path)
        assert (ran.code, ran.out) == (2, "")
    assert "site/a.md" in _bytes(tmp_path)
    assert not [*tmp_path.glob("new/*"), *tmp_path.glob("site/*.toml")]
