"""Notes as people write them in Obsidian: tags, aliases, links, and renames."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from conftest import Run, examples, note_texts, refused, sampled, succeeded, vault_files, write
from growth import Steps, check_growth
from killing import Killing
from made_secrets import MADE
from memvault import Vault, open_vault
from memvault.call import Call
from memvault.index.local.local_index import LocalIndex
from memvault.index.protocol import LinkEntry, MemoryRecord
from memvault.memories.link_graph import LinkGraph, keys_of
from memvault.recall.filters import Filters
from memvault.settings.vault_settings import Settings
from memvault.store.memory_store import MemoryStore
from memvault.vault.markdown import links, mask_code, mask_comments, tags
from memvault.workspace import Workspace
from wrong_vaults import examined, told

TAGGED = {
    "#work": ["work"],
    "On #y1984 and #1984, #12-3.": ["y1984", "12-3"],
    "# Heading\n##x\n#x\n": ["x"],
    "a#b https://a.org/#c [d](#e) [[f#g]] (#h)": [],
    "`#a` ``#b`` %%#c%% #d": ["d"],
    "```\n#include <a>\n```\n#café, #日本/東京。 #🐝! #a_b-c/": [
        "café",
        "日本/東京",
        "🐝",
        "a_b-c/",
    ],
    "#!/bin/sh #% # ## #": [],
    '<span style="color: #a1b2c3">x</span> <a href=" #section" >y</a> #d': ["d"],
    "<font\n  color=' #fff000'\n  size=3>x</font> #d\n": ["d"],
    "<!-- #a\n\n#b --> #c <!-- #d": ["c", "d"],
    "#a\n\n  <!-- #b\n\n#c %%": ["a"],
    "%% #a <!-- #b": ["a", "b"],
    "%% #a <!-- %% #b --> <!-- %% --> #c %%": ["b", "c"],
    "- `<!--` #a\n```\n<!--\n```\n#b": ["a", "b"],
    'If 1 <a and " #b " or <c> #d': ["b", "d"],
}


@pytest.mark.parametrize("text", TAGGED)
def test_inline_tags_match_obsidian(text: str) -> None:
    """Numbers, headings, code, comments, HTML attributes and URL fragments are not tags."""
    assert [match[1] for match in tags(text)] == TAGGED[text]


@pytest.fixture
def notes(folder: Path, vault: Vault) -> Vault:
    """A vault with three notes tagged in their text, their header, and both."""
    write(folder, "text.md", "The bees are fine. #Project/active and #bees\n")
    write(folder, "header.md", "---\ntags: [project/done]\n---\n\nThe wasps are gone.\n")
    write(folder, "both.md", "---\ntags: [Bees]\n---\n\n#bees #projects `#no`\n")
    return vault


def listed(vault: Vault, *tags: str) -> set[str]:
    """Return the files that a listing by tags contains."""
    found = vault.call("memory_recall", isAll=True, tags=list(tags))
    return {entry["filePath"] for entry in found["memories"]}


def test_inline_tags_count_like_header_tags(notes: Vault, folder: Path) -> None:
    """Filters and results treat both kinds of tags alike, and no file is changed."""
    before = {path: path.read_bytes() for path in folder.glob("*.md")}
    assert listed(notes, "bees") == {"text.md", "both.md"}
    assert listed(notes, "#PROJECT/") == {"text.md", "header.md"}
    assert listed(notes, "project/active", "bees") == {"text.md"}
    assert listed(notes, "proj") == set()
    assert listed(notes, "no") == set()
    found = notes.call("memory_recall", query="project", type="tag")["memories"]
    assert {entry["filePath"] for entry in found} == {"text.md", "header.md"}
    shown = notes.call("memory_recall", isAll=True)["memories"]
    assert {entry["filePath"]: entry["tags"] for entry in shown} == {
        "text.md": ["Project/active", "bees"],
        "header.md": ["project/done"],
        "both.md": ["Bees", "projects"],
    }
    found = notes.call("memory_recall", query="x", filter="'bees' in tags", type="keyword")
    assert found["success"]
    assert {path: path.read_bytes() for path in folder.glob("*.md")} == before


def resolved(folder: Path, link: str) -> set[str]:
    """Return the files that Obsidian resolves a link to: by name, or by alias."""
    found = set()
    for path in folder.rglob("*.md"):
        memory = MemoryStore(folder, Settings()).read(path.relative_to(folder).as_posix())
        if link.casefold() in map(str.casefold, (path.stem, *memory.aliases)):
            found.add(memory.path)
    return found


def remembered(vault: Vault, title: str, content: str = "They sting.") -> dict[str, Any]:
    """Remember something; return the result."""
    return vault.call("memory_remember", title=title, content=content, memoryType="fact")


@pytest.mark.parametrize(
    ("title", "content", "aliases"),
    [
        ("Use PostgreSQL", "Yes.", ["Use PostgreSQL"]),
        ('Say: "yes", [no] #1', "Yes.", ['Say: "yes", [no] #1']),
        ("Über uns", "# Über uns\n\nYes.", ["Über uns"]),
        ("蜜蜂", "Yes.", None),
        ("Bees", "Yes.", None),
        ("BEES", "# BEES", None),
    ],
)
def test_link_by_title_resolves_in_obsidian(
    vault: Vault, folder: Path, title: str, content: str, aliases: list[str] | None
) -> None:
    """A new memory gets its title as an alias if its file name is different."""
    made = remembered(vault, title, content)
    assert resolved(folder, title) == {made["filePath"]}
    assert vault.call("memory_show", memId=made["memId"])["metadata"].get("aliases") == aliases


def test_memories_with_the_same_title_share_the_link(vault: Vault, folder: Path) -> None:
    """The second file gets a different name, and a link by title still finds both."""
    paths = {remembered(vault, "Bees")["filePath"] for _ in range(2)}
    assert resolved(folder, "Bees") == paths


def test_title_change_updates_the_alias(vault: Vault, folder: Path) -> None:
    """A memory with a new title keeps its other aliases and loses its old title."""
    made = remembered(vault, "Use PostgreSQL")
    path = folder / made["filePath"]
    path.write_text(path.read_text("utf-8").replace("[Use PostgreSQL]", "[Use PostgreSQL, PG]"))
    for title, aliases in {
        "Use MariaDB": ["Use MariaDB", "PG"],
        "use-postgresql": ["PG"],
        "Use PG": ["Use PG", "PG"],
    }.items():
        vault.call(
            "memory_remember",
            title=title,
            content="No.",
            memoryType="fact",
            filePath=made["filePath"],
        )
        shown = vault.call("memory_show", memId=made["memId"])
        assert shown["metadata"]["aliases"] == aliases
    vault.call("memory_undo")
    assert "[Use PG, PG]" not in path.read_text("utf-8")


def test_title_with_a_secret_is_not_repeated(vault: Vault, folder: Path) -> None:
    """The secret is masked in the file name and repeated in no alias."""
    token = MADE["GitHub token"][1]()
    made = remembered(vault, f"The key is {token}")
    assert (folder / made["filePath"]).read_text("utf-8").count(token) == 1


@pytest.fixture
def called(folder: Path, vault: Vault) -> Vault:
    """A vault with notes that have aliases: in a list, as a string, as a single alias."""
    write(folder, "n/a.md", "---\ntitle: Bees\naliases: [Apis, Honey makers]\n---\n\nThey hum.\n")
    write(folder, "n/b.md", "---\naliases: Vespa, Yellow jackets\n---\n\n# Wasps\n\nThey sting.\n")
    write(folder, "n/c.md", "---\nalias: Apis\nsupersedes: [[yellow jackets]]\n---\n\n# Ants\n")
    write(folder, "n/d.md", "---\nsupersedes_not: 1\n---\n\n# Vespa\n\nA scooter.\n")
    return vault


def test_alias_selects_a_memory(called: Vault) -> None:
    """An alias in any case selects one memory; titles come first; ambiguous ones are reported."""
    for name, path in {
        "honey makers": "n/a.md",
        "Yellow jackets": "n/b.md",
        "Vespa, Yellow jackets": "n/b.md",
        "vespa": "n/d.md",
    }.items():
        assert called.call("memory_show", memId=name)["filePath"] == path
    found = called.call("memory_show", memId="apis")["candidates"]
    assert {entry["filePath"] for entry in found} == {"n/a.md", "n/c.md"}


def test_supersedes_accepts_an_alias(called: Vault) -> None:
    """A header can refer to the memory it supersedes by any title or alias."""
    found = called.call("memory_recall", query="wasps that sting")["memories"]
    said = {entry["filePath"]: entry.get("supersededBy", "") for entry in found}
    assert said["n/b.md"].startswith("c-")
    assert told(examined(called)) == set()


@pytest.mark.parametrize("mode", ["hybrid", "keyword", "vector"])
def test_alias_is_searched_like_the_title(called: Vault, mode: str) -> None:
    """An alias's words find the memory even if they occur nowhere else."""
    (found, *_) = called.call("memory_recall", query="honey makers", type=mode)["memories"]
    assert found["filePath"] == "n/a.md"


def test_title_among_aliases_counts_once(vault: Vault, folder: Path) -> None:
    """The alias that remember writes for Obsidian does not change a score."""
    scores = []
    for aliases in ("", "aliases: [Use  PostgreSQL]\n"):
        write(folder, "a.md", f"---\ntitle: Use PostgreSQL\n{aliases}---\n\nOur database.\n")
        write(folder, "b.md", "---\ntitle: Use SQLite\n---\n\nFor tests of PostgreSQL's users.\n")
        found = vault.call("memory_recall", query="postgresql database", explain=True)["memories"]
        scores.append([(entry["score"], entry["why"]["parts"]) for entry in found])
    assert scores[0] == scores[1]


LINKS = {
    "[[Bees]]": ("Bees", "", ""),
    "[[Bees|the hive]]": ("Bees", "", "the hive"),
    "[[Bees#Two]]": ("Bees", "Two", ""),
    "[[Bees#^x1|so]]": ("Bees", "^x1", "so"),
    "| a [[Bees\\|so]] |": ("Bees", "", "so"),
    "![[bee.png|100]]": ("bee.png", "", "100"),
    "[the hive](notes/Bees.md)": ("notes/Bees.md", "", "the hive"),
    "[the `hive`](my%20bees.md#Two)": ("my bees.md", "Two", "the `hive`"),
    '![a [b] c](<my bees.md> "so")': ("my bees.md", "", "a [b] c"),
    "> [a](b_(c).md)": ("b_(c).md", "", "a"),
}


@pytest.mark.parametrize("text", LINKS)
def test_link_is_parsed_as_in_obsidian(text: str) -> None:
    """A link's target, heading and display text are separated, with their positions."""
    (link,) = links(f"See: {text} and more.")
    assert (link.target, link.heading, link.shown) == LINKS[text]
    assert link.is_embed == ("!" in text)
    assert link.is_wikilink == ("[[" in text)
    whole = f"See: {text} and more."[slice(*link.span)]
    assert whole in text
    assert whole.endswith(("]]", ")"))
    written = f"See: {text} and more."[slice(*link.target_span)]
    assert written.replace("%20", " ") == link.target


@pytest.mark.parametrize(
    "text",
    [
        "`[[a]]` and ``a ` [[a]]`` and `two\nlines [[a]]`",
        "```\n[[a]]\n~~~\n[[a]]\n```",
        "- ~~~~ py\n  [[a]]\n  ~~~\n  [a](a.md)\n  ~~~~",
        "> ```\n> [[a]]\n> ```",
        "%%[[a]]%% and %%\n[[a]]\n%%",
        "[[#here]] [x](#here) [x](https://a.md) [x](mailto:a@b.md) [x](//a.md) [[ -f x ]]",
        "[[]] [[|a]] []() [a] (a.md) [a](a b.md)",
        "",
    ],
)
def test_text_without_note_links_has_no_links(text: str) -> None:
    """Code, comments, anchors in the same note, URLs and shell brackets are not links."""
    assert list(links(text)) == []


def test_masked_code_keeps_text_positions() -> None:
    """Code is replaced by spaces, and unclosed backticks in a paragraph count as text."""
    text = "a ` b\r\n\r\n`c` ``d` e\n\n```x``` f\n~~~\ncode\n"
    assert mask_code(text) == "a ` b\r\n\r\n    ``d` e\n\n        f\n   \n    \n"
    assert len(mask_code(text)) == len(text)


def test_markdown_fence_ends_with_its_quote_or_list_item() -> None:
    """An unclosed code fence in a quote or list item does not hide later text."""
    for text in ("> ~~~\n> #a\n#b", "- ```\n  #a\n\n  #a\n#b\n", "  1. ```\n     #a\n- #b"):
        assert [tag[1] for tag in tags(text)] == ["b"]
    assert list(tags("```\n> #a\n- #a\n")) == []


@pytest.mark.parametrize(
    "piece",
    [
        "[",
        "[a",
        "[[",
        "![[x",
        "`a``b```c ",
        "](",
        "[x](",
        "%%",
        "[a](<",
        "```\n",
        "((",
        "<!-- #a ",
        "%% <!-- ",
        "%% a\n\n`b %%` ",
        "`%%` %% `\n",
        "> - ",
        "[a]: b\n",
        "[a][b] ![",
        "| a |\n|---|\n",
        "<a b='",
        "<div>\n\n",
        "$a ",
        "\t",
    ],
)
def test_link_parsing_takes_linear_time(piece: str) -> None:
    """Unclosed brackets and backticks do not slow down parsing."""

    def work(size: int) -> Steps:
        yield lambda: mask_code(piece * size)
        yield lambda: list(links(piece * size + "[["))
        yield lambda: tags(f"{piece * size}#b")
        yield lambda: mask_comments(f"x {piece * size}")

    check_growth(work, 2_500)
    assert len(mask_code(piece * 2_500)) == len(piece) * 2_500


def test_doctor_checks_markdown_links_to_notes(vault: Vault, folder: Path) -> None:
    """A missing note or image is reported; a path outside the vault or to no file is not."""
    write(folder, "notes/a.md", "[b](b.md), [c](../c.md#x), [d](d), [e](../../e.md), [f](f/)\n")
    write(folder, "c.md", "Here: [a](notes/a.md) and ![[notes/a]].\n")
    found = examined(vault)
    assert told(found) == {("link-broken", "notes/a.md")}
    assert found["findings"][0]["message"] == "[b](b.md) does not resolve to a file"
    text = '[[d.png]], ![d](d.png), [d]\n\n[d]: <d e.pdf>\n\n<img src="f.gif">\n'
    write(folder, "notes/a.md", text)
    messages = [finding["message"] for finding in examined(vault)["findings"]]
    shown = ("[[d.png]]", "![d](d.png)", "[d](d e.pdf)", "![](f.gif)")
    assert messages == [f"{link} does not resolve to a file" for link in shown]


Note = tuple[str, str, str | None, list[tuple[int, str]], list[int]]
FOLDERS = ["", "a", "a/b", "c"]
STEMS = ["one", "two", "three"]
TITLES = ["One", "two", "Big three", "The [odd] | one", "a/one", "Café"]
FORMS = [
    "[[{stem}]]",
    "[[{stem}|seen]]",
    "[[{path}#^x]]",
    "[[{title}]]",
    "![[{stem}#Top]]",
    "[[{id}]]",
    "[x]({beside})",
    "[x](<{beside}>)",
    "[x](/{path}.md)",
]
NOTE = st.tuples(
    st.sampled_from(FOLDERS),
    st.sampled_from(STEMS),
    st.one_of(st.none(), st.sampled_from(TITLES)),
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from(FORMS)), max_size=5),
    st.lists(st.integers(0, 3), max_size=1),
)
NOTES = st.lists(NOTE, min_size=2, max_size=4, unique_by=lambda note: note[:2])


def graph_of(records: list[MemoryRecord]) -> LinkGraph:
    """Return the graph of memories whose links are not indexed, to resolve names."""
    by_key = {record.uid: record for record in records}
    entries = {key: LinkEntry(record.path, keys_of(record), ()) for key, record in by_key.items()}
    return LinkGraph(entries, by_key.get)


def leads(root: Path) -> dict[tuple[str, int], str]:
    """Return the target of each link that resolves to a memory, by source id and position."""
    workspace = Workspace(root)
    try:
        call = Call(workspace)
        graph = graph_of(call.engine.list_records(Filters()))
        found = {}
        for memory in (call.store.read(entry.path) for entry in graph.entries.values()):
            for place, link in enumerate(graph.outgoing(memory)):
                if link.target is not None:
                    found[memory.mem_id, place] = link.target.mem_id
        return found
    finally:
        workspace.close()


def written(root: Path, notes: list[Note]) -> None:
    """Write notes with their links."""
    paths = [f"{folder}/{stem}".removeprefix("/") for folder, stem, *_ in notes]
    for number, (folder, _, title, linked, replaced) in enumerate(notes):
        text = f"---\nid: note-{number}\n"
        text += "" if title is None else f"title: '{title}'\n"
        text += "".join(f"supersedes: '[[{paths[n % len(paths)]}]]'\n" for n in replaced)
        text += "---\n\n"
        for which, form in linked:
            meant = which % len(notes)
            up = "../" * (folder.count("/") + 1 if folder else 0)
            told = form.format(
                stem=notes[meant][1],
                path=paths[meant],
                title=notes[meant][2] or notes[meant][1],
                id=f"note-{meant}",
                beside=f"{up}{paths[meant]}.md",
            )
            text += f"See {told} there.\n"
        write(root, f"{paths[number]}.md", text)
    write(root, "memvault.toml", "version = 1\n")


MOVED: list[Note] = [
    ("", "one", None, [], []),
    ("", "three", None, [], []),
    ("", "two", None, [(0, "[x](/{path}.md)")], []),
]
TWINS: list[Note] = [
    ("", "one", "Big three", [(1, "[[{stem}]]")], []),
    ("a", "two", None, [], []),
]


@given(
    NOTES,
    st.one_of(st.just(""), st.sampled_from(["One", "two", "New", "Odd | [x]"])),
    st.one_of(st.just(""), st.sampled_from(["a", "a/b", "d/", "c/two.md", "new name.md"])),
)
@example(MOVED, "", "c/two.md")
@example(TWINS, "two", "")
@example(TWINS[::-1], "one", "")
@example([("", "one", "two", [(0, "[x](/{path}.md)")], []), ("a/b", "one", None, [], [])], "", "a")
def test_links_keep_their_targets_after_rename(notes: list[Note], title: str, to: str) -> None:
    """A rename or move updates links without changing their targets, and one undo reverts it."""
    with TemporaryDirectory() as name:
        root = Path(name)
        written(root, notes)
        before = leads(root)
        files = vault_files(root)
        with open_vault(root) as vault:
            done = vault.call("memory_rename", memId="note-0", title=title, to=to, confirm=True)
            if not done["success"]:
                assert vault_files(root) == files
                return
            after = leads(root)
            assert {place: after.get(place) for place in before} == before, note_texts(root)
            if "message" not in done:
                undone = vault.call("memory_undo")
                assert undone["success"], undone
            assert vault_files(root) == files


def resolved_links(root: Path) -> list[tuple[str, int | str, str]]:
    """Return every link to a memory from the current files: source, line or key, target."""
    store = MemoryStore(root, Settings())
    memories = [store.read(state.path) for state in store.scan().files]
    records = [MemoryRecord.from_memory(n, 0, memory, "") for n, memory in enumerate(memories)]
    records.sort(key=lambda record: (record.modified, record.path), reverse=True)
    graph = graph_of(records)
    found: dict[tuple[str, int | str, str], None] = {}
    for record in records:
        memory = store.read(record.path)
        for link in graph.outgoing(memory):
            if link.target is not None:
                offset = link.link.span[0] if link.link is not None else 0
                place = link.key or memory.body.count("\n", 0, offset)
                found[record.path, place, link.target.path] = None
    return list(found)


CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 5), NOTE),
        st.tuples(st.just("delete"), st.integers(0, 5), st.none()),
        st.tuples(st.just("move"), st.integers(0, 5), st.sampled_from(["a/Big three", "one"])),
        st.tuples(st.just("rename"), st.integers(0, 5), st.sampled_from(["New", "Big three"])),
    ),
    max_size=4,
)


@settings(max_examples=examples(60))
@given(NOTES, CHANGES)
def test_indexed_links_match_the_files(
    notes: list[Note], changes: list[tuple[str, int, Any]]
) -> None:
    """After each edit, move and deletion, backlinks and orphans match the files."""
    with TemporaryDirectory() as name:
        root = Path(name)
        written(root, notes)
        with open_vault(root) as vault:
            for kind, number, value in [("none", 0, None), *changes]:
                paths = sorted(note_texts(root)) or ["first.md"]
                path = root / paths[number % len(paths)]
                if kind == "write":
                    linked = "".join(
                        form.format(
                            stem="one",
                            path="a/two",
                            title="Big three",
                            id="note-1",
                            beside="../one.md",
                        )
                        + "\n"
                        for _, form in value[3]
                    )
                    path.write_text(f"{value[2] or 'Text'}\n{linked}[[one]]\n", "utf-8")
                elif kind == "delete":
                    path.unlink(missing_ok=True)
                elif kind == "move" and path.exists():
                    (root / value).parent.mkdir(exist_ok=True)
                    path.rename(root / f"{value}.md")
                elif kind == "rename" and path.exists():
                    told = path.relative_to(root).as_posix()
                    vault.call("memory_rename", memId=told, title=value, confirm=True)
                compare_with_files(vault, root)


def compare_with_files(vault: Vault, root: Path) -> None:
    """Compare backlinks and orphans with the links that the files contain."""
    links = resolved_links(root)
    linked = {path for source, _, target in links if source != target for path in (source, target)}
    found = vault.call("memory_orphans", limit=99)["orphans"]
    everything = note_texts(root).keys()
    assert {entry["filePath"] for entry in found} == everything - linked
    for path in everything:
        back = vault.call("memory_backlinks", memId=path, limit=99)["backlinks"]
        assert [(entry["filePath"], entry.get("key")) for entry in back] == [
            (source, place if isinstance(place, str) else None)
            for source, place, target in links
            if target == path != source
        ]
        for entry in back:
            if "line" in entry:
                lines = (root / entry["filePath"]).read_text("utf-8").split("\n")
                assert lines[entry["line"] - 1].strip() == entry["text"]


def test_links_are_current_while_another_process_indexes(folder: Path, vault: Vault) -> None:
    """Links in files changed after the index's last commit count immediately."""
    write(folder, "one.md", "See [[two]].\n")
    write(folder, "two.md", "Text.\n")
    compare_with_files(vault, folder)
    other = Workspace(folder)
    assert isinstance(other.index, LocalIndex)
    try:
        with other.index.files.locked(0.0) as locked:
            assert locked
            write(folder, "one.md", "See [three](a/three.md)\nand [[Third]].\n")
            write(folder, "a/three.md", "---\nsupersedes: two\n---\n\n# Third\n")
            compare_with_files(vault, folder)
    finally:
        other.close()


_MOVER = """
import tempfile
from pathlib import Path
from memvault import open_vault

def work(root):
    with open_vault(root) as vault:
        done = vault.call("memory_compound", query="The one", modifications="more",
                          memoryType="issue")
        assert done["success"], done
with tempfile.TemporaryDirectory() as scratch:  # so that the copies need to load nothing
    Path(scratch, "memvault.toml").touch()
    with open_vault(scratch) as vault:
        vault.call("memory_remember", title="Start", content="x", memoryType="")
        vault.call("memory_compound", query="Start", modifications="x", memoryType="issue")
"""
_LEAST = 14
"""The minimum number of file operations of a move: revision, note, new file, old file, note."""


@sampled(2)
@pytest.mark.parametrize(
    "text", ["---\nid: one-7g9tqh\n---\n# The one\n\ntext\n", "# The one\n\ntext\n"]
)
def test_killed_move_leaves_one_memory(folder: Path, text: str) -> None:
    """After a kill before any file change, the next command finds one memory, old or new."""
    write(folder, "fact/one.md", text)
    before = shutil.copytree(folder, folder.with_name("before"))
    moves = twice = 0
    with Killing(folder, _MOVER) as mover:
        for place in mover.everywhere():
            moves += 1
            twice += len(note_texts(folder)) == 2
            with open_vault(folder) as vault:
                found = vault.call("memory_list")["memories"]
                assert [entry["filePath"] for entry in found] == sorted(note_texts(folder))
                assert len(found) == 1, place
                name = found[0]["memId"]
                shown = vault.call("memory_show", memId=name)
                assert shown["content"].count("text") == 1
                assert ("more" in shown["content"]) == (shown["filePath"] == "issue/one.md")
                assert "problems" not in vault.call("vault_status")
                again = vault.call(
                    "memory_compound", query=name, modifications="x", memoryType="issue"
                )
                assert again["success"], again
                first = vault.call("memory_show", memId=name)["revisions"][0]
                earliest = vault.call("memory_show", memId=name, revision=first)
                assert earliest["content"].endswith("text\n")
            assert sorted(note_texts(folder)) == ["issue/one.md"]
            assert not (folder / ".memvault/moving.json").exists()
            shutil.rmtree(folder)
            shutil.copytree(before, folder)
    assert sorted(note_texts(folder)) == ["issue/one.md"]
    assert moves >= _LEAST
    assert twice >= 2, "it was killed between the new file and the old one's end"


def test_obsidian_copy_is_not_mistaken_for_a_move(vault: Vault, folder: Path, run: Run) -> None:
    """Two files with one memId and no unfinished move both stay, with a useful message."""
    old = write(folder, "fact/one.md", "---\nid: one-7g9tqh\n---\n# One\n\ntext\n")
    write(folder, "issue/one.md", old.read_bytes())
    assert vault.call("memory_compound", query="issue/one.md", modifications="x")["success"]
    ran = run("show", "one-7g9tqh")
    assert "one-7g9tqh" in refused(ran, 1)
    assert "hint: use one of their paths\n" in ran.err
    assert "fact/one.md" in ran.err
    assert "issue/one.md" in ran.err
    assert run("show", "fact/one.md").code == 0
    assert sorted(note_texts(folder)) == ["fact/one.md", "issue/one.md"]
    problem = run("status", "--json").json["problems"][0]
    assert problem["filePath"] == "fact/one.md"
    assert "issue/one.md" in problem["problem"]


@pytest.mark.parametrize(
    "note",
    [
        "",
        "[]",
        '{"source": 1}',
        '{"source": "../kept.md", "before": "B", "target": "fact/one.md", "after": "A"}',
        '{"source": "/kept.md", "before": "B", "target": "fact/one.md", "after": "A"}',
        '{"source": "copy.md", "before": "B", "target": "fact/one.md", "after": "A"}',
    ],
)
def test_forged_move_record_deletes_nothing(
    vault: Vault, folder: Path, tmp_path: Path, note: str
) -> None:
    """No move recorded in an untrusted vault deletes a file without a kept copy."""
    kept = write(tmp_path, "kept.md", "mine")
    copy = write(folder, "copy.md", "---\nid: one-7g9tqh\n---\nmine")
    write(folder, "fact/one.md", "---\nid: one-7g9tqh\n---\ntheirs")
    etags = {
        "A": vault.call("memory_show", memId="fact/one.md")["etag"],
        "B": vault.call("memory_show", memId="copy.md")["etag"],
        "/kept.md": str(kept),
    }
    for name, value in etags.items():
        note = note.replace(f'"{name}"', f'"{value}"')
    if note:
        write(folder, ".memvault/moving.json", note)
    else:
        (folder / ".memvault/moving.json").mkdir()
    assert vault.call("memory_compound", query="fact/one.md", modifications="x")["success"]
    assert vault.call("memory_list")["count"] == 2
    assert copy.exists()
    assert kept.exists()


def test_markdown_link_by_file_name_follows_rename(run: Run, folder: Path) -> None:
    """A link from another folder that uses only the file name is updated."""
    write(folder, "Ferry.md", "x\n")
    linking = write(folder, "sub/a.md", "[m](Ferry.md)\n")
    succeeded(run("rename", "Ferry", "Boat", "--confirm", "true"))
    assert linking.read_text() == "[m](../Boat.md)\n"


def test_escaped_links_and_comments_are_not_links(run: Run, folder: Path) -> None:
    """Text that Obsidian does not show as a link is neither counted nor rewritten."""
    write(folder, "Ferry.md", "x\n")
    text = "\\[[Ferry]] <!-- [[Ferry]] -->\n"
    linking = write(folder, "a.md", text)
    assert "has no links" in succeeded(run("links", "a")).out
    succeeded(run("rename", "Ferry", "Boat", "--confirm", "true"))
    assert linking.read_text() == text


@pytest.mark.parametrize("value", ['"[[Ferry]]"', '[Ferry, "[[Ferry]]"]', "[[Ferry]]"])
def test_links_in_front_matter_are_links(run: Run, folder: Path, value: str) -> None:
    """A wikilink in any header key is listed with its key, counted, and follows a rename."""
    write(folder, "Ferry.md", "x\n")
    linking = write(folder, "a.md", f"---\nrelated: {value}\n---\nx\n")
    assert "related" in succeeded(run("links", "a")).out
    assert "related" in succeeded(run("backlinks", "Ferry")).out
    assert "Every memory has a link" in succeeded(run("orphans")).out
    succeeded(run("rename", "Ferry", "Boat", "--confirm", "true"))
    assert "[[Boat]]" in linking.read_text()
    assert ("[Ferry," in linking.read_text()) == ("[Ferry," in value)
