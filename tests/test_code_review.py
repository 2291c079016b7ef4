"""Doctor and review list memories whose code has changed, and offer what to do."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from code_project import SEPARATOR, change, cited, project_in, remembered, states
from conftest import Run, succeeded, write
from memvault import open_vault
from terminal import at_terminal


@pytest.fixture
def folder(project: Path) -> Path:
    """The vault in the repository."""
    return project / "vault"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a parser, and a vault in the folder ``vault``."""
    return project_in(tmp_path, monkeypatch)


def test_doctor_repairs_citations(folder: Path, project: Path) -> None:
    """Doctor updates moved paths, adds missing citations, and confirms claims only if asked."""
    write(folder, "fact/old.md", f"---\nid: old\n---\n\n# Old\n\n{SEPARATOR}\n")
    write(folder, "fact/bad.md", "---\ncites: [../../x.py#y@0123456789ab]\n---\n\n# Bad\n\nText.\n")
    with open_vault(folder) as vault:

        def found(**more: Any) -> dict[str, list[str]]:
            result = vault.call("vault_doctor", **more)
            codes: dict[str, list[str]] = {}
            for finding in result["findings"]:
                codes.setdefault(finding["code"], []).append(finding["filePath"])
            return {code: paths for code, paths in codes.items() if code.startswith("code-")}

        assert found() == {"code-uncited": ["fact/old.md"], "code-unread": ["fact/bad.md"]}
        found(fix=True)
        assert states(vault, "Old") == ["same"]
        (project / "lib").mkdir()
        (project / "src/parser.py").rename(project / "lib/parser.py")
        assert found() == {"code-moved": ["fact/old.md"], "code-unread": ["fact/bad.md"]}
        found(fix=True)
        assert cited(vault, "Old")[0]["path"] == "lib/parser.py"
        change(project, "lib/parser.py", '";"', '","')
        assert found(fix=True)["code-changed"] == ["fact/old.md"]
        assert found(fix=True, only=["code-changed"]) == {}
        assert states(vault, "Old") == ["same"]
        vault.call("memory_undo")
        assert states(vault, "Old") == ["changed"]
        (project / "lib/parser.py").unlink()
        assert found(fix=True, only=["code-changed"]) == {}
        assert cited(vault, "Old") == []


def test_superseded_memory_needs_no_review(folder: Path, project: Path) -> None:
    """After a memory is superseded, changes of its code are no longer reported."""
    with open_vault(folder) as vault:
        remembered(vault, SEPARATOR)
        change(project, "src/parser.py", '";"', '","')
        (item,) = vault.call("vault_review", kind="code")["items"]
        assert item["reason"].startswith("src/parser.py#parse_line has changed: ")
        replacing = {"title": "Commas", "content": "By commas.", "supersedes": "Field separator"}
        vault.call("memory_remember", **replacing)
        assert vault.call("vault_review", kind="code")["items"] == []


def test_doctor_checks_links_to_repository_files(folder: Path, project: Path) -> None:
    """A link to a missing file of the repository is reported; pages and other places are not."""
    links = (
        "[a](../../src/parser.py) [b](../../src/parser.py#L3) [c](../../src/gone.py#L3) "
        "[d](../../../elsewhere.py) [e](../../page.html) [f](../../folder/)"
    )
    write(folder, "fact/a.md", f"# A\n\n{links}\n")
    write(folder, "memvault.toml", "cites = false\n")
    with open_vault(folder) as vault:
        found = vault.call("vault_doctor", only=["link-broken"])["findings"]
        assert [entry["message"] for entry in found] == [
            "[c](../../src/gone.py) does not resolve to a file"
        ]


@pytest.mark.skipif(os.name == "nt", reason="pseudo-terminals are of POSIX")
def test_review_answers_about_code(folder: Path, project: Path, run: Run) -> None:
    """Keys say that a memory is still true, edit it, replace it, or move it to the trash."""
    editor = write(project.parent, "editor", '#!/bin/sh\necho "By commas." >> "$1"\n')
    editor.chmod(0o755)
    with open_vault(folder) as vault:
        for title in ("A", "B", "C", "D"):
            text = f"{title * 30} is about parse_line in src/parser.py."
            assert remembered(vault, text, title) == ["src/parser.py#parse_line"]
    change(project, "src/parser.py", '";"', '","')
    code, shown = at_terminal(
        folder,
        "review",
        "--kind",
        "code",
        answer=[*"yert"],
        asked="q quit: ",
        environment={"EDITOR": str(editor)},
    )
    assert code == 0, shown
    assert "4 of 4 answered" in shown
    with open_vault(folder) as vault:
        assert states(vault, "fact/a.md") == ["same"]
        assert states(vault, "fact/b.md") == ["same"]
        assert "By commas." in vault.call("memory_show", name="fact/b.md")["content"]
        old = vault.call("memory_show", name="fact/c.md")
        assert states(vault, old["supersededBy"]) == ["same"]
        assert not (folder / "fact/d.md").exists()
        assert vault.call("vault_review", kind="code")["items"] == []
    succeeded(run("undo"))
    assert (folder / "fact/d.md").exists()
