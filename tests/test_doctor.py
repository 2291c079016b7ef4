"""Doctor finds and fixes each fault, and undo reverts the fix."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import ROOT, Git, Run, child, contents, index_of, sampled, without_rights, write
from memvault import Vault, open_vault
from memvault.call import Call
from memvault.doctor.doctor import CODES, run_checks
from memvault.doctor.inspection import inspect_vault
from memvault.errors import Conflict
from memvault.files.lock import FileLock
from memvault.index.local.index_files import INDEX
from memvault.index.local.transformer_model import TransformerModel
from wrong_vaults import FAULTS, HEADER, MARKS, Fault, examined, files, named, told


@sampled(3)
@pytest.mark.promise("R19")
@pytest.mark.parametrize("fault", FAULTS, ids=named)
def test_doctor_finds_fixes_and_undoes_each_fault(vault: Vault, folder: Path, fault: Fault) -> None:
    """Each fault is reported with code and file, can be fixed, and undo restores exact bytes."""
    for path, data in fault.files.items():
        write(folder, path, data)
    fault.make(folder)
    before = files(folder)
    found = examined(vault)
    assert told(found) == {(fault.code, fault.path)}
    (entry,) = found["findings"]
    assert entry["severity"] == CODES[fault.code].severity
    assert bool(entry["fix"]) == fault.fixed
    assert not entry["message"].endswith(".")
    assert files(folder) == before
    only: dict[str, Any] = {}
    if fault.for_good:
        held = contents(folder)
        assert examined(vault, fix=True)["findings"] == found["findings"]
        assert contents(folder) == held
        assert entry["fix"].endswith(f" with `only={fault.code}`")
        only = {"only": [fault.code]}
    fixed = examined(vault, fix=True, **only)
    assert bool(fixed["fixed"]) == fault.fixed
    assert bool(fixed["findings"]) != fault.fixed
    assert (files(folder) == before) != fault.undone
    again = examined(vault, fix=True, **only)
    assert again["fixed"] == []
    assert again["findings"] == fixed["findings"]
    if fault.undone:
        undone = vault.call("memory_undo", change=fixed["changeId"])
        assert undone["success"], undone
        assert files(folder) == before
        assert told(examined(vault)) == told(found)


def test_doctor_trashes_copy_differing_only_in_modified(vault: Vault, folder: Path) -> None:
    """A conflict copy that differs from its original only in ``modified`` goes to the trash."""
    text = "---\nid: bee\nmodified: 2026-01-0{}\n---\n\nThey sting.\n"
    write(folder, "bee.md", text.format(1))
    write(folder, "bee (Anna's conflicted copy 2026-01-02).md", text.format(2))
    fixed = examined(vault, fix=True)
    assert [entry["code"] for entry in fixed["fixed"]] == ["sync-conflict"]
    assert (folder / "bee.md").exists()
    assert vault.call("trash_list")["total"] == 1


def test_doctor_ignores_false_alarms(vault: Vault, folder: Path) -> None:
    """Links that stay in the vault, nested keys and empty IDs are not reported."""
    texts = "text: |\n  a: 1\n  a: 2\nlist:\n- a: 1\n- a: 2\nsaid: 'x\n\n  y: 1'\n"
    write(folder, "a.md", f"---\nid:\n{texts}---\n\nsaid: 1\nsaid: 2\n")
    write(folder, "b.md", "---\nsupersedes: a\n---\n")
    write(folder, "c.md", "---\nsupersedes: [a, b]\n---\n")
    (folder / "link.md").symlink_to("a.md")
    os.mkfifo(folder / "pipe.txt")
    write(folder, ".memvault/.gitignore", "*\n")
    assert examined(vault)["findings"] == []


def test_doctor_finds_long_supersede_cycles_quickly(vault: Vault, folder: Path) -> None:
    """Each of many long supersede cycles is reported at one of its files."""
    for number in range(300):
        text = f"---\nid: n{number}\nsupersedes: [n{(number + 1) % 300}, n{number ^ 1}]\n---\n"
        write(folder, f"{number}.md", text)
    found = told(examined(vault, only=["supersedes-circle"], limit=1_000))
    assert 1 <= len(found) <= 300


@pytest.mark.promise("R23")
def test_doctor_ignores_numbered_names_with_different_content(vault: Vault, folder: Path) -> None:
    """Chapter and Chapter 2 are reported as a conflict only if their contents nearly match."""
    write(folder, "Chapter.md", "# One\n\nIt was night.\n")
    write(folder, "Chapter 2.md", "# Two\n\nThe sun rose.\n")
    assert examined(vault)["findings"] == []
    lines = "\n".join(f"Line {number}." for number in range(20))
    write(folder, "Long.md", lines)
    write(folder, "Long 2.md", f"{lines}\nOne more.\n")
    assert told(examined(vault)) == {("sync-conflict", "Long 2.md")}


@pytest.mark.promise("R23")
@pytest.mark.parametrize("text", ["", "# \n", "- [ ] \n- [ ] \n", "---\ntags: []\n---\n"])
@pytest.mark.parametrize("name", ["Untitled", "Todo"])
def test_doctor_does_not_treat_nearly_empty_notes_as_copies(
    vault: Vault, folder: Path, name: str, text: str
) -> None:
    """New notes from an editor are not reported as sync copies, though their contents match."""
    for number in ("", " 2", " 3"):
        write(folder, f"{name}{number}.md", text)
    write(folder, "draft.md~", "An editor's own copy.\n")
    assert examined(vault)["findings"] == []


@pytest.mark.promise("R22")
def test_doctor_keeps_shared_id_for_oldest_memory(vault: Vault, folder: Path) -> None:
    """The oldest memory keeps a shared ID; the others get IDs derived from their paths."""
    text = "---\nid: bee\ncreated: 2026-01-0{}\n---\n\nThey sting.\n"
    write(folder, "c.md", text.format(1))
    write(folder, "b.md", text.format(2))
    write(folder, "a.md", text.format(3))
    examined(vault, fix=True)
    first = files(folder)
    assert b"id: bee\n" in first["c.md"]
    assert vault.call("memory_undo")["success"]
    shutil.rmtree(folder / ".memvault")
    examined(vault, fix=True)
    assert files(folder) == first
    assert examined(vault)["findings"] == []


def test_doctor_detects_copy_with_shorter_name(vault: Vault, folder: Path) -> None:
    """A file named after its title keeps its ID; a copy of any name gets a new one."""
    made = vault.call("memory_remember", title="Bees", content="They sting.", memoryType="fact")
    shutil.copy(folder / made["filePath"], folder / "b.md")
    assert told(examined(vault)) == {("id-shared", "b.md")}
    assert examined(vault, fix=True)["findings"] == []
    assert vault.call("memory_show", memId=made["memId"])["filePath"] == made["filePath"]


def test_doctor_resolves_wikilinks_like_obsidian(vault: Vault, folder: Path) -> None:
    """A link may target a file, a path suffix, a title, an alias, a heading or an image."""
    write(
        folder, "notes/deep/Bees.md", "---\ntitle: All about bees\naliases: [Apis]\n---\n\nBuzz.\n"
    )
    write(folder, "pictures/bee.png", b"x")
    write(folder, "templates/bee.md", "[[{{title}}]]\n")
    links = "Bees, bees, deep/Bees, notes/deep/Bees.md, All about bees, Apis, bee.png, Bees#Two"
    shell = "```\nif [[x]]; then\n```\nif [[ -f x ]]; then `[[y]]` [[#here]] [[Bees\\|those]]\n"
    text = " ".join(f"[[{link}|so]] ![[{link}]]" for link in links.split(", "))
    write(folder, "notes/a.md", f"{text} [[./deep/Bees]] [[../pictures/bee.png]]\n{shell}")
    assert examined(vault)["findings"] == []


def test_doctor_resolves_links_to_excluded_files(vault: Vault, folder: Path) -> None:
    """Links to files in Obsidian's attachment and template folders are not broken."""
    write(folder, ".obsidian/app.json", '{"attachmentFolderPath": "assets"}')
    write(folder, ".obsidian/templates.json", '{"folder": "plans"}')
    write(folder, "assets/2026/bee hive.png", b"x")
    write(folder, "plans/Week.md", "# Week\n")
    write(folder, "notes/a.md", "![[bee hive.png]] ![](../assets/2026/bee%20hive.png) [[Week]]\n")
    assert examined(vault)["findings"] == []
    write(folder, "notes/a.md", "![[wasp.png]] ![](../assets/bee%20hive.png) [[Weeks]]\n")
    assert len(examined(vault)["findings"]) == 3


def test_doctor_counts_many_broken_links_of_one_memory(vault: Vault, folder: Path) -> None:
    """If one page has many broken links, a few are listed and the rest are counted."""
    write(folder, "a.md", " ".join(f"[[no {number}]]" for number in range(30)))
    found = examined(vault)["findings"]
    assert len(found) == 6
    assert any("25 more" in entry["message"] for entry in found)


def test_doctor_reports_private_files_tracked_by_git(vault: Vault, folder: Path, git: Git) -> None:
    """Files in ``.memvault`` that git tracks are reported, even in an outer repository."""
    git("", "init", "--quiet")
    vault.call("memory_remember", title="A", content="One.", memoryType="fact")
    git("", "add", "-f", "vault")
    assert examined(vault)["findings"] == []
    assert vault.call("git_init")["success"]
    (entry,) = examined(vault)["findings"]
    assert entry["code"] == "private-in-git"
    assert entry["filePath"].startswith(".memvault/")
    git("", "rm", "-r", "-q", "--cached", "vault/.memvault")
    assert examined(vault)["findings"] == []


@pytest.mark.parametrize("what", ["a.md", "sub"])
def test_doctor_reports_unreadable_files(folder: Path, what: str) -> None:
    """An unreadable file or folder is reported, and the exit code is 1."""
    write(folder, "a.md", "# A\n")
    write(folder, "sub/b.md", "# B\n")
    (folder / what).chmod(0)
    try:
        ran = child(folder, "doctor", "--json", prefix=without_rights())
    finally:
        (folder / what).chmod(0o755)
    assert ran.code == 1, ran.err
    assert told(ran.json) == {("file-unreadable", what)}


def test_doctor_rebuilds_index_with_wrong_text(vault: Vault, folder: Path) -> None:
    """An index whose text differs from the file is reported, even if the times match."""
    import sqlite3

    write(folder, "a.md", "# A\n")
    assert examined(vault)["findings"] == []
    vault.close()
    manifest = sqlite3.connect(index_of(folder) / INDEX / "manifest.db")
    with manifest:
        manifest.execute("UPDATE memories SET etag = 'other', checked = checked + 1000000000000")
    manifest.close()
    with open_vault(folder) as again:
        found = examined(again)
        assert told(found) == {("index-wrong", "a.md")}
        assert found["errors"] == 1
        assert examined(again, fix=True)["findings"] == []


def test_doctor_reports_missing_model(
    vault: Vault, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A configured model that is not on this machine is a warning and is never downloaded."""
    write(folder, "a.md", "# A\n")
    write(folder, "memvault.toml", '[embedder]\nmodel = "BAAI/bge-small-en-v1.5"\n')
    monkeypatch.setenv("MEMVAULT_DEEP", "auto")
    assert told(examined(vault)) == {("model-missing", "")}


def test_doctor_messages_refer_to_tools_for_agents(
    vault: Vault, folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages refer to tools for an agent and to commands for a person."""
    write(folder, "a.md", "# A\n\nBees sting.\n")
    monkeypatch.setenv("MEMVAULT_DEEP", "auto")
    (finding,) = vault.call("vault_doctor")["findings"]
    assert finding["message"].endswith("or `vault_reindex` creates them")
    called = vault.call("call_tool", toolName="vault_doctor")["result"]
    assert called["findings"] == [finding]
    assert "or `memvault reindex` creates them" in run("doctor").out


def test_doctor_leaves_command_like_titles_unchanged(vault: Vault, folder: Path) -> None:
    """A memory's title that looks like a command is shown to an agent unchanged."""
    write(folder, "a.md", "---\nid: a\n---\n\n# Use memvault recall --limit 3\n")
    write(folder, "b.md", "---\nid: b\nsupersedes: c\n---\n\n# Use memvault list --since\n")
    write(folder, "c.md", "---\nid: c\n---\n\n# Old\n")
    (item,) = vault.call("vault_review", kind="outdated")["items"]
    assert "superseded by Use memvault list --since" in item["reason"]


def test_doctor_reports_missing_or_old_transformer_vectors(
    vault: Vault, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memories without deep vectors are a note; vectors of a former model can be removed."""
    write(folder, "a.md", "# A\n\nBees sting.\n")
    monkeypatch.setenv("MEMVAULT_DEEP", "auto")
    assert told(examined(vault)) == {("vectors-missing", "")}
    monkeypatch.setenv("MEMVAULT_DEEP", "now")
    assert vault.call("memory_recall", query="bees")["success"]
    assert examined(vault)["findings"] == []
    deep = TransformerModel(vault._workspace.store, index_of(folder)).folder
    assert deep is not None
    write(deep, "former-0badcafe/card.json", "{}")
    assert told(examined(vault)) == {("vectors-old", "")}
    assert examined(vault, fix=True)["findings"] == []
    assert not (deep / "former-0badcafe").exists()


@pytest.mark.promise("R21")
def test_doctor_does_not_fix_concurrently_changed_file(vault: Vault, folder: Path) -> None:
    """A fix applies only to the inspected bytes; a file changed since then is left as it is."""
    write(folder, "a.md", "---\nmemory_type: Fact\n---\n")
    write(folder, "a (conflicted copy 2026-01-02).md", "---\nmemory_type: Fact\n---\n")
    call = Call(vault._workspace)
    fixes = [finding.fix for _, finding in run_checks(inspect_vault(call)) if finding.fix]
    assert {fix.description for fix in fixes} == {"move it to the trash", "set the type fact"}
    for path in ("a.md", "a (conflicted copy 2026-01-02).md"):
        write(folder, path, "New.\n")
    before = files(folder)
    for fix in fixes:
        with pytest.raises(Conflict):
            fix.apply(call)
    assert files(folder) == before


def test_doctor_reports_unsafe_fix(vault: Vault, folder: Path) -> None:
    """If a header can't be edited safely, the finding remains and a warning explains why."""
    file = write(folder, "a.md", "---\nmemory_type: &a Fact\nx: *a\n---\n")
    found = examined(vault, fix=True)
    assert told(found) == {("type-unknown", "a.md")}
    assert found["fixed"] == []
    assert any("a.md is not fixed" in note for note in found["warnings"])
    assert file.read_text() == "---\nmemory_type: &a Fact\nx: *a\n---\n"


@pytest.mark.parametrize("key", ["date", "Date"])
def test_doctor_accepts_future_date(run: Run, folder: Path, key: str) -> None:
    """The date key may be in the future, for example for an event."""
    write(folder, "a.md", f"---\n{key}: 2999-01-01\n---\n\n# Party\n")
    assert run("doctor", "--only", "time-ahead", "--json").json["findings"] == []


def test_doctor_exit_code_is_1_for_errors(run: Run, folder: Path) -> None:
    """Errors set the exit code, even with call; warnings and fixed findings do not."""
    write(folder, "a.md", HEADER.format("bee", "A."))
    write(folder, "b.md", HEADER.format("bee", "B."))
    ran = run("doctor")
    assert ran.code == 1
    assert "id-shared" in ran.out
    assert run("call", "vault_doctor").code == 1
    found = run("doctor", "--json")
    assert found.code == 1
    assert found.json["success"]
    assert run("doctor", "--only", "time-ahead,link-broken").code == 0
    assert run("doctor", "--fix").code == 0
    write(folder, "c.md", "---\nsupersedes: nothing\n---\n")
    warned = run("doctor")
    assert warned.code == 0
    assert "supersedes-broken" in warned.out


def test_doctor_limit_shows_most_severe_findings(vault: Vault, folder: Path) -> None:
    """With a limit, the most severe findings come first and the rest are counted."""
    for number in range(5):
        write(folder, f"{number}.md", f"[[nothing {number}]]\n")
    write(folder, "bad.md", "---\na: [\n---\n")
    found = examined(vault, limit=2)
    assert found["findings"][0]["code"] == "front-matter-broken"
    assert (len(found["findings"]), found["more"], found["errors"]) == (2, 4, 1)


def test_doctor_escapes_control_characters_in_file_names(run: Run, folder: Path) -> None:
    """A finding escapes control characters in text from the vault and limits its length."""
    write(folder, "\x1b[31m.md", f'---\nsupersedes: "\\e[31m{"x" * 5_000}"\n---\n')
    out = run("doctor").out
    assert "\x1b" not in out
    assert len(out) < 2_000


def test_doctor_over_mcp_hides_outside_paths(vault: Vault, folder: Path) -> None:
    """Over MCP, findings are not a failure and do not show paths outside the vault."""
    from memvault import sanitize
    from memvault.call import Caller
    from memvault.tools.core.invoke import call_result

    write(folder.parent, "memvault.toml", "")
    write(folder, "a.md", "---\na: [\n---\n")
    write(folder, "memvault.toml", f'[embedder]\nmodel = "{folder.parent}/model"\n')
    (folder / "out").symlink_to(folder.parent)
    caller = Caller("main", may_run_programs=False, may_see_paths=False)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("MEMVAULT_DEEP", "auto")
        found = call_result(vault._workspace, "vault_doctor", {}, caller)
    assert found["success"]
    assert {code for code, _ in told(found)} == {
        "front-matter-broken",
        "link-outside",
        "model-missing",
        "vault-inside",
    }
    assert str(folder.parent) not in sanitize.safe_json(found)


def test_doctor_reports_non_utf8_file_names(vault: Vault, folder: Path) -> None:
    """A file whose name is not UTF-8 is checked, reported and fixed like any other."""
    name = os.fsdecode(b"b\xfce.md")
    write(folder, "bee.md", HEADER.format("bee", "A."))
    write(folder, name, HEADER.format("bee", "B. [[gone]]"))
    before = files(folder)
    assert ("link-broken", name) in told(examined(vault))
    fixed = examined(vault, fix=True)
    assert [entry["code"] for entry in fixed["fixed"]] == ["id-shared"]
    assert vault.call("memory_undo")["success"]
    assert files(folder) == before


@pytest.mark.promise("R24")
def test_doctor_reports_nothing_for_healthy_vault(filled: Path, tmp_path: Path) -> None:
    """A vault in use, the sample vault and a new vault with examples have no findings."""
    shutil.copytree(filled, tmp_path / "filled")
    shutil.copytree(ROOT / "sample", tmp_path / "sample")
    write(tmp_path / "sample", "memvault.toml", "version = 1\n")
    assert child(tmp_path, "init", "new", "--examples").code == 0
    for name in ("filled", "sample", "new"):
        with open_vault(tmp_path / name) as vault:
            assert examined(vault)["findings"] == [], name


@pytest.mark.promise("R20")
def test_doctor_without_fix_writes_nothing(filled: Path, tmp_path: Path) -> None:
    """Without --fix, no file in the vault is written, not even in .memvault."""
    root = tmp_path / "vault"
    shutil.copytree(filled, root)
    write(root, "b.md", HEADER.format("m1", "Twin."))

    def state() -> dict[Path, tuple[bytes, int]]:
        return {
            path: (path.read_bytes(), path.stat().st_mtime_ns)
            for path in root.rglob("*")
            if path.is_file()
        }

    with open_vault(root) as vault:
        before = state()
        assert examined(vault)["errors"] == 1
        assert state() == before


def test_doctor_waits_for_writer_before_fix(vault: Vault, folder: Path) -> None:
    """Another process's unfinished move is reported, then completed when doctor checks again."""
    write(folder, "a.md", "# A\n")
    write(folder, ".memvault/.gitignore", "*\n")
    write(folder, ".memvault/moving.json", "{}")
    with FileLock(folder / ".memvault" / "lock"):
        assert told(examined(vault)) == {("move-left", ".memvault/moving.json")}
    assert examined(vault)["findings"] == []


STEMS = ("bee", "Bee", "bee 2", "bee (1)", "bee-2", "wasp", "be\u0301e", "b\u00e9e", "\U0001f41d")
COPIED = (".sync-conflict-20260102-101112-ABCDEFG", " (Anna's conflicted copy 2026-01-02)", "")
FOLDERS = ("", "fact/", "Fact/", "agents/main/goals/", "templates/", "sub/deep/")
NAMES = ("bee", "wasp", "gone", "[[bee]]", "fact/bee.md", "", "x" * 300)

names = st.builds(
    lambda folder, stem, copied: f"{folder}{stem}{copied}.md",
    st.sampled_from(FOLDERS),
    st.sampled_from(STEMS),
    st.sampled_from(COPIED),
)
values = st.one_of(
    st.sampled_from(NAMES),
    st.lists(st.sampled_from(NAMES), max_size=3),
    st.integers(),
    st.none(),
)
keys = st.sampled_from(
    ("id", "title", "memory_type", "created", "modified", "supersedes", "conflict_with", "aliases")
)
types = st.sampled_from(("fact", "Fact", "Design Decision", "poem", "agents", "../x"))
dates = st.sampled_from(("2026-01-01", "2999-01-01", "never", "9999-12-31T23:59:59Z"))


def header(entries: dict[str, object]) -> str:
    """Return a header with JSON values, which are also YAML."""
    import json

    lines = "".join(f"{key}: {json.dumps(value)}\n" for key, value in entries.items())
    return f"---\n{lines}---\n\n"


headers = st.builds(
    lambda entries, kind, made: header(
        {
            **entries,
            **({"memory_type": kind} if kind else {}),
            **({"created": made} if made else {}),
        }
    ),
    st.dictionaries(keys, values, max_size=4),
    st.none() | types,
    st.none() | dates,
)
bodies = st.sampled_from(
    ("", "Same.\n", "Other.\n", f"{MARKS}", "[[bee]] [[gone]] ![[x.png]]\n", "# Title\n\nText.\n")
)
drawn_texts = st.one_of(
    st.builds(lambda head, body: (head + body).encode(), headers, bodies),
    st.builds(lambda head, body: (head + body).encode("utf-16"), headers, bodies),
    st.sampled_from((b"", b"---\na: [\n---\n", bytes(range(8)) * 200, b"T\xfcr", b"---\nid: x\n")),
    st.binary(max_size=60),
)


@pytest.mark.promise("R20")
@given(st.dictionaries(names, drawn_texts, max_size=8))
def test_doctor_handles_any_vault(
    tmp_path_factory: pytest.TempPathFactory, held: dict[str, bytes]
) -> None:
    """Doctor never fails or loses a file, a second --fix changes nothing, and undo restores all."""
    root = tmp_path_factory.mktemp("any")
    write(root, "memvault.toml", "version = 1\n")
    for path, data in held.items():
        write(root, path, data)
    before = files(root)
    with open_vault(root) as vault:
        found = examined(vault, limit=1_000)
        assert files(root) == before
        fixed = examined(vault, fix=True, limit=1_000)
        after = files(root)
        again = examined(vault, fix=True, limit=1_000)
        assert again["fixed"] == []
        assert again["findings"] == fixed["findings"]
        assert files(root) == after
        trashed = vault.call("trash_list")["total"]
        assert len(after) + trashed == len(before)
        assert bool(fixed["fixed"]) == any(entry["fix"] for entry in found["findings"]) or any(
            "is not fixed" in note for note in fixed["warnings"]
        )
        if "changeId" in fixed:
            assert vault.call("memory_undo", change=fixed["changeId"])["success"]
        assert files(root) == before


def test_doctor_reports_the_current_content_of_checked_files(
    vault: Vault, folder: Path, tmp_path: Path
) -> None:
    """Results of an earlier run are used only for the same bytes, path, links and settings."""
    secret = "ghp_" + "a1B2c3D4e5F6" * 3
    write(folder, "bee.md", "Bees sting.\n")
    write(folder, "wasp.md", "They sting like a [[bee]] and a [[hornet]].\n")
    link = ("link-broken", "wasp.md")
    assert told(examined(vault)) == told(examined(vault)) == {link}
    write(folder, "bee.md", f"Bees sting. {secret}\n")
    found = {link, ("secret-in-text", "bee.md")}
    assert told(examined(vault)) == told(examined(vault)) == found
    write(folder, "hornet.md", "They sting.\n")
    assert told(examined(vault)) == found - {link}
    write(folder, "memvault.toml", '[secrets]\non_write = "off"\n')
    assert told(examined(vault)) == set()
    write(folder, "memvault.toml", "")
    (remembered,) = tmp_path.rglob("indexes/*/doctor")
    remembered.write_bytes(remembered.read_bytes()[:-1] + b"]")
    assert told(examined(vault)) == found - {link}
    (folder / "hornet.md").unlink()
    write(folder, "bee.md", "Bees sting.\n")
    assert told(examined(vault)) == {link}


@pytest.mark.promise("R33")
def test_doctor_concurrent_change_is_not_an_index_fault(vault: Vault, folder: Path) -> None:
    """While files are saved repeatedly, the index is not reported as wrong or rebuilt."""
    saved = [write(folder, f"{number}.md", "0\n") for number in range(20)]
    over = threading.Event()

    def save() -> None:
        number = 0
        while not over.is_set():
            number += 1
            write(folder, ".saved", f"{number}\n").replace(saved[number % len(saved)])

    saving = threading.Thread(target=save)
    saving.start()
    try:
        for _ in range(8):
            assert told(examined(vault)) == set()
    finally:
        over.set()
        saving.join()
