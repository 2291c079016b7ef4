"""A link to a name that exists in several folders resolves as in Obsidian."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import Run, examples, succeeded, write
from growth import Steps, check_growth
from memvault import Vault
from memvault.index.protocol import COMPLETE, LinkEntry, StoredLink
from memvault.memories.link_graph import LinkGraph
from memvault.vault.linked_files import LinkedFiles
from memvault.vault.markdown_inline import path_beside
from memvault.workspace import Workspace
from wrong_vaults import examined, told


@pytest.fixture
def projects(folder: Path) -> Path:
    """Two projects, each with a budget and a plan that links to it."""
    for project in ("alpha", "beta"):
        write(folder, f"{project}/budget.md", f"# Money of {project}\n\nIt is spent.\n")
        write(folder, f"{project}/plan.md", f"# Plan of {project}\n\nSee [[budget]].\n")
    return folder


def targets(vault: Vault, path: str) -> list[str]:
    """The paths that a memory's links lead to, in the order of the links."""
    return [link["filePath"] for link in vault.links(path)["links"]]


def test_link_prefers_folder_of_its_note(vault: Vault, projects: Path) -> None:
    """A link resolves to the note with that name in its own folder, and backlinks agree."""
    write(projects, "budget/index.md", "See [[plan]], which is not here.\n")
    for project in ("alpha", "beta"):
        assert targets(vault, f"{project}/plan.md") == [f"{project}/budget.md"]
        back = vault.backlinks(f"{project}/budget.md")["backlinks"]
        assert [entry["filePath"] for entry in back] == [f"{project}/plan.md"]


def test_link_prefers_subfolders_then_short_paths(vault: Vault, folder: Path) -> None:
    """Without a note in its folder, a link resolves to one below it, then to the shortest path."""
    for path in ("a/b/note.md", "long/way/note.md", "c/note.md"):
        write(folder, path, "Text.\n")
    for source, target in {
        "a/from.md": "a/b/note.md",
        "long/from.md": "long/way/note.md",
        "other/from.md": "c/note.md",
        "from.md": "c/note.md",
    }.items():
        write(folder, source, "[[note]]\n")
        assert targets(vault, source) == [target]


def test_link_prefers_file_name_to_title(vault: Vault, folder: Path) -> None:
    """A file name wins over a title, because Obsidian does not resolve links by title."""
    write(folder, "a/budget.md", "# Money\n")
    write(folder, "a/money.md", "# Budget\n")
    write(folder, "a/plan.md", "See [[budget]] and [[money]].\n")
    assert targets(vault, "a/plan.md") == ["a/budget.md", "a/money.md"]


@pytest.fixture
def cases(folder: Path) -> Path:
    """Memories whose names differ only in case."""
    write(folder, "a b.md", "Lower.\n")
    write(folder, "A B.md", "Upper.\n")
    write(folder, "x/Plan.md", "---\naliases: [Scheme]\n---\n\n# The Plan\n")
    write(folder, "x/plan.md", "---\naliases: [scheme]\n---\n\n# The plan\n")
    return folder


EXACT_NAMES = {
    "a b": "a b.md",
    "A B": "A B.md",
    "A B.md": "A B.md",
    "x/plan": "x/plan.md",
    "x/Plan": "x/Plan.md",
    "The plan": "x/plan.md",
    "The Plan": "x/Plan.md",
    "scheme": "x/plan.md",
    "Scheme": "x/Plan.md",
    "[[plan]]": "x/plan.md",
    "[[Plan]]": "x/Plan.md",
}


@pytest.mark.parametrize(("name", "path"), EXACT_NAMES.items())
def test_exact_name_wins_over_other_case(vault: Vault, cases: Path, name: str, path: str) -> None:
    """A name written exactly as a memory's selects that memory in commands, links and headers."""
    target = name.strip("[]")
    write(cases, "from.md", f"---\nabout: '[[{target}]]'\n---\n\n[[{target}]]\n![[{target}#x]]\n")
    assert vault.show(name)["filePath"] == path
    assert vault.show(f"[[{target}|it]]")["filePath"] == path
    assert targets(vault, "from.md") == [path] * 3
    back = vault.backlinks(path)["backlinks"]
    assert [entry["filePath"] for entry in back] == ["from.md"] * 3


def test_supersedes_prefers_exact_name(vault: Vault, cases: Path) -> None:
    """A header that names a memory exactly refers to that memory, in recall and in doctor."""
    write(cases, "a b.md", "---\nsupersedes: from\n---\n\nLower.\n")
    for name, codes in (("A B", set()), ("a b", {"supersedes-circle"})):
        write(cases, "from.md", f"---\nsupersedes: {name}\n---\n\nNew.\n")
        assert {code for code, _ in told(examined(vault))} & {"supersedes-circle"} == codes
    write(cases, "a b.md", "Lower.\n")
    for name in ("a b", "A B"):
        write(cases, "from.md", f"---\nsupersedes: {name}\n---\n\nNew.\n")
        shown = {path for path in ("a b.md", "A B.md") if "supersededBy" in vault.show(path)}
        assert shown == {f"{name}.md"}


def test_name_matching_only_in_other_cases_is_ambiguous(
    vault: Vault, cases: Path, run: Run
) -> None:
    """A name without an exact match that matches several memories ignoring case is ambiguous."""
    for name in ("A b", "[[A b]]", "x/PLAN", "the PLAN", "[[SCHEME]]"):
        assert "matches 2 memories" in run("show", name, cwd=cases).err
    write(cases, "from.md", "[[A b]]\n")
    assert targets(vault, "from.md") == ["A B.md"]


def test_rename_keeps_links_to_name_in_other_case(vault: Vault, cases: Path) -> None:
    """A rename leaves links to a memory whose name differs only in case unchanged."""
    write(cases, "from.md", "[[a b]] [[A B]] [[A B|it]] [x](A%20B.md) [[x/plan]] [[SCHEME]]\n")
    vault.rename("A B.md", to="C d.md", confirm=True)
    assert "[[a b]] [[C d]] [[C d|it]] [x](C%20d.md) " in (cases / "from.md").read_text("utf-8")
    vault.rename("a b.md", to="c d.md", confirm=True)
    assert "[[c d]] [[C d]] [[C d|it]] [x](C%20d.md) " in (cases / "from.md").read_text("utf-8")
    assert targets(vault, "from.md")[:4] == ["c d.md", "C d.md", "C d.md", "C d.md"]


def test_log_prefers_exact_name_of_deleted_memory(vault: Vault, cases: Path, run: Run) -> None:
    """An exact title selects a deleted memory's log, even if a newer title differs only in case."""
    for path in ("a b.md", "A B.md"):
        succeeded(run("forget", path, "--yes", cwd=cases))
    shown = succeeded(run("log", "a b", "--json", cwd=cases)).out
    assert '"a b.md"' in shown
    assert '"A B.md"' not in shown


def test_rename_rewrites_links_of_its_folder_only(vault: Vault, projects: Path) -> None:
    """A link to the note with that name in another folder is unchanged."""
    vault.rename("beta/budget.md", to="beta/costs.md", confirm=True)
    assert "[[costs]]" in (projects / "beta/plan.md").read_text("utf-8")
    assert "[[budget]]" in (projects / "alpha/plan.md").read_text("utf-8")
    assert targets(vault, "beta/plan.md") == ["beta/costs.md"]


def test_supersedes_prefers_folder_of_its_memory(vault: Vault, folder: Path) -> None:
    """A memory supersedes the memory with that name in its own folder, not in another project."""
    for project in ("alpha", "beta"):
        write(folder, f"{project}/rate.md", f"# Rate\n\nThe rate of {project} is 3.\n")
    write(folder, "beta/new.md", "---\nsupersedes: '[[rate]]'\n---\n\n# New\n\nThe rate is 4.\n")
    shown = {
        path: vault.show(path).get("supersededBy") for path in ("alpha/rate.md", "beta/rate.md")
    }
    assert shown["alpha/rate.md"] is None
    assert shown["beta/rate.md"] is not None


def test_imported_link_prefers_folder_of_its_note(run: Run, vault: Vault, tmp_path: Path) -> None:
    """A link in an imported note still points to the note in the same folder."""
    for project in ("alpha", "beta"):
        write(tmp_path, f"old/{project}/budget.md", f"# Money of {project}\n")
        write(tmp_path, f"old/{project}/plan.md", "See [[budget]].\n")
    succeeded(run("import", str(tmp_path / "old"), "--yes"))
    imported = succeeded(run("list", "--json", "--limit", "10")).json["memories"]
    plans = [entry["filePath"] for entry in imported if entry["filePath"].endswith("plan.md")]
    assert len(plans) == 2
    for path in plans:
        assert targets(vault, path) == [path.replace("plan.md", "budget.md")]


def test_rename_leaves_markdown_link_that_still_resolves(vault: Vault, folder: Path) -> None:
    """A markdown link by name to another note of that name stays as it is."""
    for project in ("alpha", "beta", "gamma"):
        write(folder, f"{project}/budget.md", f"# Money of {project}\n")
    write(folder, "other/from.md", "[b](budget.md) and [[budget]]\n")
    before = targets(vault, "other/from.md")
    vault.rename("gamma/budget.md", to="gamma/costs.md", confirm=True)
    assert (folder / "other/from.md").read_text("utf-8") == "[b](budget.md) and [[budget]]\n"
    assert targets(vault, "other/from.md") == before


def test_superseded_by_resolves_like_a_link(vault: Vault, folder: Path) -> None:
    """A memory is superseded by the memory to which its header links."""
    header = "---\nsuperseded_by: '[[price]]'\n---\n\n"
    write(folder, "alpha/rate.md", f"{header}# Rate\n\nThe rate is 3.\n")
    write(folder, "alpha/price.md", "# Price\n\nThe price is 4.\n")
    write(folder, "alpha/old/price.md", "# Price then\n\nThe price was 2.\n")
    (linked,) = vault.links("alpha/rate.md")["links"]
    assert linked["filePath"] == "alpha/price.md"
    assert vault.show("alpha/rate.md")["supersededBy"] == linked["memId"]


def test_supersedes_resolves_like_a_link(vault: Vault, folder: Path) -> None:
    """A memory supersedes the note beside it, not one of that name in a folder below."""
    write(folder, "p/note.md", "# Note\n\nThe bell rings at 8.\n")
    write(folder, "p/archive/note.md", "# Note\n\nThe bell rang at 7.\n")
    write(folder, "p/new.md", "---\nsupersedes: '[[note]]'\n---\n\n# New\n\nIt rings at 9.\n")
    assert vault.show("p/note.md").get("supersededBy")
    assert not vault.show("p/archive/note.md").get("supersededBy")


def test_link_to_name_in_many_folders_resolves_quickly(vault: Vault, folder: Path) -> None:
    """Each of a thousand folders links to its own note of the same name."""
    for number in range(1_000):
        write(folder, f"p{number}/readme.md", f"# Project {number}\n")
        write(folder, f"p{number}/plan.md", "[[readme]]\n")
    assert vault.orphans()["total"] == 0
    assert targets(vault, "p777/plan.md") == ["p777/readme.md"]


NAMES = ("a", "b", "c", "x/a", "x/b", "y/a", "y/x/a")
NOTES = st.dictionaries(
    st.sampled_from(NAMES),
    st.tuples(
        st.lists(st.sampled_from((*NAMES, "B", "a.md", "x", "T", "gone", "../b")), max_size=4),
        st.sampled_from(("", "T", "b", "x/a")),
        st.booleans(),
    ),
    max_size=7,
)


@given(NOTES)
@settings(max_examples=examples(25))
def test_links_are_the_same_without_unlinked_memories(
    tmp_path_factory: pytest.TempPathFactory, notes: dict[str, tuple[list[str], str, bool]]
) -> None:
    """Links resolve the same if only memories with links and their possible targets are read."""
    root = tmp_path_factory.mktemp("linked")
    write(root, "memvault.toml", "version = 1\n")
    for name, (links, title, is_markdown) in notes.items():
        header = f"---\naliases: [{title}]\n---\n\n" if is_markdown and title else ""
        heading = f"# {title}\n\n" if title and not header else ""
        form = "[x]({})" if is_markdown else "[[{}]]"
        write(root, f"{name}.md", f"{header}{heading}{' '.join(map(form.format, links))}\n")
    workspace = Workspace(root)
    view = workspace.index.refresh(False, COMPLETE)
    every = LinkGraph(view.links(), view.record)
    graph = LinkGraph.without_unlinked(view, view.record)
    assert list(graph.indexed()) == list(every.indexed())
    records = list(view.records())
    assert list(graph.orphans(records)) == list(every.orphans(records))
    for entry in every.entries.values():
        for link in entry.links:
            for name in (link.target, link.beside or path_beside(link.target, entry.path)):
                assert graph.named(name) == every.named(name)
    workspace.close()


@pytest.mark.promise("S51")
def test_links_to_frequent_name_resolve_in_linear_time() -> None:
    """Many links to a name that many memories have resolve in linear time."""

    def work(size: int) -> Steps:
        links = [StoredLink("nowhere", "name", 0, "")]
        entries = {key: LinkEntry(f"{key}.md", [f"{key}", "name"], links) for key in range(size)}
        yield lambda: list(LinkGraph(entries, lambda _: None).indexed())

    check_growth(work, 1_000)


@pytest.mark.promise("S51")
def test_links_to_frequent_file_name_resolve_in_linear_time(tmp_path: Path) -> None:
    """Many links to files that have the same name in different folders resolve in linear time."""

    def work(size: int) -> Steps:
        root = tmp_path / str(size)
        for number in range(size):
            write(root, f"{number}/image.png", "")
        files = LinkedFiles(root)
        assert files.find("0/image.png", "") == "0/image.png"
        yield lambda: ["image.png" in files for _ in range(size)]
        yield lambda: [files.find(f"{number}/image.png", "") for number in range(size)]

    check_growth(work, 500)
