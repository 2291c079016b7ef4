"""Filters in a query mean the same in every front end; all other text is searched as words."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import Run, examples, refused, succeeded, write
from memvault import Vault, open_vault
from memvault.call import LOCAL
from memvault.cli.browse.session import BrowserSession
from memvault.recall import query_filters
from memvault.recall.filters import Filters
from memvault.web.session import WebSession


class Note(NamedTuple):
    """A note in the vault, with a task."""

    path: str
    kind: str
    tags: tuple[str, ...]
    day: str
    text: str


NOTES = [
    Note("fact/a.md", "fact", ("work",), "2020-01-05", "The deploy of the harbour failed"),
    Note("fact/b.md", "fact", ("work", "net/dns"), "2021-02-05", "A draft about the deploys"),
    Note("issue/c.md", "issue", (), "2022-03-05", "The harbour is closed, says the draft"),
    Note("issue/d.md", "issue", ("net",), "2023-04-05", "A lease expired"),
    Note("My Notes/old/e.md", "context", ("Home",), "2020-06-01", "Tea in the harbour"),
    Note("My Notes/f.md", "context", ("home",), "2024-07-01", "数据库需要备份 and a draft lease"),
    Note("g.md", "learning", (), "2024-08-01", "The well known port closed"),
]
FrontEnd = Callable[[str], set[str]]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vault with the notes."""
    root = tmp_path_factory.mktemp("filters") / "vault"
    write(root, "memvault.toml", "version = 1\n")
    for number, note in enumerate(NOTES):
        header = f"memory_type: {note.kind}\ntags: [{', '.join(note.tags)}]\nmodified: {note.day}"
        write(root, note.path, f"---\n{header}\n---\n\n# N{number}\n\n{note.text}.\n\n- [ ] t\n")
    return root


@pytest.fixture(scope="module")
def front_ends(root: Path) -> Iterator[dict[str, FrontEnd]]:
    """The paths of the memories that each front end finds for a query."""
    browser, pages = BrowserSession(root, LOCAL), WebSession(root)

    def paths(found: Mapping[str, Any], key: str = "memories") -> set[str]:
        assert found.get("success", True), found
        return {entry["filePath"] for entry in found[key]}

    def browsed(query: str) -> set[str]:
        found = browser.search(query).result()
        assert found is not None
        return {memory.path for memory in found.memories}

    with open_vault(root) as vault:

        def saved(query: str) -> set[str]:
            assert vault.call("save_search", name="mine", query=query)["success"]
            return paths(vault.call("memory_recall", query="@mine"))

        def saved_and_filtered(query: str) -> set[str]:
            vault.call("save_search", name="every", query="until:2999")
            return paths(vault.call("memory_recall", query=f"@every {query}"))

        yield {
            "recall": lambda query: paths(vault.call("memory_recall", query=query)),
            "list": lambda query: paths(vault.call("memory_list", query=query)),
            "tasks": lambda query: paths(vault.call("list_tasks", query=query), "tasks"),
            "browse": browsed,
            "web": lambda query: paths(pages.search(query)),
            "saved": saved,
            "saved with filters": saved_and_filtered,
        }
    browser.close()
    pages.close()


def is_tagged(note: Note, tag: str) -> bool:
    """Return whether a note has a tag or a tag nested in it."""
    return any(f"{own.lower()}/".startswith(f"{tag.lower()}/") for own in note.tags)


PARTS: dict[str, Callable[[Note], bool]] = {
    "tag:work": lambda note: is_tagged(note, "work"),
    "tag:#net": lambda note: is_tagged(note, "net"),
    "tag:home": lambda note: is_tagged(note, "home"),
    "-tag:work": lambda note: not is_tagged(note, "work"),
    "type:fact": lambda note: note.kind == "fact",
    "type:Issue": lambda note: note.kind == "issue",
    "-type:fact": lambda note: note.kind != "fact",
    "in:fact": lambda note: note.path.startswith("fact/"),
    'in:"My Notes"': lambda note: note.path.startswith("My Notes/"),
    'in:"my notes/old/"': lambda note: note.path.startswith("My Notes/old/"),
    "in:note": lambda _: False,
    "-in:issue": lambda note: not note.path.startswith("issue/"),
    "since:2022": lambda note: note.day >= "2022",
    'since:"2023-04-05"': lambda note: note.day >= "2023-04-05",
    "until:2021-02": lambda note: note.day < "2021-03",
    "-draft": lambda note: "draft" not in note.text,
    "-HARBOUR": lambda note: "harbour" not in note.text,
    "-deploy": lambda note: "deploy" not in note.text,
    '-"draft lease"': lambda note: "draft lease" not in note.text,
    '-"lease draft"': lambda _: True,
    "-数据库": lambda note: "数据库" not in note.text,
}
"""Filters, each with a function that returns whether a note passes."""
FILTERS = sorted(PARTS)


@given(parts=st.lists(st.sampled_from(FILTERS), min_size=1, max_size=3, unique=True))
@settings(max_examples=examples(60))
def test_query_filters_find_the_same_in_every_front_end(
    front_ends: dict[str, FrontEnd], parts: list[str]
) -> None:
    """Recall, list, tasks, browse, web and saved searches list exactly the matching notes."""
    kinds = [part for part in parts if part.startswith("type:")]
    folders = [part for part in parts if part.startswith("in:")]
    rest = [part for part in parts if part not in (*kinds, *folders)]
    expected = {
        note.path
        for note in NOTES
        if all(PARTS[part](note) for part in rest)
        and all(any(PARTS[part](note) for part in some) for some in (kinds, folders) if some)
    }
    days = [part.partition(":")[0] for part in rest if ":" in part]
    if len(days) != len(set(days)) and {"since", "until"} & {*days}:
        return  # the last filter of a kind counts
    query = " ".join(parts)
    found = {name: find(query) for name, find in front_ends.items()}
    assert found == dict.fromkeys(front_ends, expected), query


@pytest.mark.parametrize("part", FILTERS)
def test_query_filter_finds_the_same_everywhere(front_ends: dict[str, FrontEnd], part: str) -> None:
    """A single filter finds exactly the same notes in recall, list and tasks."""
    expected = {note.path for note in NOTES if PARTS[part](note)}
    for name in ("recall", "list", "tasks"):
        assert front_ends[name](part) == expected, name


def test_query_words_and_filters_combine(front_ends: dict[str, FrontEnd]) -> None:
    """Recall ranks the memories that pass the filters; a listing also requires every word."""
    for query in ("harbour -draft in:fact", "tag:work harbour -draft", "-draft harbour type:fact"):
        for name in ("recall", "browse", "web", "saved"):
            assert front_ends[name](query) == {"fact/a.md"}, (name, query)
    assert front_ends["list"]("harbour draft") == {"issue/c.md"}
    assert front_ends["tasks"]("harbour draft") == {"issue/c.md"}
    assert front_ends["list"]('"well known"') == {"g.md"}
    assert front_ends["list"]("harbours -draft since:2020-02") == {"My Notes/old/e.md"}
    assert front_ends["list"]("nowhere") == set()


@pytest.mark.parametrize(
    "text",
    [
        "error: disk full",
        "http://tag.example/in:x?a=b",
        "foo:bar",
        "std::type::name",
        "12:30 in the morning",
        "tag: work",
        "mistype:fact",
        "a well-known port",
        "-5 degrees",
        "ls -l",
        "git log --oneline",
        "this - or that -- perhaps",
        '"tag:work is text" "a -draft"',
        "since:yesterdayish",
        "why\n-draft and tag:work",
        "word " * 30 + "-draft",
        "",
        "-",
        ":",
        "tag:",
        'tag:""',
    ],
)
def test_query_treats_other_colons_and_dashes_as_text(text: str) -> None:
    """Colons and dashes that do not start a filter leave a query unchanged."""
    line = query_filters.parse(text)
    assert (line.words, line.filters) == (text, Filters())


@given(text=st.text(alphabet='tag:ype in since-"ab1é数\n', max_size=30))
@settings(max_examples=examples(200))
def test_query_parser_accepts_any_text(text: str) -> None:
    """Any string can be parsed, and a prompt reduced to words has no filters."""
    query_filters.parse(text)
    line = query_filters.parse(query_filters.as_words(text))
    assert line.filters == Filters()


def test_query_invalid_date_filter_is_reported(root: Path, run: Run) -> None:
    """An invalid date filter is searched as words, with a note."""
    said = succeeded(run("list", "since:someday", cwd=root))
    assert "'someday' is not a date" in said.err


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("list -draft in:issue", {"N3"}),
        ("list tag:work -draft --sort title", {"N0"}),
        ("tasks in:issue -draft -n 5", {"N3"}),
        ("tasks -T work -draft", {"N0"}),
        ("recall -draft -type:context -lease -port", {"N0"}),
        ("recall -draft type:fact -n5", {"N0"}),
        ("list -tag:work -draft -in:issue -type:learning --limt 3", None),
        ("list -tea -lease -draft -port --limit 3", {"N0"}),
        ("browse tag:work -draft", {"N0"}),
        ("list -- -draft in:fact", {"N0"}),
    ],
)
def test_query_excluded_words_need_no_quotes_in_shell(
    root: Path, run: Run, line: str, expected: set[str] | None
) -> None:
    """In query commands -word excludes a word; short and invalid options keep their meaning."""
    ran = run(*shlex.split(line), cwd=root)
    if expected is None:
        assert "--limit" in refused(ran, 2) + ran.err
        return
    assert {f"N{n}" for n in range(len(NOTES)) if f"N{n}" in succeeded(ran).out} == expected


def test_query_filter_with_unknown_tag_is_reported(vault: Vault, folder: Path) -> None:
    """Query filters that match no memory get the same notes as arguments."""
    write(folder, "fact/a.md", "---\ntags: [network]\n---\n# A\n")
    for tool in ("memory_recall", "memory_list"):
        warnings = vault.call(tool, query="tag:netwrok")["warnings"]
        assert warnings == ["there is no tag 'netwrok'; did you mean network?"]
        assert "no memories in 'facts'" in vault.call(tool, query="in:facts")["warnings"][0]


ATTACHED = {
    "-n1": (["--limit", "1"], ""),
    "-tfact": (["--type", "fact"], ""),
    "-tIssue": (["--type", "issue"], ""),
    "-Twork": (["--tags", "work"], ""),
    "-temp": ([], "temp"),
    "-notes": ([], "notes"),
    "-tfacts": ([], "tfacts"),
    "-verbose": ([], "verbose"),
}
"""Words on a command line, each with the option it is parsed as, or the word it excludes."""


@pytest.mark.parametrize("typed", ATTACHED)
@pytest.mark.parametrize("command", ["recall", "list", "tasks"])
def test_query_short_option_accepts_attached_value(
    folder: Path, run: Run, command: str, typed: str
) -> None:
    """-tfact means --type fact, as in other programs; an invalid value excludes a word."""
    options, excluded = ATTACHED[typed]
    words = ("temp", "notes", "tfacts", "verbose", "plain", "plain")
    for number, word in enumerate(words):
        kind, tag = ("fact", "work") if number % 2 else ("issue", "home")
        header = f"---\ntags: [{tag}]\n---\n# Boat {number}\n\n"
        write(folder, f"{kind}/{number}.md", f"{header}- [ ] The boat is {word}.\n")
    key = "tasks" if command == "tasks" else "memories"
    shown = {entry["title"] for entry in run(command, "boat", typed, "--json").json[key]}
    if options:
        alike = run(command, "boat", *options, "--json").json[key]
        assert shown == {entry["title"] for entry in alike}
        assert len(shown) < 6
    else:
        assert shown == {f"Boat {n}" for n in range(6) if words[n] != excluded}


@pytest.mark.parametrize("command", ["recall", "list", "tasks"])
def test_query_option_of_pasted_command_is_reported(folder: Path, run: Run, command: str) -> None:
    """A note says that -av excluded a word and how to search for it; -draft needs no note."""
    write(folder, "sync.md", "# Sync\n\n- [ ] Run rsync -av every day.\n")
    note = "-av excluded memories with the word 'av'; to search for it, quote it: \"-av\""
    assert note in run(command, "rsync", "-av").err
    found = run(command, "rsync", '"-av"')
    assert "Sync" in found.out or "rsync" in found.out
    assert "excluded" not in found.err
    assert "excluded" not in run(command, "rsync", "-draft").err


def test_forget_applies_filters_in_the_query(folder: Path, run: Run) -> None:
    """Filters in a forget query limit the candidates; a title that looks like a filter does not."""
    for path in ("odd/a.md", "odd/b.md", "other/c.md"):
        write(folder, path, f"# {path[-4].upper()} deadline\n\nThe deadline is in May.\n")
    write(folder, "d.md", "# Rules tag:work\n\nUnrelated.\n")

    def candidates(*words: str) -> list[str]:
        shown = succeeded(run("forget", *words, "--json")).json["candidates"]
        return sorted(entry["filePath"] for entry in shown)

    assert candidates("in:odd") == ["odd/a.md", "odd/b.md"]
    assert candidates("A deadline in:other") == []
    assert candidates("A", "deadline", "in:odd")[:1] == ["odd/a.md"]
    assert candidates("Rules tag:work") == ["d.md"]


def test_list_reports_lack_of_matches(folder: Path, run: Run) -> None:
    """A list without matches says so."""
    write(folder, "a.md", "# A\n")
    assert succeeded(run("list", "nonsense")).out == "No memories found\n"
    assert "message" not in succeeded(run("list", "nonsense", "--json")).json
