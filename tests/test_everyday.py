"""Names, links and tags of memories can be changed without breaking references."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from conftest import Run, called, contents, note_texts, refused, succeeded, vault_files, write
from memvault import Vault, open_vault
from memvault.errors import UsageError
from memvault.memories.tagging import is_under, parse_new_tags
from memvault.model import FileState
from memvault.vault.document import encode_new
from memvault.vault.memory_file import read_memory

PLAN = "---\nid: plan-7k2m9q\ntitle: The plan\naliases: [The plan]\n---\n\n# Steps\n\nBegin.\n"
LINKING = """---
id: notes-1a2b3c
supersedes: "[[the-plan]]"
---

See [[The plan]], [[the-plan|what we do]], [[ideas/the-plan#Steps]] and ![[the-plan#^a1]].
Also [the plan](../ideas/the-plan.md#steps "So") and [[plan-7k2m9q]].
`[[the-plan]]` is code, [[Other]] is another.

```
[[The plan]]
```
"""


@pytest.fixture
def planned(folder: Path) -> Path:
    """A vault with a plan, and a memory that links to it in every way."""
    write(folder, "ideas/the-plan.md", PLAN)
    write(folder, "log/notes.md", LINKING)
    write(folder, "log/other.md", "---\ntitle: Other\n---\n\nNothing.\n")
    return folder


def test_rename_preserves_link_style(planned: Path, vault: Vault) -> None:
    """Links by title and by file name are updated in their own form; code is unchanged."""
    shown = called(vault, "memory_rename", memId="The plan", title="Road map")
    assert shown["confirmRequired"]
    assert shown["rewritten"] == [{"memId": "notes-1a2b3c", "filePath": "log/notes.md", "links": 6}]
    before = note_texts(planned)
    done = called(
        vault, "memory_rename", memId="The plan", title="Road map", confirm=shown["confirmToken"]
    )
    assert (done["memId"], done["filePath"]) == ("plan-7k2m9q", "ideas/road-map.md")
    now = note_texts(planned)
    changed = LINKING.replace('"[[the-plan]]"', '"[[road-map]]"')
    changed = changed.replace("See [[The plan]]", "See [[Road map]]")
    changed = changed.replace("[[the-plan|", "[[road-map|").replace(
        "ideas/the-plan", "ideas/road-map"
    )
    assert now["log/notes.md"] == changed.replace("![[the-plan#^a1]]", "![[road-map#^a1]]")
    assert "title: Road map" in now["ideas/road-map.md"]
    assert "# Steps" in now["ideas/road-map.md"]
    assert vault.call("vault_doctor", only=["link-broken", "supersedes-broken"])["findings"] == []
    called(vault, "memory_undo")
    assert note_texts(planned) == before


def test_move_rewrites_only_links_by_path(planned: Path, vault: Vault) -> None:
    """A move updates links by path, including those in the moved note; links by name stay."""
    write(planned, "ideas/the-plan.md", f"{PLAN}[other](../log/other.md)\n")
    done = called(vault, "memory_rename", memId="The plan", to="archive/2026/", confirm=True)
    assert done["filePath"] == "archive/2026/the-plan.md"
    now = note_texts(planned)
    assert "[other](../../log/other.md)" in now["archive/2026/the-plan.md"]
    changed = LINKING.replace("[[ideas/the-plan", "[[archive/2026/the-plan")
    changed = changed.replace("(../ideas/the-plan.md", "(../archive/2026/the-plan.md")
    assert now["log/notes.md"] == changed


def test_rename_without_links_needs_no_confirmation(planned: Path, vault: Vault) -> None:
    """Only a rename that changes other files has a preview to confirm."""
    write(planned, "log/My note.md", "Text.\n")
    done = called(vault, "memory_rename", memId="log/My note.md", title="Your note")
    assert done["filePath"] == "log/Your note.md"
    assert done["title"] == "Your note"
    assert "title" not in note_texts(planned)["log/Your note.md"].replace("Your", "")


@pytest.mark.parametrize("to", ["scan.pdf", "log/other.md/", "skipped/", "way/"])
def test_rename_preview_refuses_unwritable_destination(
    planned: Path, vault: Vault, run: Run, tmp_path: Path, to: str
) -> None:
    """A destination that cannot be written is refused in the preview."""
    write(planned, "scan.pdf", "%PDF-1.4\n")
    write(planned, "memvault.toml", 'version = 1\nignore = ["skipped/"]\n')
    (planned / "way").symlink_to(tmp_path)
    before = contents(planned)
    preview, done = (
        refused(run("rename", "The plan", "--to", to, *confirm), 1)
        for confirm in ((), ("--confirm", "true"))
    )
    assert preview == done
    assert contents(planned) == before


@pytest.mark.parametrize("path", ["ideas/the-plan.md", "log/notes.md"])
def test_rename_preview_refuses_unencodable_title(planned: Path, vault: Vault, path: str) -> None:
    """A title that a file's encoding cannot represent is refused in the preview."""
    text = (planned / path).read_text("utf-8")
    (planned / path).write_bytes(f"{text}\nCafé\n".encode("latin-1"))
    before = vault_files(planned)
    for confirm in (None, True):
        done = vault.call("memory_rename", memId="The plan", title="Дорога", confirm=confirm)
        assert "has no '" in done["error"]["message"]
    assert vault_files(planned) == before


@pytest.mark.parametrize("title", [".hidden", "con", "a/b", "x" * 300, "Why?"])
def test_rename_to_invalid_file_name_uses_closest_valid_name(
    planned: Path, vault: Vault, title: str
) -> None:
    """A file named after its memory gets the closest valid file name."""
    write(planned, "note.md", "Text.\n")
    done = called(vault, "memory_rename", memId="note.md", title=title)
    assert (planned / done["filePath"]).is_file()
    assert called(vault, "memory_show", memId=done["memId"])["title"] == title


def test_links_are_listed_in_both_directions(planned: Path, vault: Vault) -> None:
    """Links to and from a memory are listed with their lines; memories without any are orphans."""
    write(planned, "log/alone.md", "Nobody.\n")
    links = called(vault, "memory_links", memId="notes-1a2b3c")
    assert [entry["link"] for entry in links["links"]] == (
        "The plan | the-plan | ideas/the-plan | the-plan | ../ideas/the-plan.md | plan-7k2m9q | "
        "Other | the-plan"
    ).split(" | ")
    back = called(vault, "memory_backlinks", memId="The plan", limit=2)
    assert (back["total"], back["next"]) == (3, 2)  # two lines and a header key
    assert back["backlinks"][0]["text"].startswith("See [[The plan]]")
    orphans = called(vault, "memory_orphans")["orphans"]
    assert [entry["filePath"] for entry in orphans] == ["log/alone.md"]


def test_tags_are_counted_as_tree(vault: Vault, folder: Path, run: Run) -> None:
    """Tags in headers and bodies are counted, and nested tags count for their parents."""
    write(folder, "a.md", "---\ntags: [db]\n---\n\nSee #project/active and #db.\n")
    write(folder, "b.md", "A #project, #project/old and #project/active.\n")
    db = {"tag": "db", "count": 1, "own": 1}
    project = [
        {"tag": "project", "count": 2, "own": 1},
        {"tag": "project/active", "count": 2, "own": 2},
        {"tag": "project/old", "count": 1, "own": 1},
    ]
    assert called(vault, "tag_list")["tags"] == [*project, db]
    assert called(vault, "tag_list", sort="name")["tags"] == [db, *project]
    assert [line.split() for line in succeeded(run("tags")).out.splitlines()] == [
        ["project", "2"],
        ["active", "2"],
        ["old", "1"],
        ["db", "1"],
    ]


def test_list_can_be_sorted(folder: Path, run: Run) -> None:
    """A list can be sorted by title, creation, type or path, consistently across pages."""
    header = "---\nmemory_type: {}\ncreated: {}\n---\n\n# {}\n"
    write(folder, "z.md", header.format("issue", "2026-01-02", "apples"))
    write(folder, "a.md", header.format("learning", "2026-01-03", "Berries"))
    write(folder, "m.md", header.format("fact", "2026-01-01", "Cherries"))

    def titles(*words: str) -> list[str]:
        rows = run("list", *words, "--json").json["memories"]
        return [row["title"] for row in rows]

    assert titles("--sort", "title") == ["apples", "Berries", "Cherries"]
    assert titles("--sort", "created") == ["Berries", "apples", "Cherries"]
    assert titles("--sort", "type") == ["Cherries", "apples", "Berries"]
    assert titles("--sort", "path") == ["Berries", "Cherries", "apples"]
    assert titles("--sort", "title", "-n", "1", "--offset", "1") == ["Berries"]
    assert "modified, created, title, type" in refused(run("list", "--sort", "size"), 2)


def test_tag_add_and_remove_edit_only_the_header(vault: Vault, folder: Path) -> None:
    """Tags are added to and removed from the header; a tag in the text stays as a word."""
    text = "---\n# mine\ntags: [db]\nnote: kept\n---\n\nWe use #Sql here, not `#sql`.\n"
    write(folder, "a.md", text)
    called(vault, "tag_add", memId="a.md", tags=["#team/core", "DB", "sql"])
    assert "tags: [db, team/core]" in (folder / "a.md").read_text("utf-8")
    done = called(vault, "tag_remove", memId="a.md", tags=["sql", "team/core", "nothing"])
    assert done["tags"] == ["db"]
    assert done["missing"] == ["nothing"]
    assert (folder / "a.md").read_text("utf-8") == text.replace("#Sql", "Sql")


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("tags:\n  - \n", "tags:\n  - \n  - x\n"),
        ("tags:\n- a\n-\n# mine\n-   'b' # why\n", "tags:\n- a\n-\n# mine\n-   'b' # why\n- x\n"),
        ("tags: [~, {a: 1}, 2024, 'b']\n", "tags: [~, {a: 1}, 2024, 'b', x]\n"),
        ("tags:\n  - k: 1\n    l: [2]\n", "tags:\n  - k: 1\n    l: [2]\n  - x\n"),
        ("tags: {a: 1}\n", "tags: [{a: 1}, x]\n"),
        ("tags: []\n", "tags: [x]\n"),
    ],
)
def test_tag_edit_keeps_empty_items(
    folder: Path, vault: Vault, before: str, after: str, newline: str
) -> None:
    """Adding or removing a tag leaves empty items of the list as written."""
    header = f"---\n{before}---\n\nText.\n".replace("\n", newline).encode()
    (folder / "a.md").write_bytes(header)
    tags = called(vault, "memory_show", memId="a.md")["tags"]
    assert not {"None", ""} & set(tags)
    called(vault, "tag_add", memId="a.md", tags=["x"])
    assert (folder / "a.md").read_bytes() == header.replace(
        before.replace("\n", newline).encode(), after.replace("\n", newline).encode()
    )
    assert called(vault, "tag_remove", memId="a.md", tags=["x"])["tags"] == tags
    if before.startswith("tags:\n"):
        assert (folder / "a.md").read_bytes() == header


def test_tag_rename_covers_headers_and_bodies(folder: Path, vault: Vault) -> None:
    """Tags in headers and bodies are renamed with nested tags after a preview; undo reverts all."""
    write(
        folder, "a.md", "---\ntags: [project/active, projects]\n---\n\nA #project/x, #projects.\n"
    )
    write(folder, "b.md", "A #Project, `#project`.\n")
    before = note_texts(folder)
    shown = called(vault, "tag_rename", old="project", new="work")
    assert len(shown["memories"]) == 2
    assert note_texts(folder) == before
    called(vault, "tag_rename", old="project", new="work", confirm=shown["confirmToken"])
    assert note_texts(folder) == {
        "a.md": "---\ntags: [work/active, projects]\n---\n\nA #work/x, #projects.\n",
        "b.md": "A #work, `#project`.\n",
    }
    called(vault, "memory_undo")
    assert note_texts(folder) == before


@pytest.mark.parametrize("new", ["c++", "1984", "a.b", "x!"])
def test_tag_rename_refuses_name_invalid_in_body(vault: Vault, folder: Path, new: str) -> None:
    """A name that would be parsed as another tag is refused in bodies and accepted in headers."""
    write(folder, "a.md", "---\ntags: [lang]\n---\n\nA note.\n")
    called(vault, "tag_rename", old="lang", new=new, confirm=True)
    write(folder, "b.md", "Of #lang/old.\n")
    called(vault, "tag_rename", old=new, new="lang", confirm=True)
    before = note_texts(folder)
    refused = vault.call("tag_rename", old="lang", new=new, confirm=True)
    assert "is not valid as an inline tag" in refused["error"]["message"]
    assert note_texts(folder) == before


NAMES = st.sampled_from(["a", "A", "a/b", "a/b/c", "ab", "b", "straße", "STRASSE/x"])
PIECES = st.one_of(
    NAMES.map(lambda name: f"#{name} "),
    NAMES.map(lambda name: f"`#{name}` "),
    st.sampled_from(
        ["word ", "\n", "\n```\n", "%% ", "(#a) ", "#a, ", "x#a ", "[[#a]] ", "\n# a\n"]
    ),
)


@given(st.lists(NAMES, max_size=3), st.lists(PIECES, max_size=8), NAMES, NAMES)
def test_tag_rename_changes_only_the_tag(
    held: list[str], pieces: list[str], old: str, new: str
) -> None:
    """Each tag is renamed, the rest of the text is unchanged, and undo is exact."""
    assume(old.casefold() != new.casefold())
    with TemporaryDirectory() as name:
        root = Path(name)
        body = "".join(pieces)
        write(root, "memvault.toml", "version = 1\n")
        write(root, "n.md", f"---\ntags: [{', '.join(held)}]\n---\n\n{body}end\n")
        text = (root / "n.md").read_text("utf-8")
        with open_vault(root) as vault:
            before = vault.call("memory_show", memId="n.md")
            done = vault.call("tag_rename", old=old, new=new, confirm=True)
            assert done["success"] == any(is_under(tag, old) for tag in before["tags"])
            now = vault.call("memory_show", memId="n.md")
            depth = old.count("/") + 1
            told = {
                "/".join([new, *tag.split("/")[depth:]]) if is_under(tag, old) else tag
                for tag in before["tags"]
            }
            assert {tag.casefold() for tag in now["tags"]} == {tag.casefold() for tag in told}
            assert now["content"].count("#") == before["content"].count("#")
            if done["success"]:
                called(vault, "memory_undo")
        assert (root / "n.md").read_text("utf-8") == text


@given(st.lists(st.text(), max_size=3))
def test_tag_round_trips_or_is_refused(tags: list[str]) -> None:
    """Any string given as a tag either reads back unchanged from a header or is refused."""
    try:
        wanted = parse_new_tags(tags)
    except UsageError:
        return
    data = encode_new({"tags": wanted}, "Text.\n")
    assert (
        list(read_memory(data, FileState("a.md", len(data), 0, 0, 0), frozenset()).tags) == wanted
    )


def test_backlinks_list_line_with_two_links_once(vault: Vault, folder: Path) -> None:
    """A line with two links to the same memory is one backlink."""
    write(folder, "to.md", "# To\n")
    write(folder, "from.md", "See [[to]] and [[to|again]].\n\nAnd [[to]].\n")
    found = called(vault, "memory_backlinks", memId="to.md")
    assert [entry["line"] for entry in found["backlinks"]] == [1, 3]


def test_rename_has_alias_mv(vault: Vault, folder: Path, run: Run) -> None:
    """The command ``mv`` is an alias of ``rename``."""
    write(folder, "a.md", "# A\n")
    called(vault, "memory_list")
    assert "log/a.md" in succeeded(run("mv", "a.md", "--to", "log/")).out
    assert (folder / "log/a.md").exists()


@pytest.mark.parametrize(
    ("text", "title"),
    [("# Two  blanks\n", "Two blanks"), ("~~~\n# Code\n~~~\n\n# Real\n", "Real")],
)
def test_rename_finds_title_heading(folder: Path, vault: Vault, text: str, title: str) -> None:
    """The title heading is found regardless of its spacing and of code before it."""
    write(folder, f"{title}.md", text)
    done = called(vault, "memory_rename", memId=f"{title}.md", title="Fresh")
    assert called(vault, "memory_show", memId=done["memId"])["title"] == "Fresh"
    assert called(vault, "memory_show", memId=done["memId"])["content"].count("Fresh") == 1


def test_links_to_file_name_with_percent_sign_round_trip(planned: Path, vault: Vault) -> None:
    """A percent sign in a file's name is preserved in links with and without angle brackets."""
    write(planned, "log/angle.md", "[a](<../ideas/the-plan.md>) and [b](../ideas/the-plan.md)\n")
    called(vault, "memory_rename", memId="plan-7k2m9q", to="50%25 off.md", confirm=True)
    links = called(vault, "memory_links", memId="log/angle.md")["links"]
    assert [entry.get("memId") for entry in links] == ["plan-7k2m9q"] * 2


def test_links_list_paths_of_attachments(vault: Vault, folder: Path) -> None:
    """A link to an attachment has its path; a link to an agent's file or to nothing is broken."""
    write(folder, ".obsidian/app.json", '{"attachmentFolderPath": "assets"}')
    for path in ("assets/my bee.png", "agents/bob/plan.json", "agents/bob/goals.md"):
        write(folder, path, "{}")
    write(folder, "n.md", "![[my bee.png|9]] [[assets/my bee.png]] [[plan.json]] [[goals.md]]\n")
    links = called(vault, "memory_links", memId="n.md")["links"]
    assert [entry.get("filePath") for entry in links] == ["assets/my bee.png"] * 2 + [None] * 2
    assert [entry.get("problem") for entry in links] == [None] * 2 + ["no such memory"] * 2


def test_search_for_tag_with_comma_finds_nothing(vault: Vault) -> None:
    """Searching for a tag that no memory can have finds nothing and is not an error."""
    assert called(vault, "tag_list", under="a,b")["tags"] == []
    assert vault.call("tag_rename", old="a,b", new="c")["error"]["code"] == "not_found"


def test_tag_with_space_can_be_renamed_and_removed(vault: Vault, folder: Path) -> None:
    """A header tag with a space can be renamed or removed, though it can't be added."""
    write(folder, "a.md", '---\ntags: ["foo bar", x]\n---\n\nText.\n')
    called(vault, "tag_rename", old="foo bar", new="foobar", confirm=True)
    assert called(vault, "memory_show", memId="a.md")["tags"] == ["foobar", "x"]
    write(folder, "a.md", '---\ntags: ["foo bar", x]\n---\n\nText.\n')
    assert called(vault, "tag_remove", memId="a.md", tags=["foo bar"])["tags"] == ["x"]


def test_list_agents_ignores_stray_files(vault: Vault, folder: Path) -> None:
    """Only folders are sub-brains of an agent."""
    write(folder, "agents/main/brains/night/goals/g.md", "---\nid: g\n---\n\nx\n")
    write(folder, "agents/main/brains/stray", "x")
    found = called(vault, "list_agents")["agents"]
    assert [entry["agent"] for entry in found] == ["main", "main/night"]


def test_tag_rename_is_all_or_nothing(run: Run, folder: Path) -> None:
    """If a header can't be edited, it is reported and no other file is changed."""
    write(folder, "a.md", "---\ntags: &t [one]\no: *t\n---\nx\n")
    for name in "bcd":
        write(folder, f"{name}.md", "---\ntags: [one]\n---\nx\n")
    for words in (["--confirm", "true"], []):
        assert "a.md: The front matter cannot be edited" in refused(
            run("tag", "rename", "one", "uno", *words), 1
        )
        assert all("tags: [one]" in (folder / f"{name}.md").read_text() for name in "bcd")


def test_tag_edit_keeps_comments_in_list(run: Run, folder: Path) -> None:
    """A tag is added after the last one; an edit that would lose comments is refused."""
    file = write(folder, "a.md", "---\ntags: [\n  one, # first\n  two,\n]\n---\nx\n")
    succeeded(run("tag", "add", "a", "new"))
    text = "---\ntags: [\n  one, # first\n  two, new,\n]\n---\nx\n"
    assert file.read_text() == text
    assert "cannot be edited safely" in refused(run("tag", "remove", "a", "two"), 1)
    assert file.read_text() == text


def test_tag_edit_keeps_yaml_set(run: Run, folder: Path) -> None:
    """Tags written as a YAML set are not converted to anything else."""
    file = write(folder, "a.md", "---\ntags: !!set {one}\n---\nx\n")
    assert "are a set, not a list" in refused(run("tag", "add", "a", "new"), 1)
    assert file.read_text() == "---\ntags: !!set {one}\n---\nx\n"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("memory_rename", {"memId": "a", "to": "old/", "confirm": True}),
        ("tag_rename", {"old": "sea", "new": "lake", "confirm": True}),
    ],
)
def test_write_protected_file_aborts_the_whole_change(
    vault: Vault,
    folder: Path,
    write_protect: Callable[[Path], None],
    tool: str,
    arguments: dict[str, Any],
) -> None:
    """If one of the files to change is write-protected, none is changed."""
    write(folder, "a.md", "---\nid: a\ntags: [sea]\n---\n\n# A\n")
    write(folder, "b.md", "---\nid: b\ntags: [sea]\n---\n\n# B\n\n[A](a.md)\n")
    vault.call("memory_list")
    before = contents(folder)
    write_protect(folder / "b.md")
    found = vault.call(tool, **arguments)
    assert "b.md" in found["error"]["message"]
    assert {name: text for name, text in contents(folder).items() if name.suffix == ".md"} == {
        name: text for name, text in before.items() if name.suffix == ".md"
    }


def test_unknown_tag_is_an_error_with_suggestion(folder: Path, vault: Vault, run: Run) -> None:
    """Removing or renaming a tag that does not exist fails and suggests a similar one."""
    write(folder, "a.md", "---\ntags: [database, team/core]\n---\n\n# A\n")
    before = contents(folder)
    for arguments, message in (
        (("tag", "remove", "a.md", "databse"), "'A' does not have the tag 'databse'"),
        (("tag", "rename", "databse", "db"), "No memory has the tag 'databse'"),
    ):
        ran = run(*arguments, "--json")
        assert (ran.code, ran.json["error"]["code"]) == (1, "not_found")
        assert ran.json["error"]["message"] == message
        assert ran.json["error"]["hint"] == "did you mean database?"
    hint = vault.call("tag_rename", old="zzz", new="db")["error"]["hint"]
    assert hint == "`tag_list` lists the existing ones"
    assert contents(folder) == before
