"""Names of files, ids, paths inside the vault, and what init adds to a folder."""

from __future__ import annotations

import os
import re
import subprocess
import unicodedata
from pathlib import Path

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from conftest import Run, sampled, write
from memvault import Vault, open_vault
from memvault.errors import MemvaultError, Refused, UsageError
from memvault.model import RESERVED_FOLDERS
from memvault.settings.exclusions import Exclusions
from memvault.vault import naming, paths

ANY = st.text(st.characters(), max_size=40)
PATHS = st.lists(
    st.sampled_from(
        ["..", ".", "", "a", "notes", "b.md", "link", "/", "//", "\\", "~", "C:", "é", "..."]
    ),
    max_size=8,
).map("/".join)


@given(ANY)
@example("❤️")
@example("İstanbul")
@example("com¹")
@example("e\u0301te\u0301")
@example("字" * 200)
def test_slug_is_a_safe_file_name(title: str) -> None:
    """Any title gives a short, visible file name that every system can store."""
    slug = naming.slug(title)
    assert 1 <= len(slug.encode()) <= 128
    assert {unicodedata.category(char)[0] for char in slug} & set("LN"), "nothing in it is seen"
    assert all(char == "-" or unicodedata.category(char)[0] in "LMN" for char in slug)
    assert not slug.startswith("-")
    assert not slug.endswith("-")
    assert "--" not in slug
    assert not re.fullmatch(r"con|prn|aux|nul|(com|lpt)[1-9]", slug)
    assert not Path(slug).is_absolute()


@given(ANY)
@example("İ")
@example("ΑΣ")
@example("é" * 200)
@example("A" * 119 + " b")
def test_slug_is_idempotent(title: str) -> None:
    """A file name made from a title is unchanged when it is used as a title."""
    slug = naming.slug(title)
    assert naming.slug(slug) == slug


@given(ANY)
@example(".hidden")
@example("con")
@example("a/b: c?")
@example("x" * 300)
@example(" ")
def test_title_becomes_file_name_if_possible(title: str) -> None:
    """A file named like its memory is visible, valid on every system, and can be linked to."""
    name = naming.file_name(title)
    assert paths.is_memory_path(f"{name}.md")
    assert not set('\\/:*?"<>|#^[]\n\0') & set(name)
    assert 1 <= len(name.encode()) <= 128
    assert name in (title, naming.slug(title))


@given(st.text(st.characters(categories=("Ll", "Lo", "Nd"), codec="utf-8"), min_size=1, max_size=9))
@example("日本語のタイトル")
@example("हिन्दी")
@example("über")
def test_file_name_keeps_letters_of_every_script(word: str) -> None:
    """A title in any language keeps its letters in the file name."""
    assume(not re.fullmatch(r"con|prn|aux|nul|(com|lpt)[1-9]", word))
    wanted = unicodedata.normalize("NFC", unicodedata.normalize("NFC", word).lower())
    assert naming.slug(word) == wanted


@given(st.lists(st.from_regex(r"[a-z]{1,9}", fullmatch=True), min_size=1, max_size=40))
def test_long_slug_is_cut_between_words(words: list[str]) -> None:
    """A long title's name ends with a whole word."""
    slug = naming.slug(" ".join(words))
    cut = slug.removesuffix("-memory").split("-")
    assert cut == words[: len(cut)]


@pytest.mark.parametrize("name", ["CON", "nul", "Aux", "com1", "LPT9", "prn.", " con "])
def test_file_name_avoids_windows_reserved_names(name: str) -> None:
    """A vault written on Linux can be checked out on Windows."""
    assert naming.slug(name) == f"{name.strip(' .').lower()}-memory"


@given(ANY)
@example("हिन्दी")
@example("-rf /")
def test_mem_id_is_shell_safe_and_starts_with_slug(name: str) -> None:
    """A memId never needs quoting and starts with the slug of the name."""
    path = name.replace("/", "_").replace("\0", "") + "x.md"
    for found, named in ((naming.new_id(name), name), (naming.derived_id(path), path[:-3])):
        assert naming.is_mem_id(found), found
        assert found.startswith(naming.slug(named, 40))
        assert len(found.encode()) <= 60
        assert not re.search(r"[\s\"'`$&|;<>(){}*?!\\/~#=,]", found)
    assert naming.derived_id(path) == naming.derived_id(path)
    assert naming.new_id(name) != naming.new_id(name)


def test_mem_ids_of_different_files_differ() -> None:
    """Two files with the same title have different memIds."""
    assert len({naming.derived_id(f"{number}/a.md") for number in range(2_000)}) == 2_000


@pytest.mark.parametrize(
    ("given_name", "wanted"),
    [
        ("design-decision", "design-decision"),
        ("Design Decision", "design-decision"),
        ("designDecision", "design-decision"),
        ("DESIGN_DECISION", "design-decision"),
        ("  fact ", "fact"),
        ("a--b", "a-b"),
        ("Überblick", "überblick"),
        ("設計", "設計"),
        ("निर्णय", "निर्णय"),
        ("การตัดสินใจ", "การตัดสินใจ"),
        ("de\u0301cision", "d\u00e9cision"),
        ("adr2", "adr2"),
    ],
)
def test_types_are_kebab_case(given_name: str, wanted: str) -> None:
    """Every spelling of a type, in any language, maps to one name and one folder."""
    assert naming.normal_type(given_name) == wanted


@given(ANY)
@example("../x")
@example("a/b")
@example(".git")
@example("con")
@example("agents")
@example("x" * 61)
def test_invalid_type_is_refused(name: str) -> None:
    """No type leads out of the vault, into a reserved folder, or to an unusable name."""
    try:
        kind = naming.normal_type(name)
    except UsageError as error:
        assert str(error)  # noqa: PT017  # either outcome is right
        return
    assert naming.normal_type(kind) == kind
    assert kind not in RESERVED_FOLDERS
    assert not kind.startswith(".")
    assert Path(kind).name == kind


@pytest.fixture
def linked(folder: Path) -> Path:
    """A vault with links to a folder, a file and nothing outside, and a circular link."""
    outside = folder.parent / "outside"
    write(outside, "secret.md", "# Secret\n\nperiwinkle\n")
    write(folder, "notes/a.md", "# A\n\ninside\n")
    (folder / "link").symlink_to(outside)
    (folder / "notes/secret.md").symlink_to(outside / "secret.md")
    (folder / "notes/gone.md").symlink_to(folder.parent / "nowhere.md")
    (folder / "notes/loop.md").symlink_to("loop.md")
    (folder / "inner").symlink_to("notes")
    return folder


@given(PATHS)
def test_path_outside_vault_is_refused(linked: Path, path: str) -> None:
    """No path argument can refer to a file outside the vault."""
    try:
        found = paths.resolve_inside(linked, path)
    except MemvaultError:
        return
    assert ".." not in found.split("/")
    assert not Path(found).is_absolute()
    assert Path(os.path.realpath(linked / path)) == linked / found


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "../outside/secret.md",
        "notes/../../outside/secret.md",
        "/etc/passwd",
        "link/secret.md",
        "link",
        "notes/secret.md",
        "notes/gone.md",
        "a\0b",
        "",
        " ",
    ],
)
def test_paths_outside_vault_are_refused(linked: Path, path: str) -> None:
    """Dots, absolute paths, symlinks and NUL never reach a file outside the vault."""
    with pytest.raises((Refused, UsageError)):
        paths.resolve_inside(linked, path)
    with open_vault(linked) as opened:
        for tool, arguments in (
            ("memory_show", {"memId": path}),
            ("memory_remember", {"title": "T", "content": "x", "memoryType": "", "filePath": path}),
            ("memory_restore", {"memId": path or "none"}),
        ):
            result = opened.call(tool, **arguments)
            if path.strip() or tool == "memory_show":
                assert result["success"] is False, (tool, result)
                assert "periwinkle" not in str(result)


def test_paths_inside_vault_are_resolved(linked: Path) -> None:
    """Dots and symlinks that stay inside the vault resolve to the right file."""
    assert paths.resolve_inside(linked, "notes/a.md") == "notes/a.md"
    assert paths.resolve_inside(linked, "./notes//a.md") == "notes/a.md"
    assert paths.resolve_inside(linked, "x/../notes/a.md") == "notes/a.md"
    assert paths.resolve_inside(linked, "inner/a.md") == "notes/a.md"
    assert paths.resolve_inside(linked, str(linked / "notes/a.md")) == "notes/a.md"
    assert paths.resolve_inside(linked, "new/folder/b.md") == "new/folder/b.md"


@pytest.mark.parametrize(
    ("path", "patterns", "ignored"),
    [
        ("drafts/a.md", ["drafts"], True),
        ("drafts/a.md", ["drafts/"], True),
        ("drafts/a.md", ["./drafts"], True),
        ("drafts/deep/a.md", ["drafts/**"], True),
        ("notes/drafts/a.md", ["drafts"], False),
        ("notes/drafts/a.md", ["*/drafts"], True),
        ("drafts/a.md", ["**/drafts/**"], True),
        ("notes/drafts/deep/a.md", ["**/drafts/**"], True),
        ("draftsy/a.md", ["**/drafts/**"], False),
        ("a.tmp.md", ["**/*.tmp.md"], True),
        ("README.md", ["README.md"], True),
        ("notes/README.md", ["README.md"], False),
        ("a.excalidraw.md", ["*.excalidraw.md"], True),
        ("notes/a.excalidraw.md", ["*.excalidraw.md"], True),
        ("draftsy/a.md", ["drafts"], False),
        ("a.md", ["", " ", "/"], False),
        ("a(b.md", ["a(b.md", "[", "***"], True),
    ],
)
def test_ignore_patterns_exclude_only_matching_files(
    folder: Path, path: str, patterns: list[str], ignored: bool
) -> None:
    """Files that match an ignore pattern in memvault.toml are not memories; all others are."""
    write(folder, path, "# Here\n")
    write(folder, "other.md", "# Other\n")
    write(folder, "memvault.toml", f"version = 1\nignore = {patterns!r}\n")
    with open_vault(folder) as opened:
        found = {entry["filePath"] for entry in opened.call("memory_list")["memories"]}
    assert (path in found) is not ignored
    assert ("other.md" in found) is not Exclusions(folder, tuple(patterns)).covers("other.md")


@pytest.mark.parametrize("kind", ["drafts", "agents", "templates", "tools", "spaces"])
def test_memory_is_not_written_to_ignored_folder(folder: Path, kind: str) -> None:
    """A memory is never written to a folder that recall does not read."""
    write(folder, "memvault.toml", 'version = 1\nignore = ["drafts"]\n')
    write(folder, "context/a.md", "# A\n\ntext\n")
    with open_vault(folder) as opened:
        made = opened.call("memory_remember", title="B", content="x", memoryType=kind)
        moved = opened.call("memory_compound", query="A", modifications="x", memoryType=kind)
        assert made["success"] is False
        assert moved["success"] is False
        assert opened.call("memory_list")["total"] == 1


def test_reserved_and_dot_folders_contain_no_memories(folder: Path, vault: Vault) -> None:
    """Files in agents, spaces, tools, templates and dot folders are not memories."""
    for name in ("agents", "spaces", "tools", "templates", ".obsidian", "notes/.trash"):
        write(folder, f"{name}/a.md", "# No\n")
    write(folder, "notes/.hidden.md", "# No\n")
    write(folder, "notes/tools/a.md", "# Yes\n")
    write(folder, "notes/b.MD", "# Also\n")
    write(folder, "notes/c.markdown", "# No\n")
    found = vault.call("memory_list")["memories"]
    assert {entry["filePath"] for entry in found} == {"notes/tools/a.md", "notes/b.MD"}


def test_type_change_moves_file_from_root(vault: Vault, folder: Path) -> None:
    """Changing a type moves a file to its folder, except from a folder that the user chose."""
    for path, after in (("p.md", "learning/p.md"), ("notes/q.md", "notes/q.md")):
        write(folder, path, "text\n")
        changed = vault.call(
            "memory_compound", query=path, modifications="x", memoryType="learning"
        )
        assert changed["filePath"] == after
        assert (folder / after).is_file()


@pytest.mark.parametrize("tool", ["memory_compound", "memory_remember"])
def test_type_change_is_refused_if_a_link_cannot_be_updated(
    vault: Vault, folder: Path, tool: str
) -> None:
    """A memory moves only if every memory that links to its path can be updated."""
    conflict = "<<<<<<< ours\na\n=======\nb\n>>>>>>> theirs\n"
    write(folder, "issue/a.md", "---\nid: a\n---\n\n# A\n")
    write(folder, "b.md", "---\nid: b\n---\n\n# B\n\n[a](issue/a.md)\n")
    write(folder, "c.md", f"---\nid: c\n---\n\n# C\n\n[a](issue/a.md)\n\n{conflict}")
    before = {file: file.read_bytes() for file in folder.rglob("*.md")}
    given = {
        "memory_compound": {"query": "a", "modifications": "x"},
        "memory_remember": {"title": "A", "content": "x", "filePath": "a"},
    }[tool]
    failed = vault.call(tool, **given, memoryType="learning")
    assert (failed["success"], failed["error"]["code"]) == (False, "refused")
    assert failed["error"]["message"].startswith("c.md: ")
    assert {file: file.read_bytes() for file in folder.rglob("*.md")} == before
    write(folder, "c.md", "---\nid: c\n---\n\n# C\n\n[a](issue/a.md)\n")
    assert vault.call(tool, **given, memoryType="learning")["filePath"] == "learning/a.md"
    for name in ("b.md", "c.md"):
        assert "[a](learning/a.md)" in (folder / name).read_text("utf-8")


def nested(folder: Path, levels: int) -> None:
    """Create nested folders deeper than a path allows, with memories along the way."""
    folder.mkdir(parents=True, exist_ok=True)
    here = os.open(folder, os.O_RDONLY)
    for level in range(levels):
        if level in (5, levels - 1):
            file = os.open("deep.md", os.O_CREAT | os.O_WRONLY, dir_fd=here)
            os.write(file, b"# Deep\n\nwombat\n")
            os.close(file)
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)


WALKING = (
    "status status_--json doctor reindex recall_wombat trash_list tools_list inbox_peek git_status"
).split()
"""Commands that list folders, with ``_`` for a space."""
MORE = (
    "doctor_--fix list context git_init git_sync links_A rename_A_B_--confirm_true orphans tags "
    "tools_trust_t_--yes space_enter_x compound_B_more forget_zzz undo trash_empty_--confirm_true"
).split()
"""Commands that list folders with memories, or use one memory."""


@sampled(5)
@pytest.mark.skipif(os.mkdir not in os.supports_dir_fd, reason="needs mkdir with dir_fd")
@pytest.mark.parametrize(
    "place",
    [
        *("notes", "tools", ".memvault/index", ".memvault/agents/main/popped"),
        ".memvault/trash/20260101T000000.000Z-aaaaaaaaaa",
    ],
)
@pytest.mark.promise("S55")
def test_commands_work_with_deeply_nested_folders(folder: Path, run: Run, place: str) -> None:
    """No command crashes on 3,000 nested folders anywhere in a vault."""
    write(folder, "a.md", "# A\n\nzebra\n")
    write(folder, "tools/t.md", "---\ndescription: x\ncommand: [sh, x.sh]\n---\n")
    nested(folder / place, 3_000)
    try:
        said = {}
        for line in (*WALKING, *(MORE if place == "notes" else ["tools_trust_t_--yes"])):
            said[line] = run(*line.split("_"))
            assert said[line].code in (0, 1), (line, said[line])
        if place == "notes":
            reason = "nested so deep that its path exceeds the system's limit"
            (problem,) = said["status_--json"].json["problems"]
            assert problem["filePath"].startswith("notes/d/d/d")
            assert len(problem["filePath"]) < 150
            assert reason in problem["problem"]
            assert reason in said["doctor"].out
            assert reason in said["reindex"].err
            assert "d/deep.md" in said["recall_wombat"].out
    finally:
        subprocess.run(["rm", "-rf", folder / place], check=True)
    assert not (folder / place).exists()


def test_short_prefix_is_not_a_memory_id(vault: Vault, folder: Path) -> None:
    """A memId prefix is treated as search words, unless it contains the whole slug."""
    write(folder, "fact/deploy-notes.md", "# Deploy notes\n\nBlue and green.\n")
    write(folder, "fact/design.md", "# Design\n\nDeep water.\n")
    refused = vault.call("memory_compound", query="d", modifications="oops")
    assert refused["success"] is False
    assert vault.call("memory_forget", query="de")["candidates"] == []
    assert vault.call("memory_compound", query="deploy-notes", modifications="Red.")["success"]


def test_compound_refuses_weak_single_word_match(vault: Vault, folder: Path) -> None:
    """A word that only occurs in the body is not enough to select the memory to change."""
    write(folder, "codes.md", "# Emoji codes\n\nbread, milk, honey\n")
    assert vault.call("memory_compound", query="bread", modifications="x")["success"] is False
    assert vault.call("memory_compound", query="emoji", modifications="x")["success"] is True


def test_restore_refuses_ambiguous_revision(vault: Vault) -> None:
    """A prefix shared by several revisions restores none of them."""
    made = vault.call("memory_remember", title="A", content="one", memoryType="fact")
    for text in ("two", "three"):
        assert vault.call("memory_compound", query="A", modifications=text)["success"]
    refused = vault.call("memory_restore", memId=made["memId"], revision="2")
    assert refused["error"]["code"] == "ambiguous"
    assert len(refused["revisions"]) == 2


def test_forget_ignores_year_in_date_query(folder: Path, vault: Vault) -> None:
    """Words such as "what happened in" do not match every memory of the year."""
    write(folder, "a.md", "# Invoice\n\nPaid in 2023.\n")
    result = vault.call("memory_forget", query="what happened in May 2023")
    assert result.get("candidates", []) == []


def _bytes(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        path.relative_to(folder).as_posix(): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_init_fills_empty_folder_once(tmp_path: Path, run: Run) -> None:
    """A new or empty folder becomes a complete vault; a second init changes nothing."""
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


def test_init_keeps_existing_files(tmp_path: Path, run: Run) -> None:
    """In a folder with files, init adds only memvault.toml; file contents and times are kept."""
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


def test_init_bare_creates_one_file(tmp_path: Path, run: Run) -> None:
    """With --bare, an empty folder gets only its settings file."""
    assert run("init", "bare", "--bare", cwd=tmp_path).code == 0
    assert [*_bytes(tmp_path / "bare")] == ["memvault.toml"]
    write(tmp_path, "file", "x")
    ran = run("init", "file", cwd=tmp_path)
    assert (ran.code, ran.out) == (2, "")


def test_examples_are_listed_but_never_recalled(tmp_path: Path, run: Run) -> None:
    """Examples from init --examples are listed and marked, but no query or context has them."""
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


def test_procedure_replaces_example_of_same_name(tmp_path: Path, run: Run) -> None:
    """Storing under an example's name replaces the example, so that it is recalled."""
    root = tmp_path / "made"
    assert run("init", "--examples", "made", cwd=tmp_path).code == 0
    name = "Review a vault once a month"
    stored = run("procedure", "store", name, "Look at each.", "--json", cwd=root).json
    assert stored["isUpdate"]
    found = run("procedure", "recall", name, "--min-success-rate", "0", "--json", cwd=root).json
    assert [entry["name"] for entry in found["procedures"]] == [name]


def test_init_examples_need_an_empty_folder(tmp_path: Path, run: Run) -> None:
    """With existing files, or with --bare, --examples is refused and no file is written."""
    write(tmp_path, "site/a.md", "# A\n")
    for arguments in (["site", "--examples"], ["new", "--examples", "--bare"]):
        ran = run("init", *arguments, cwd=tmp_path)
        assert (ran.code, ran.out) == (2, "")
    assert "site/a.md" in _bytes(tmp_path)
    assert not [*tmp_path.glob("new/*"), *tmp_path.glob("site/*.toml")]
