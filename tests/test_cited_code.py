"""Memories that mention code cite it, and say when it has changed, moved or gone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from code_project import PARSER, SEPARATOR, change, cited, commit, project_in, remembered, states
from conftest import Run, called, recalled, require_time_for_hooks, succeeded, until, write
from git_clones import git
from memvault import Vault, open_vault
from memvault.call import Caller
from memvault.repository import definitions
from memvault.repository.citations import Citation
from memvault.tools.core import invoke
from memvault.workspace import Workspace
from test_date_sources import allow


@pytest.fixture
def folder(project: Path) -> Path:
    """The vault in the repository."""
    return project / "vault"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a parser, and a vault in the folder ``vault``."""
    return project_in(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Fields are split in src/parser.py:9", ["src/parser.py:9"]),
        ("Fields are split in `src/parser.py` line 9.", ["src/parser.py:9"]),
        ("See src/parser.py (lines 8-9)", ["src/parser.py:8-9"]),
        ("See src/parser.py#L8-L9.", ["src/parser.py:8-9"]),
        ("See [the code](../../src/parser.py#L9)", ["src/parser.py:9"]),
        ("`parse_line` in src/parser.py splits", ["src/parser.py#parse_line"]),
        ("parse_line() (src/parser.py:7) splits", ["src/parser.py#parse_line"]),
        ("src/parser.py::Parser::parse calls it", ["src/parser.py#Parser.parse"]),
        ("src/parser.py#Parser.parse calls it", ["src/parser.py#Parser.parse"]),
        ("In parser.py, LIMIT is 80", ["src/parser.py#LIMIT"]),
        ("Parsing is in src/parser.py.", ["src/parser.py"]),
        ("The parser, `Parser`, is in src/parser.py", ["src/parser.py#Parser"]),
        ("Line 999 of src/parser.py:999 is missing", ["src/parser.py"]),
        ("https://example.org/src/parser.py:9", []),
        ("src/other.py:9, e.g. and/or 1.2, parse_line in nothing.py", []),
        ("../outside.py:1 and /etc/passwd:1 and src/../../outside.py:1", []),
        (
            "Like `parse_line`:\n```\nParser(LIMIT)\n```\nin src/parser.py",
            ["src/parser.py#parse_line"],
        ),
        ("fact/other.md and vault/fact/other.md", []),
    ],
)
def test_remember_cites_code_mentioned_in_text(
    text: str, expected: list[str], folder: Path, project: Path
) -> None:
    """Paths, lines and symbols of the repository are cited; other words are not."""
    write(project.parent, "outside.py", "secret = 1\n")
    write(folder, "fact/other.md", "# Other\n\nText.\n")
    with open_vault(folder) as vault:
        assert remembered(vault, text) == expected


def test_absolute_path_in_the_repository_is_cited(folder: Path, project: Path) -> None:
    """An absolute path is stored relative to the repository, so it is valid in every clone."""
    with open_vault(folder) as vault:
        assert remembered(vault, f"See {project}/src/parser.py:9.") == ["src/parser.py:9"]


def test_unique_symbol_needs_no_path_if_git_may_run(folder: Path, project: Path) -> None:
    """After the approval, a symbol that one file defines is cited without its path."""
    with open_vault(folder) as vault:
        assert remembered(vault, "`parse_line` splits on semicolons", "Before") == []
        allow(folder)
        assert remembered(vault, "`parse_line` splits", "One") == ["src/parser.py#parse_line"]
        write(project, "src/other.py", "def parse_line(text):\n    return 1\n")
        commit(project)
        assert remembered(vault, "`parse_line` splits", "Two") == []


def test_citation_state_tracks_code_in_git(folder: Path, project: Path) -> None:
    """Code is the same, moved, changed or gone, and the commit of the change is named."""
    allow(folder)
    with open_vault(folder) as vault:
        assert remembered(vault, SEPARATOR) == ["src/parser.py#parse_line"]
        assert states(vault) == ["same"]
        change(project, "src/parser.py", "LIMIT = 80", "LIMIT = 90\n# A comment\nOTHER = 1")
        change(project, "src/parser.py", '"""Return the fields', '"""Return all  fields')
        assert states(vault) == ["same"]
        commit(project)
        git(project, "mv", "src/parser.py", "src/reader.py")
        moved = {"path": "src/parser.py", "symbol": "parse_line", "state": "moved"}
        assert cited(vault) == [{**moved, "movedTo": "src/reader.py"}]
        commit(project)
        assert cited(vault) == [{**moved, "movedTo": "src/reader.py"}]
        change(project, "src/reader.py", '";"', '","')
        changed = {**moved, "movedTo": "src/reader.py", "state": "changed"}
        assert cited(vault) == [changed]
        since = commit(project)
        assert cited(vault) == [{**changed, "since": since}]
        change(project, "src/reader.py", "LIMIT", "MOST")
        commit(project)
        assert cited(vault) == [{**changed, "since": since}]
        git(project, "rm", "--quiet", "src/reader.py")
        commit(project)
        gone = {"path": "src/parser.py", "symbol": "parse_line", "state": "gone"}
        assert cited(vault) == [{**gone, "since": since}]


def test_symbol_that_moved_to_another_file_is_found(folder: Path, project: Path) -> None:
    """A function moved without changes counts as moved; another one of that name does not."""
    allow(folder)
    with open_vault(folder) as vault:
        remembered(vault, SEPARATOR)
        start, end = PARSER.index("@cached"), PARSER.index("class")
        write(project, "src/parser.py", PARSER[:start] + PARSER[end:])
        write(project, "src/lines.py", PARSER[start:end])
        commit(project)
        assert [entry.get("movedTo") for entry in cited(vault)] == ["src/lines.py"]
        change(project, "src/lines.py", '";"', '","')
        assert states(vault) == ["gone"]


def test_cited_lines_are_found_after_moving(folder: Path, project: Path) -> None:
    """Lines keep their state when their number changes, and repeated lines are extended."""
    write(project, "src/repeated.py", "a = 1\nreturn_it()\nb = 2\nreturn_it()\nc = 3\n")
    with open_vault(folder) as vault:
        remembered(vault, "See src/parser.py:9 and src/repeated.py:4")
        assert [entry.get("line") for entry in cited(vault)] == [9, 4]
        change(project, "src/parser.py", "LIMIT = 80", "LIMIT = 80\nX = 1\nY = 2")
        assert (cited(vault)[0]["line"], cited(vault)[0]["state"]) == (11, "same")
        change(project, "src/repeated.py", "c = 3", "c = 4")
        assert states(vault) == ["same", "changed"]


def test_no_git_process_runs_without_approval(
    folder: Path, project: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the approval, code is compared and a moved file is found by name, without git."""
    script = f"#!/bin/sh\necho ran >> {tmp_path}/ran\n"
    write(tmp_path, "bin/git", script).chmod(0o755)
    succeeded(run("remember", "Field separator", SEPARATOR, "--type", "fact"))
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    (project / "lib").mkdir()
    (project / "src/parser.py").rename(project / "lib/parser.py")
    shown = succeeded(run("show", "Field separator", "--json")).json["cites"]
    assert [(entry["state"], entry.get("movedTo")) for entry in shown] == [
        ("moved", "lib/parser.py")
    ]
    change(project, "lib/parser.py", '";"', '","')
    shown = succeeded(run("show", "Field separator", "--json")).json["cites"]
    assert [entry["state"] for entry in shown] == ["changed"]
    (project / "lib/parser.py").unlink()
    said = succeeded(run("recall", "which separator")).out
    assert "src/parser.py#parse_line no longer exists" in said
    assert not (tmp_path / "ran").exists()


def test_recall_marks_only_changed_code(folder: Path, project: Path, run: Run) -> None:
    """Recall mentions only changed code, and describes the change in each format."""
    with open_vault(folder) as vault:
        remembered(vault, SEPARATOR)
        assert "cites" not in recalled(vault, "which separator")[0]
        change(project, "src/parser.py", '";"', '","')
        assert recalled(vault, "which separator")[0]["cites"][0]["state"] == "changed"
        assert recalled(vault, "", isAll=True)[0]["cites"][0]["state"] == "changed"
        assert "cites" not in recalled(vault, "which separator", asOf="2099-01-01")[0]
        brief = vault.call("memory_recall", query="which separator", brief=True)["brief"]
        assert "outdated: src/parser.py#parse_line has changed" in brief[0]
    assert "   src/parser.py#parse_line has changed\n" in succeeded(run("recall", "separator")).out


def test_prompt_hook_warns_about_outdated_memories(folder: Path, project: Path, run: Run) -> None:
    """The prompt hook and context add when a memory was true, not the claim alone."""
    allow(folder)
    text = "Our parser separates the fields of each line of a bank statement by semicolons."
    with open_vault(folder) as vault:
        remembered(vault, f"{text} src/parser.py#parse_line")
    prompt = "which separator do the fields of a bank statement line have"
    question = json.dumps({"prompt": prompt})
    until(lambda: "Field separator" in succeeded(run("hook", "prompt", stdin=question)).out)
    assert "true until" not in succeeded(run("hook", "prompt", stdin=question)).out
    change(project, "src/parser.py", '";"', '","')
    warning = "; outdated: src/parser.py#parse_line has changed)"
    assert warning in succeeded(run("hook", "prompt", stdin=question)).out
    since = commit(project)
    warning = f"; was true until {since} changed src/parser.py#parse_line)"
    assert warning in succeeded(run("hook", "prompt", stdin=question)).out
    assert warning in succeeded(run("context", prompt)).out


def test_compound_cites_code_mentioned_in_new_text(folder: Path, project: Path) -> None:
    """New text cites the code as it is now; code that is no longer mentioned is no longer cited."""
    with open_vault(folder) as vault:
        remembered(vault, SEPARATOR)
        change(project, "src/parser.py", '";"', '","')

        def compounded(text: str, **more: Any) -> list[str]:
            changes = {"query": "Field separator", "modifications": text, **more}
            result = called(vault, "memory_compound", **changes)
            return [value.rpartition("@")[0] for value in result.get("cites", [])]

        assert compounded("Other files have commas.") == ["src/parser.py#parse_line"]
        assert states(vault) == ["changed"]
        names = compounded("LIMIT in src/parser.py is 80.")
        assert names == ["src/parser.py#parse_line", "src/parser.py#LIMIT"]
        assert states(vault) == ["changed", "same"]
        compounded("Since May, by commas: see parse_line in src/parser.py.")
        assert states(vault) == ["same", "same"]
        assert compounded("Nothing.", mode="replace") == []
        assert cited(vault) == []


def test_written_citations_are_kept_and_need_no_digest(folder: Path, project: Path) -> None:
    """A person may cite code without a digest; it is compared by existence, and never removed."""
    path = write(
        folder,
        "fact/by-hand.md",
        "---\nid: by-hand\ncites:\n  - src/parser.py#parse_line  # mine\n"
        "  - The Art of Parsing\n  - src/parser.py:3\n---\n\n# By hand\n\nText.\n",
    )
    with open_vault(folder) as vault:
        assert states(vault, "By hand") == ["same", "same"]
        before = path.read_bytes()
        vault.call("memory_recall", query="by hand")
        assert path.read_bytes() == before
        change(project, "src/parser.py", "parse_line", "split_line")
        assert states(vault, "By hand") == ["gone", "same"]
        vault.call("memory_compound", query="By hand", modifications="More.")
        text = path.read_text("utf-8")
        assert "  - src/parser.py#parse_line  # mine\n  - The Art of Parsing\n" in text


def test_setting_turns_citations_off(folder: Path, project: Path) -> None:
    """With ``cites = false`` nothing is written to headers, and nothing is compared."""
    write(folder, "fact/a.md", "---\ncites: [src/gone.py#x@0123456789ab]\n---\n\n# A\n\nText.\n")
    write(folder, "memvault.toml", "version = 1\ncites = false\n")
    with open_vault(folder) as vault:
        assert remembered(vault, SEPARATOR) == []
        assert cited(vault, "A") == []
        assert vault.call("vault_doctor", only=["code-changed", "code-uncited"])["findings"] == []


def test_vault_outside_a_repository_has_no_citations(tmp_path: Path) -> None:
    """Without a repository nothing is cited, and other programs' ``cites`` are ignored."""
    root = write(tmp_path, "alone/memvault.toml", "version = 1\n").parent
    write(root, "src/parser.py", PARSER)
    write(root, "a.md", "---\ncites: [src/parser.py#x@0123456789ab]\n---\n\n# A\n\nText.\n")
    with open_vault(root) as vault:
        assert remembered(vault, SEPARATOR) == []
        assert cited(vault, "A") == []


@pytest.mark.promise("S106")
def test_files_outside_the_repository_are_never_read(
    folder: Path, project: Path, tmp_path: Path
) -> None:
    """Links, hidden and ignored files, and paths out of the repository are not compared."""
    write(tmp_path, "outside/parser.py", PARSER)
    (project / "linked").symlink_to(tmp_path / "outside")
    (project / "link.py").symlink_to(tmp_path / "outside/parser.py")
    write(project, ".gitignore", "secret*\nbuild/\n")
    for path in ("secret.py", "build/parser.py", ".hidden/parser.py", ".env.py"):
        write(project, path, PARSER)
    paths = (
        "linked/parser.py", "link.py", "secret.py", "build/parser.py", ".hidden/parser.py",
        ".env.py", "../outside/parser.py", "src/../../outside/parser.py", ".git/config",
        f"{tmp_path}/outside/parser.py",
    )  # fmt: skip
    (good,) = definitions.definitions(PARSER.split("\n"), "parse_line")
    entries = [f"{path}#parse_line@{good.digest}" for path in paths]
    header = f"---\ncites: {json.dumps(entries)}\n---\n"
    write(folder, "fact/a.md", f"{header}\n# A\n\nText.\n")
    with open_vault(folder) as vault:
        assert set(states(vault, "A")) <= {"gone", "moved"}
        assert {entry.get("movedTo", "src/parser.py") for entry in cited(vault, "A")} == {
            "src/parser.py"
        }
        text = " ".join(f"{path}:9 {path}#parse_line" for path in paths)
        assert remembered(vault, text) == []


@pytest.mark.promise("S106")
@pytest.mark.skipif(os.name == "nt", reason="pipes are of POSIX")
def test_large_and_special_files_are_not_read(folder: Path, project: Path) -> None:
    """Large, binary and special files are neither read nor waited for."""
    with open_vault(folder) as vault:
        files = ("huge.py", "pipe.py", "binary.py", "folder.py")
        for name in files:
            write(project, name, PARSER)
        remembered(vault, " ".join(f"{name}#parse_line" for name in files))
        assert states(vault) == ["same"] * 4
        for name in files:
            (project / name).unlink()
        os.truncate(write(project, "huge.py", ""), 2 << 30)
        os.mkfifo(project / "pipe.py")
        write(project, "binary.py", bytes(range(256)) * 10)
        (project / "folder.py").mkdir()
        started = time.monotonic()
        assert states(vault) == ["changed", "gone", "changed", "gone"]
        assert remembered(vault, " ".join(f"{name}:1" for name in files), "Two") == [
            "huge.py",
            "binary.py",
        ]
        assert time.monotonic() - started < 10


@pytest.mark.parametrize("content", ["gitdir: nowhere\n", "", "\0\xff", "gitdir: " + "x" * 9_000])
def test_broken_git_file_is_not_a_repository(folder: Path, project: Path, content: str) -> None:
    """With a broken ``.git`` file, citations are skipped and calls succeed."""
    with open_vault(folder) as vault:
        remembered(vault, SEPARATOR)
    shutil.rmtree(project / ".git")
    write(project, ".git", content)
    with open_vault(folder) as vault:
        assert cited(vault) == []
        assert remembered(vault, SEPARATOR, "Again") == []
        assert vault.call("vault_doctor")["success"]


def test_worktree_and_submodule_are_repositories(folder: Path, project: Path) -> None:
    """In a linked worktree, code is compared with the worktree's own files."""
    with open_vault(folder) as vault:
        remembered(vault, SEPARATOR)
    commit(project)
    git(project, "worktree", "add", "--quiet", "../linked", "-b", "other")
    linked = project.with_name("linked")
    change(linked, "src/parser.py", '";"', '","')
    with open_vault(linked / "vault") as vault:
        assert states(vault) == ["changed"]
    with open_vault(folder) as vault:
        assert states(vault) == ["same"]


@pytest.mark.parametrize(
    "value",
    [
        "[[Smith 2010]]", "7", "{a: b}", "[1, null, {a: b}]", "['', ' ', '@', '#', ':1']",
        "['src/parser.py#parse_line@nothex', 'src/parser.py:0', 'src/parser.py:9-2000']",
        "'src/parser.py#parse_line@0123456789ab'", "[https://example.org/a.py:1]", "['a\\b.py:1']",
    ],
)  # fmt: skip
def test_malformed_citations_are_ignored(folder: Path, project: Path, value: str) -> None:
    """Every command works with any header, and compounding keeps the header."""
    path = write(folder, "fact/a.md", f"---\ncites: {value}\n---\n\n# A\n\nText.\n")
    with open_vault(folder) as vault:
        assert set(states(vault, "A")) <= {"same", "changed", "gone"}
        assert titles_of(vault) == ["A"]
        assert vault.call("vault_doctor")["success"]
        assert vault.call("memory_compound", query="A", modifications="x")["success"]
    assert f"cites: {value}\n" in path.read_text("utf-8")


def titles_of(vault: Vault) -> list[str]:
    """Return the titles that a recall of everything finds."""
    return [entry["title"] for entry in recalled(vault, "", isAll=True)]


def test_line_endings_and_encodings_do_not_matter(folder: Path, project: Path) -> None:
    """CRLF and files that are not UTF-8 are compared; UTF-16 is treated as binary."""
    latin = 'def greet():\n    return "Grüße"\n'
    write(project, "src/latin.py", latin.encode("latin-1"))
    write(project, "src/wide.py", latin.encode("utf-16"))
    with open_vault(folder) as vault:
        names = remembered(vault, "src/latin.py#greet src/wide.py#greet src/latin.py:2")
        assert names == ["src/latin.py#greet", "src/latin.py:2", "src/wide.py"]
        write(project, "src/latin.py", latin.replace("\n", "\r\n").encode("latin-1"))
        assert states(vault) == ["same"] * 3


def test_damaged_verdict_cache_only_repeats_comparison(folder: Path, project: Path) -> None:
    """A missing, damaged or foreign cache only costs another comparison."""
    with open_vault(folder) as vault:
        remembered(vault, SEPARATOR)
        assert states(vault) == ["same"]
        (cache,) = (project.parent / "cache").rglob("cites.json")
        (key,) = json.loads(cache.read_text("utf-8"))
        for content in ("", "[]", "{", f'{{"{key}": 7}}', f'{{"{key}": ["x"]}}', '{"a": null}'):
            cache.write_text(content, "utf-8")
            assert states(vault) == ["same"]
        (project / "src/parser.py").unlink()
        cache.write_text(f'{{"{key}": ["x"]}}', "utf-8")
        assert states(vault) == ["gone"]


@pytest.mark.parametrize("piece", ["+", "a/", "a#", "./", "a.b:1 ", "`a", "```\n", "../", "f( "])
def test_hostile_text_does_not_slow_remember(piece: str, folder: Path, project: Path) -> None:
    """No text makes remembering slow."""
    with open_vault(folder) as vault:
        remembered(vault, "Text", "First")
        started = time.process_time()
        remembered(vault, piece * (120_000 // len(piece)), "Second")
        assert time.process_time() - started < 10


def test_web_pages_list_changed_code(folder: Path, project: Path) -> None:
    """The page of a memory and the results of a search list the code that has changed."""
    testclient = pytest.importorskip("starlette.testclient")
    from memvault.web.app import application
    from memvault.web.session import WebSession
    from test_web import ACCESS, BASE

    with open_vault(folder) as vault:
        result = vault.call("memory_remember", title="Fields", content=SEPARATOR)
    change(project, "src/parser.py", '";"', '","')
    session = WebSession(folder)
    app = application(session, ACCESS, ("127.0.0.1", 8421))
    with testclient.TestClient(app, base_url=BASE) as client:
        assert client.get("/?token=the-token").status_code == 200
        for address in (f"/m/{result['memId']}", "/results?q=separated"):
            assert "src/parser.py#parse_line has changed" in client.get(address).text, address
    session.close()


def without_parse_line(project: Path) -> str:
    """Remove ``parse_line`` from the parser; return its definition."""
    start, end = PARSER.index("@cached"), PARSER.index("class")
    write(project, "src/parser.py", PARSER[:start] + PARSER[end:])
    return PARSER[start:end]


def make_git_slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make each run of git take at least 0.6 seconds."""
    script = f'#!/bin/sh\nsleep 0.6\nexec {shutil.which("git")} "$@"\n'
    write(tmp_path, "slow/git", script).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/slow:{os.environ['PATH']}")


def test_hook_answers_in_time_with_slow_git(
    folder: Path, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If git is slow, the prompt hook omits the commit, and a later answer includes it."""
    allow(folder)
    text = "Our parser separates the fields of each line of a bank statement by semicolons."
    with open_vault(folder) as vault:
        remembered(vault, f"{text} src/parser.py#parse_line")
        vault.call("memory_recall", query="separator")
    prompt = json.dumps({"prompt": "which separator do the fields of a bank statement line have"})
    command = [sys.executable, "-m", "memvault", "--vault", str(folder), "hook", "prompt"]

    def said() -> str:
        environment = {**os.environ, "MEMVAULT_RESIDENT": "off"}
        answer = subprocess.run(
            command, input=prompt, capture_output=True, text=True, env=environment, check=True
        )
        return answer.stdout

    until(lambda: "Field separator" in said())
    require_time_for_hooks(folder)
    change(project, "src/parser.py", '";"', '","')
    since = commit(project)
    with monkeypatch.context() as slow:
        make_git_slow(tmp_path, slow)
        until(lambda: "outdated: src/parser.py#parse_line has changed)" in said())
    until(lambda: f"was true until {since} changed src/parser.py#parse_line)" in said())


def test_large_file_is_compared_within_the_deadline(folder: Path, project: Path) -> None:
    """A check keeps its time limit even if many versions of a large file are compared."""
    allow(folder)
    lines = [f"value_{number} = compute({number}) + other\n" for number in range(6_000)]
    cited_lines = Citation("src/big.py", "", 45, 75).anchored_in(lines)
    for number in range(20):
        lines[50] = f"value = {number}\n"
        write(project, "src/big.py", "".join(lines))
        commit(project)
    workspace = Workspace(folder)
    assert workspace.citations is not None
    for seconds in (0.05, 0.2):
        started = time.process_time()
        workspace.citations.check([{"cites": [str(cited_lines)]}], seconds)
        assert time.process_time() - started < seconds + 0.1


def test_git_timeout_is_not_cached(
    folder: Path, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If git did not answer in time, the next check asks again."""
    allow(folder)
    with open_vault(folder) as vault:
        remembered(vault, SEPARATOR)
        git(project, "mv", "src/parser.py", "src/reader.py")
        commit(project)
        with monkeypatch.context() as slow:
            make_git_slow(tmp_path, slow)
            assert states(vault) == ["gone"]
        assert [entry.get("movedTo") for entry in cited(vault)] == ["src/reader.py"]


def test_code_removed_and_added_elsewhere_counts_as_moved(folder: Path, project: Path) -> None:
    """Code that was removed in a commit and later added to another file is moved."""
    allow(folder)
    with open_vault(folder) as vault:
        remembered(vault, SEPARATOR)
        code = without_parse_line(project)
        since = commit(project)
        assert [(entry["state"], entry["since"]) for entry in cited(vault)] == [("gone", since)]
        write(project, "src/lines.py", code)
        commit(project)
        assert states(vault) == ["moved"]


@pytest.mark.parametrize(
    "mention", ["src/a/config.py", "src/a/config.py#load", "src/a/config.py:2"]
)
def test_another_file_with_the_same_name_is_not_a_move(
    mention: str, folder: Path, project: Path
) -> None:
    """Of files with the name of a deleted one, only those with the cited code count."""
    write(project, "src/a/config.py", "def load():\n    return 1\n")
    write(project, "src/b/config.py", "def load():\n    return network()\n")
    with open_vault(folder) as vault:
        assert remembered(vault, f"Settings: {mention}") == [mention]
        (project / "src/a/config.py").unlink()
        assert states(vault) == ["gone"]
        vault.call("vault_doctor", fix=True)
        assert states(vault) == ["gone"]
        write(project, "src/b/config.py", "def load():\n    return 1\n")
        git(project, "add", "--all")
        assert states(vault) == ["moved"]


def test_unusual_file_names_are_looked_up_in_git(folder: Path, project: Path) -> None:
    """File names such as ``my blob``, and folders with the name of a file, are found too."""
    allow(folder)
    write(project, "src/my blob", "one = 1\ntwo = 2\n")
    write(project, "tool/x.py", "1\n")
    commit(project)
    text = "---\ncites: ['src/my blob:1@aaaaaaaaaaaa']\n---\n# A\n\nText.\n"
    write(folder, "fact/a.md", text)
    git(project, "mv", "src/my blob", "src/other")
    git(project, "rm", "-rq", "tool")
    write(project, "tool", "main() {\n  echo 1\n}\n")
    commit(project)
    with open_vault(folder) as vault:
        assert states(vault, "A") == ["changed"]
        assert remembered(vault, "See ./tool#main") == ["tool#main"]
        change(project, "tool", "echo 1", "echo 2")
        since = commit(project)
        change(project, "tool", "echo 2", "echo 3")
        commit(project)
        assert [entry.get("since") for entry in cited(vault)] == [since]


def test_remote_callers_cannot_see_repository_data(folder: Path, project: Path) -> None:
    """For a caller over the network, no code is cited or compared, and written ``cites`` stay."""
    write(project, "deploy/prod.py", "PORT = 8081\n")
    with open_vault(folder) as vault:
        remembered(vault, SEPARATOR)
    (project / "src/parser.py").unlink()
    caller = Caller(
        "remote",
        scope="all",
        sees_worktrees=False,
        may_run_programs=False,
        may_see_paths=False,
    )

    def call(tool: str, **arguments: Any) -> dict[str, Any]:
        result = invoke.call_result(Workspace(folder), tool, arguments, caller)
        assert result["success"], result
        return result

    text = "deploy/prod.py:1 and [one](../../deploy/prod.py), [two](../../deploy/none.py)"
    assert "cites" not in call("memory_remember", title="X", content=text)
    assert "cites" not in call("memory_show", name="Field separator")
    assert "cites" not in call("memory_recall", query="which separator")["memories"][0]
    assert "outdated" not in call("context", task="which separator")["context"]
    call("memory_compound", query="Field separator", modifications=text)
    (path,) = folder.rglob("field-separator*.md")
    assert "src/parser.py#parse_line@" in path.read_text("utf-8")
    assert "prod.py:1@" not in path.read_text("utf-8")
    assert (
        call("vault_doctor", only=["link-broken", "code-changed", "code-uncited"])["findings"] == []
    )


def test_doctor_describes_its_fix(folder: Path, project: Path) -> None:
    """For a missing symbol, the fix cites the whole file; for a missing file, it cites nothing."""
    with open_vault(folder) as vault:
        remembered(vault, SEPARATOR)
        without_parse_line(project)
        (found,) = vault.call("vault_doctor", only=["code-changed"])["findings"]
        assert "cite the whole file" in str(found)
        vault.call("vault_doctor", only=["code-changed"], fix=True)
        assert cited(vault) == [{"path": "src/parser.py", "state": "same"}]
        (project / "src/parser.py").unlink()
        (found,) = vault.call("vault_doctor", only=["code-changed"])["findings"]
        assert "remove the citation" in str(found)
        vault.call("vault_doctor", only=["code-changed"], fix=True)
        assert cited(vault) == []


def test_hook_before_an_edit_marks_outdated_memories(folder: Path, project: Path, run: Run) -> None:
    """The line of a memory that is similar to an edit says that its code has changed."""
    text = "The parser separates the fields of each line of a bank statement by semicolons."
    with open_vault(folder) as vault:
        remembered(vault, f"{text} src/parser.py#parse_line")
    change(project, "src/parser.py", '";"', '","')
    new = "separate the fields of each line of a bank statement by semicolons, the field separator"
    edit = {"file_path": "statement/fields.py", "new_string": new}
    event = json.dumps({"tool_name": "Edit", "tool_input": edit})
    warning = "; outdated: src/parser.py#parse_line has changed)"
    until(lambda: warning in succeeded(run("hook", "before-tool", stdin=event)).out)


def test_memory_mentioning_edited_file_warns_of_changed_code(
    folder: Path, project: Path, run: Run
) -> None:
    """A memory that mentions the edited file is injected and shown with a warning."""
    with open_vault(folder) as vault:
        remembered(vault, SEPARATOR)
    change(project, "src/parser.py", '";"', '","')
    edit = {"file_path": str(project / "src/parser.py"), "new_string": "LIMIT = 90"}
    event = json.dumps({"tool_name": "Edit", "tool_input": edit})
    warning = "outdated: src/parser.py#parse_line has changed"
    until(lambda: warning in succeeded(run("hook", "before-tool", stdin=event)).out)
    shown = succeeded(run("experience", "--path", "src/parser.py")).out
    assert "src/parser.py#parse_line has changed" in shown


MANY = "[src/@types/shapes.ts, src/parser.py#Parser.parse_fields, " + "x.py, " * 300 + "y.py]"
"""Citations of a path with ``@`` and of a method, and far more citations than are checked."""


def test_memory_that_only_cites_a_file_is_found_by_its_path(folder: Path, project: Path) -> None:
    """A memory whose header cites code is recalled for its file, though its text has no path."""
    text = "---\ncites: [src/parser.py#parse_line]\n---\n# Separator\n\nFields end with ;.\n"
    write(folder, "separator.md", text)
    with open_vault(folder) as vault:
        for given in ({"path": "src/parser.py"}, {"change": "parse_line(line)"}):
            (found,) = vault.call("recall_memory", **given)["memories"]
            assert (found["title"], found["line"]) == ("Separator", "Fields end with ;.")
        failed = "Traceback: ValueError: parse_line failed in src/parser.py"
        assert vault.call("recall_memory", error=failed)["memories"] == []
        assert vault.call("recall_memory", command="src/parser.py run")["memories"] == []
        write(folder, "separator.md", text.replace("[src/parser.py#parse_line]", MANY))
        for given in ({"path": "src/@types/shapes.ts"}, {"change": "parser.parse_fields(x)"}):
            (found,) = vault.call("recall_memory", **given)["memories"]
            assert found["title"] == "Separator"


def test_memory_about_moved_code_is_found_by_the_new_path(folder: Path, project: Path) -> None:
    """Once a recall has found that code was moved, its memories are found by the new path."""
    allow(folder)
    with open_vault(folder) as vault:
        remembered(vault, SEPARATOR)
        git(project, "mv", "src/parser.py", "src/reader.py")
        assert states(vault) == ["moved"]
        for path in ("src/reader.py", str(project / "src/reader.py")):
            (found,) = vault.call("recall_memory", path=path)["memories"]
            assert (found["title"], found["score"]) == ("Field separator", 1)
            assert found["cites"][0]["movedTo"] == "src/reader.py"
        assert vault.call("memory_remember", title="Limit", content="See LIMIT in src/parser.py")
        (found,) = vault.call("recall_memory", path="src/reader.py")["memories"]
        assert found["title"] == "Field separator"
        assert vault.call("recall_memory", path="other/reader.py")["memories"] == []


def test_many_lines_of_a_large_file_are_cited_in_bounded_time(folder: Path, project: Path) -> None:
    """A long stack trace is remembered in seconds, regardless of the contents of its files."""
    write(project, "src/big.txt", "a b\n" * 240_000)
    text = "\n".join(f"src/big.txt:{number}" for number in range(1, 200))
    started = time.monotonic()
    with open_vault(folder) as vault:
        assert vault.call("memory_remember", title="Trace", content=text)["success"]
    assert time.monotonic() - started < 10
