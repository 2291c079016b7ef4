"""Doctor finds each fault, fixes what it names, and undo reverts that."""

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
from memvault.vault.markdown import has_conflict_markers
from wrong_vaults import FAULTS, HEADER, MARKS, Fault, examined, files, named, told


@sampled(3)
@pytest.mark.promise("R19")
@pytest.mark.parametrize("fault", FAULTS, ids=named)
def test_each_fault_is_found_fixed_and_undone(vault: Vault, folder: Path, fault: Fault) -> None:
    """A fault is reported by code and file; a fix ends it, and undo restores the exact bytes."""
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


def test_what_says_the_same_but_for_its_time_is_a_copy(vault: Vault, folder: Path) -> None:
    """A kept copy that differs from its original in ``modified`` alone goes to the trash."""
    text = "---\nid: bee\nmodified: 2026-01-0{}\n---\n\nThey sting.\n"
    write(folder, "bee.md", text.format(1))
    write(folder, "bee (Anna's conflicted copy 2026-01-02).md", text.format(2))
    fixed = examined(vault, fix=True)
    assert [entry["code"] for entry in fixed["fixed"]] == ["sync-conflict"]
    assert (folder / "bee.md").exists()
    assert vault.call("trash_list")["total"] == 1


def test_what_looks_like_a_fault_and_is_none(vault: Vault, folder: Path) -> None:
    """Links that stay in the vault, nested keys and ids left empty are fine."""
    texts = "text: |\n  a: 1\n  a: 2\nlist:\n- a: 1\n- a: 2\nsaid: 'x\n\n  y: 1'\n"
    write(folder, "a.md", f"---\nid:\n{texts}---\n\nsaid: 1\nsaid: 2\n")
    write(folder, "b.md", "---\nsupersedes: a\n---\n")
    write(folder, "c.md", "---\nsupersedes: [a, b]\n---\n")
    (folder / "link.md").symlink_to("a.md")
    os.mkfifo(folder / "pipe.txt")
    write(folder, ".memvault/.gitignore", "*\n")
    assert examined(vault)["findings"] == []


def test_long_circles_of_replacements_take_no_time(vault: Vault, folder: Path) -> None:
    """Each circle, of any length and among any number, is reported at one of its files."""
    for number in range(300):
        text = f"---\nid: n{number}\nsupersedes: [n{(number + 1) % 300}, n{number ^ 1}]\n---\n"
        write(folder, f"{number}.md", text)
    found = told(examined(vault, only=["supersedes-circle"], limit=1_000))
    assert 1 <= len(found) <= 300


@pytest.mark.promise("R23")
def test_a_number_behind_a_name_alone_is_no_conflict(vault: Vault, folder: Path) -> None:
    """Two memories that are called Chapter and Chapter 2 are two, unless they say the same."""
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
def test_almost_empty_notes_are_no_copies(vault: Vault, folder: Path, name: str, text: str) -> None:
    """What an editor calls new notes is no copy of a sync, though all say the same nothing."""
    for number in ("", " 2", " 3"):
        write(folder, f"{name}{number}.md", text)
    write(folder, "draft.md~", "An editor's own copy.\n")
    assert examined(vault)["findings"] == []


@pytest.mark.promise("R22")
def test_the_oldest_of_one_id_keeps_it_on_every_machine(vault: Vault, folder: Path) -> None:
    """The oldest memory of an id keeps it; the others get ids derived from their paths."""
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


def test_a_copy_with_a_short_name_is_still_the_copy(vault: Vault, folder: Path) -> None:
    """What is called like its title keeps its id beside a copy of any name."""
    made = vault.call("memory_remember", title="Bees", content="They sting.", memoryType="fact")
    shutil.copy(folder / made["filePath"], folder / "b.md")
    assert told(examined(vault)) == {("id-shared", "b.md")}
    assert examined(vault, fix=True)["findings"] == []
    assert vault.call("memory_show", memId=made["memId"])["filePath"] == made["filePath"]


def test_wikilinks_lead_where_obsidian_leads(vault: Vault, folder: Path) -> None:
    """A link may name a file, the end of a path, a title, an alias, a heading or a picture."""
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


def test_many_broken_links_of_one_memory_are_counted(vault: Vault, folder: Path) -> None:
    """Of a page's many broken links a few are listed, and the rest are counted."""
    write(folder, "a.md", " ".join(f"[[no {number}]]" for number in range(30)))
    found = examined(vault)["findings"]
    assert len(found) == 6
    assert any("25 more" in entry["message"] for entry in found)


def test_doctor_reports_private_files_tracked_by_git(vault: Vault, folder: Path, git: Git) -> None:
    """Files of ``.memvault`` in git are reported once git may run, also in an outer repository."""
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
def test_what_may_not_be_read_is_found(folder: Path, what: str) -> None:
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


def test_an_index_that_says_otherwise_is_made_anew(vault: Vault, folder: Path) -> None:
    """An index with another text than the file is reported, even if the times are right."""
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


def test_missing_model_is_reported(
    vault: Vault, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that the settings name and this machine does not have is a warning, never fetched."""
    write(folder, "a.md", "# A\n")
    write(folder, "memvault.toml", '[embedder]\nmodel = "BAAI/bge-small-en-v1.5"\n')
    monkeypatch.setenv("MEMVAULT_DEEP", "auto")
    assert told(examined(vault)) == {("model-missing", "")}


def test_findings_name_tools_to_an_agent(
    vault: Vault, folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages within a result name tools to an agent and commands to a person."""
    write(folder, "a.md", "# A\n\nBees sting.\n")
    monkeypatch.setenv("MEMVAULT_DEEP", "auto")
    (finding,) = vault.call("vault_doctor")["findings"]
    assert finding["message"].endswith("or `vault_reindex` creates them")
    called = vault.call("call_tool", toolName="vault_doctor")["result"]
    assert called["findings"] == [finding]
    assert "or `memvault reindex` creates them" in run("doctor").out


def test_titles_in_findings_are_not_reworded(vault: Vault, folder: Path) -> None:
    """A memory's title that looks like a command is shown to an agent as it is."""
    write(folder, "a.md", "---\nid: a\n---\n\n# Use memvault recall --limit 3\n")
    write(folder, "b.md", "---\nid: b\nsupersedes: c\n---\n\n# Use memvault list --since\n")
    write(folder, "c.md", "---\nid: c\n---\n\n# Old\n")
    (item,) = vault.call("vault_review", kind="outdated")["items"]
    assert "superseded by Use memvault list --since" in item["reason"]


def test_missing_or_old_deep_vectors_are_reported(
    vault: Vault, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memories without vectors of the transformer are a note; vectors of a former model can go."""
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
def test_concurrently_changed_file_is_not_fixed(vault: Vault, folder: Path) -> None:
    """A fix is for the bytes that were inspected; a file that was changed since stays."""
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


def test_a_fix_that_cannot_be_made_stays_a_finding(vault: Vault, folder: Path) -> None:
    """Where a header cannot be edited safely the finding stands, and a warning says why."""
    file = write(folder, "a.md", "---\nmemory_type: &a Fact\nx: *a\n---\n")
    found = examined(vault, fix=True)
    assert told(found) == {("type-unknown", "a.md")}
    assert found["fixed"] == []
    assert any("a.md is not fixed" in note for note in found["warnings"])
    assert file.read_text() == "---\nmemory_type: &a Fact\nx: *a\n---\n"


@pytest.mark.parametrize("key", ["date", "Date"])
def test_note_may_be_about_a_future_day(run: Run, folder: Path, key: str) -> None:
    """The key date may be in the future, as that of an event is."""
    write(folder, "a.md", f"---\n{key}: 2999-01-01\n---\n\n# Party\n")
    assert run("doctor", "--only", "time-ahead", "--json").json["findings"] == []


def test_the_command_ends_with_1_where_an_error_stands(run: Run, folder: Path) -> None:
    """Errors decide the exit code, of call too; warnings do not, nor what was fixed."""
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


def test_a_long_list_is_cut_and_says_so(vault: Vault, folder: Path) -> None:
    """With a limit the most severe findings come first, and the rest are counted."""
    for number in range(5):
        write(folder, f"{number}.md", f"[[nothing {number}]]\n")
    write(folder, "bad.md", "---\na: [\n---\n")
    found = examined(vault, limit=2)
    assert found["findings"][0]["code"] == "front-matter-broken"
    assert (len(found["findings"]), found["more"], found["errors"]) == (2, 4, 1)


def test_names_of_a_strangers_files_steer_no_terminal(run: Run, folder: Path) -> None:
    """A finding shows what a vault says as signs, and at no great length."""
    write(folder, "\x1b[31m.md", f'---\nsupersedes: "\\e[31m{"x" * 5_000}"\n---\n')
    out = run("doctor").out
    assert "\x1b" not in out
    assert len(out) < 2_000


def test_a_remote_caller_gets_no_path_of_the_machine(vault: Vault, folder: Path) -> None:
    """Over MCP findings are no failure, and none names a folder outside of the vault."""
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


def test_names_that_are_not_utf8_are_reported(vault: Vault, folder: Path) -> None:
    """A file whose name is not UTF-8 is checked, reported and fixed like others."""
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
def test_a_vault_that_is_well_has_no_findings(filled: Path, tmp_path: Path) -> None:
    """Neither a vault in use, nor the sample, nor a new one with its examples is complained of."""
    shutil.copytree(filled, tmp_path / "filled")
    shutil.copytree(ROOT / "sample", tmp_path / "sample")
    write(tmp_path / "sample", "memvault.toml", "version = 1\n")
    assert child(tmp_path, "init", "new", "--examples").code == 0
    for name in ("filled", "sample", "new"):
        with open_vault(tmp_path / name) as vault:
            assert examined(vault)["findings"] == [], name


@pytest.mark.promise("R20")
def test_looking_changes_nothing(filled: Path, tmp_path: Path) -> None:
    """Without --fix no file of the vault is written, in .memvault neither."""
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


def test_a_fix_waits_for_who_writes(vault: Vault, folder: Path) -> None:
    """An unfinished move of another process is reported, and done when doctor checks again."""
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
    """Return a header with JSON values, which are YAML too."""
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
def test_whatever_a_vault_holds(
    tmp_path_factory: pytest.TempPathFactory, held: dict[str, bytes]
) -> None:
    """Doctor never fails, a second --fix changes nothing, no file is lost, undo gives all back."""
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


@given(st.text(alphabet="<>=| \nab`", max_size=200))
def test_marks_are_looked_for_in_any_text(text: str) -> None:
    """Whatever stands between marks, a text without one of the three is in no conflict."""
    if has_conflict_markers(text):
        assert all(mark in text for mark in ("<<<<<<<", "=======", ">>>>>>>"))


@pytest.mark.promise("R33")
def test_concurrent_change_is_not_an_index_fault(vault: Vault, folder: Path) -> None:
    """While files are saved again and again the index is not taken for wrong, and not made anew."""
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
