"""Whatever a memory is renamed to, each link of the vault leads where it led."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import example, given
from hypothesis import strategies as st

from conftest import write
from memvault import open_vault
from memvault.call import Call
from memvault.memories.link_graph import LinkGraph
from memvault.recall.filters import Filters
from memvault.workspace import Workspace

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


def leads(root: Path) -> dict[tuple[str, int], str]:
    """Return where each link leads that leads to one memory, by its source's id and its place."""
    workspace = Workspace(root)
    try:
        call = Call(workspace)
        graph = LinkGraph(call.engine.list_records(Filters()), call.store)
        found = {}
        for memory in graph.memories():
            for place, link in enumerate(graph.outgoing(memory)):
                is_beside = link.link is not None and graph.beside(link.link, memory.path)
                if link.target is not None and (is_beside or len(graph.by_name(link.name)) == 1):
                    found[memory.mem_id, place] = link.target.mem_id
        return found
    finally:
        workspace.close()


def written(root: Path, notes: list[Note]) -> None:
    """Write notes with their links."""
    paths = [f"{folder}/{stem}".removeprefix("/") for folder, stem, *_ in notes]
    for number, (folder, _, title, links, replaced) in enumerate(notes):
        text = f"---\nid: note-{number}\n"
        text += "" if title is None else f"title: '{title}'\n"
        text += "".join(f"supersedes: '[[{paths[n % len(paths)]}]]'\n" for n in replaced)
        text += "---\n\n"
        for which, form in links:
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


def files_of(root: Path) -> list[Path]:
    """Return every memory's file."""
    return [path for path in sorted(root.rglob("*.md")) if ".memvault" not in path.parts]


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
def test_links_lead_where_they_led(notes: list[Note], title: str, to: str) -> None:
    """A renaming or a move changes names, never what is meant; and one undo takes it back."""
    with TemporaryDirectory() as name:
        root = Path(name)
        written(root, notes)
        before = leads(root)
        files = {path: path.read_bytes() for path in files_of(root)}
        with open_vault(root) as vault:
            done = vault.call("memory_rename", memId="note-0", title=title, to=to, confirm=True)
            if not done["success"]:
                assert {path: path.read_bytes() for path in files_of(root)} == files
                return
            after = leads(root)
            texts = [path.read_text("utf-8") for path in files_of(root)]
            assert {place: after.get(place) for place in before} == before, texts
            if "message" not in done:
                undone = vault.call("memory_undo")
                assert undone["success"], undone
            assert {path: path.read_bytes() for path in files_of(root)} == files
