"""Untrusted texts and headers take time and memory in proportion to their size."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import SOAK, Run, sampled, soak_only, write
from growth import Steps, check_growth, said, seconds
from memvault import Vault
from memvault.consolidation.proposals import steps_of
from memvault.consolidation.rules import frequent_sequences
from memvault.errors import Ambiguous, NotFound
from memvault.files.git_location import RepositoryLocation
from memvault.index.local.file_analysis import header_problem
from memvault.index.local.folder_diff import split_files
from memvault.index.text.analyzer import analyzer, query_analyzer
from memvault.model import FileState
from memvault.recall.query import parse
from memvault.repository.code_files import CodeFiles
from memvault.repository.code_mentions import mentioned_code
from memvault.vault.header_patch import patch_header, patch_mapping
from memvault.vault.header_yaml import parse_header
from memvault.vault.memory_file import read_memory
from memvault.vault.names import normalize
from memvault.vault.sections import find_section

Command = Callable[..., str]
Fresh = Callable[[], Path]
_FULL = 4 if SOAK else 1
"""The factor by which ``make soak`` enlarges the inputs."""


@pytest.fixture
def fresh(tmp_path: Path) -> Fresh:
    """Creates an empty vault, and deletes the previous one."""

    def made() -> Path:
        root = tmp_path / "fresh"
        shutil.rmtree(root, ignore_errors=True)
        write(root, "memvault.toml", "version = 1\n")
        return root

    return made


@pytest.mark.promise("S51")
@pytest.mark.parametrize("marks", ["<<<<<<< a\n", "<<<<<<< a\n=======\n"])
def test_context_handles_many_conflict_markers(fresh: Fresh, marks: str) -> None:
    """An entry full of partial conflict markers is read as fast as any of its size."""
    told: list[str] = []

    def work(size: int) -> Steps:
        root = fresh()
        write(root, "agents/main/goals/report.md", "---\nid: report\n---\nHand in the report\n")
        write(root, "agents/main/goals/odd.md", marks * (size // len(marks)))
        yield lambda: told.append(said(root, "context", "the report", "--budget", "3000"))
        assert "Hand in the report" in told[-1]

    check_growth(work, 250_000)


def test_conflict_markers_are_reported(run: Run, folder: Path) -> None:
    """Git conflict markers are reported if all three start lines in the right order."""
    conflict = "a\n<<<<<<< ours\nb\n=======\nc\n>>>>>>> theirs\n"
    goals = "agents/main/goals"
    write(folder, f"{goals}/torn.md", conflict)
    write(folder, f"{goals}/empty.md", "<<<<<<< ours\n=======\n>>>>>>> theirs")
    write(folder, f"{goals}/quoted.md", conflict.replace("\n", "\n> "))
    write(folder, f"{goals}/half.md", "<<<<<<< ours\nb\n=======\nc\n")
    said = run("goals", "get").err
    assert [
        name for name in ("torn", "empty", "quoted", "half") if f"{name}.md contains" in said
    ] == [
        "torn",
        "empty",
    ]


@pytest.mark.promise("S51")
@pytest.mark.parametrize("text", [" ", "< ", "<"])
def test_repetitive_message_does_not_stall_the_reader(fresh: Fresh, text: str) -> None:
    """A message of 100,000 brackets and spaces does not delay the reader's context."""

    def work(size: int) -> Steps:
        root, written = fresh(), "x<" + text * (size // len(text)) + "x"
        said(root, "space", "enter", "team", "--agent", "bob")
        yield lambda: said(root, "memories", "set", f"note={written}", "--agent", "bob")
        yield lambda: said(root, "talk", "agent", "bob", written)
        yield lambda: said(root, "context", "x", "--agent", "bob")
        yield lambda: said(root, "inbox", "peek", "--agent", "bob")

    check_growth(work, 25_000)


def test_repeated_long_action_list_is_one_sequence() -> None:
    """Two episodes with the same hundred actions share one sequence, not thousands of parts."""
    told = [f"Turn wheel {number}" for number in range(100)]
    other = ["Open the gate", *told[:3], "Shut the gate"]
    found = frequent_sequences([told, told, other], analyzer("english"), 2)
    assert sorted((len(steps.key), steps.episodes) for steps in found) == [
        (3, (0, 1, 2)),
        (100, (0, 1)),
    ]


_SENTENCES = {
    "long words": "a" * 299 + ". ",
    "many words": "a b c d e f g h i j k l m n o p q r s t u v w x y z " * 5 + "1. ",
    "values": "The a is " + "the " * 70 + "1. ",
    "blanks": "The door is" + " " * 280 + "open. ",
    "dots": "The door is " + "." * 280 + " . ",
    "marks": "`" * 299 + ". ",
    "addresses": "a://" * 70 + ". ",
    "joints": "a_" * 140 + ". ",
    "steps": "1. " * 90 + ". ",
}


@pytest.mark.promise("S51")
@sampled(12)
@pytest.mark.parametrize("name", _SENTENCES)
def test_consolidation_takes_linear_time(fresh: Fresh, name: str) -> None:
    """Consolidating episodes of many hard-to-compare sentences takes linear time."""

    def work(size: int) -> Steps:
        root = fresh()
        lines = [f"{number} {_SENTENCES[name]}" for number in range(size)]
        told = f"## Context\n\n- {lines[0]}\n\n## Reflection\n\n{''.join(lines)}\n{lines[0]}\n"
        for episode in range(3):
            write(root, f"episode/{episode}.md", f"# Episode {episode}\n\n{told}")
            write(root, f"fact/{episode}.md", "\n".join(lines))
            write(root, f"procedure/{episode}.md", "\n" * 333 * size + "1. a\n2. b\n")
        yield lambda: said(root, "consolidate", "--json")

    check_growth(work, 20 * _FULL)


@pytest.mark.promise("S51")
@sampled(12)
@pytest.mark.parametrize("mark", ['"', "“", "„", "«", '"a" ', "from between ", "in may ", "字"])
def test_huge_query_does_not_stall(fresh: Fresh, mark: str) -> None:
    """A query of 100,000 quotes, dates or words is answered like any other."""

    def work(size: int) -> Steps:
        root = fresh()
        write(root, "a.md", "# A\n\nperiwinkle in may\n")
        write(root, "b.md", "# B\n\n" + "periwinkle 字 may a. " * (size // 5))
        said(root, "list")  # index them
        query = "periwinkle " + mark * ((size - 11) // len(mark))
        yield lambda: said(root, "call", "memory_recall", json.dumps({"query": query}))

    check_growth(work, 25_000)


_BODIES = {
    "accents": "\u0300\u0316" * 200_000,
    "half-wide accents": "\uff9e\u0316" * 100_000,
    "one word": "y" * 1_000_000,
    "one identifier": "aA1_" * 80_000,
    "headings": "## Context\n- a\n" * 20_000,
    "quotes": "> " * 500_000,
    "fences": "```\n" * 80_000,
    "brackets": "< " * 500_000,
    "numbers": "1. " * 100_000,
    "bare headings": "# \n" * 100_000,
    "tabs": "\t" * 1_000_000,
    "returns": "\r" * 200_000,
}


@pytest.mark.promise("S51")
@sampled(12)
@pytest.mark.parametrize("name", _BODIES)
def test_repetitive_text_does_not_stall_the_vault(fresh: Fresh, name: str) -> None:
    """Memories, episodes and goals with very many repeated characters cause no delay."""
    whole = _BODIES[name]

    def work(size: int) -> Steps:
        root, body = fresh(), whole[: size * len(whole) // 64]
        write(root, "notes/note.md", f"# Note\n\n{body}\n\nheliotrope\n")
        write(root, "episode/body.md", body)
        write(root, "agents/main/goals/body.md", body)
        write(root, "fine.md", "# Fine\n\nperiwinkle\n")
        yield lambda: said(root, "recall", "periwinkle", "--mode", "keyword", "--json")
        yield lambda: said(root, "recall", "heliotrope", "--json")
        yield lambda: said(root, "list", "--json")
        yield lambda: said(root, "context", "periwinkle", "--json")
        yield lambda: said(root, "consolidate", "--json")

    check_growth(work, 16 if SOAK else 2)


@pytest.mark.promise("S51")
@sampled(12)
@pytest.mark.parametrize("heading", ["# a\n", "# a\n## b{}\n", "###### a\n# b\n"])
def test_section_lookup_takes_linear_time(fresh: Fresh, heading: str) -> None:
    """Showing or replacing a section takes linear time in the number of headings."""

    def work(size: int) -> Steps:
        root = fresh()
        body = "".join(heading.format(number) for number in range(size))
        write(root, "many.md", f"# Many\n\n{body}# End\n\nheliotrope\n")
        yield lambda: said(root, "show", "many.md", "--section", "End")
        yield lambda: said(root, "compound", "many.md", "cattleya", "--section", "End")
        yield lambda: said(root, "compound", "many.md", "new", "--section", "Missing")
        assert "# End\n\ncattleya\n\n## Missing\n\nnew\n" in (root / "many.md").read_text("utf-8")
        yield lambda: _failed(NotFound, body, "Missing/One")
        yield lambda: _failed(Ambiguous, f"# z\n{body}", "a")

    check_growth(work, 5_000)


def _failed(error: type[Exception], body: str, wanted: str) -> None:
    with pytest.raises(error):
        find_section(body, wanted)


@pytest.mark.promise("S51")
@pytest.mark.parametrize("piece", ["a_", "_", "aA", "A", "A0", "a.", "a::", "`a(", "a/", "a:1 "])
def test_code_in_a_text_is_found_in_linear_time(fresh: Fresh, piece: str) -> None:
    """A text with very long or very many names of code is searched as fast as any of its size."""
    root = fresh()
    location = RepositoryLocation(root, root / ".git", root / ".git")

    def work(size: int) -> Steps:
        text = "`x` " + piece * (size // len(piece)) + "$"
        yield lambda: mentioned_code(text, "", CodeFiles(root, location), lambda: None)

    check_growth(work, 12_500)


def test_parsers_accept_ordinary_text() -> None:
    """Steps, phrases and accents are parsed in every common spelling."""
    assert steps_of("Do this:\n 1. first  \n\n2) second one\n10. tenth\nno step\n3.\n") == (
        "first",
        "second one",
        "tenth",
    )
    english = query_analyzer(("english",))
    assert parse('"the red door" opens', english).phrases == ("the red door",)
    assert parse("“red door”, «green door» „blue door“", english).phrases == (
        "red door",
        "green door",
        "blue door",
    )
    assert normalize("NFC", "e\u0301" * 1_000) == "é" * 1_000
    assert normalize("NFC", "字か\u3099" * 100) == "字が" * 100


_WORDS = " ".join(f"word{number:06}" for number in range(9_000))
"""100 KB of different words."""
_REPEATED = {
    "a heading": f"# {_WORDS}\n\n",
    "a title": f"---\ntitle: {_WORDS}\n---\n",
    "a path of headings": "".join(f"{'#' * level} {_WORDS[::level]}\n\n" for level in range(1, 7)),
    "tags and values": f"---\ntags: [{_WORDS.replace(' ', ',')[:48_000]}]\n"
    f"aliases: [{_WORDS}]\nx: [{', '.join([_WORDS[:499]] * 100)}]\n---\n",
}


class Cost(NamedTuple):
    """A process's cost: peak memory in bytes, and CPU seconds."""

    peak: int
    seconds: float


_LINES, _MORE = (110_000, 150_000_000) if SOAK else (27_500, 50_000_000)
"""The lines of a text of 4 or 1 MB, and the additional memory allowed for a long beginning."""


def _cost(root: Path, head: str) -> Cost:
    """Index a long file with such a beginning in a process; return the cost."""
    write(root, "memvault.toml", "version = 1\n")
    write(root, "notes/a.md", head + "The river rose in spring and fell.\n\n" * _LINES)
    command = [sys.executable, "-m", "memvault", "recall", "river", "--json"]
    child = subprocess.Popen(command, cwd=root, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0
    unit = 1 if sys.platform == "darwin" else 1024
    return Cost(usage.ru_maxrss * unit, usage.ru_utime + usage.ru_stime)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Cost:
    """The cost of the same text with a one-letter title."""
    return _cost(tmp_path_factory.mktemp("plain"), "# A\n\n")


@pytest.mark.promise("S53")
@sampled(12)
@pytest.mark.parametrize("name", _REPEATED)
def test_large_title_is_not_indexed_per_passage(folder: Path, plain: Cost, name: str) -> None:
    """100 KB of title, headings or tags above a long body take little extra time."""
    found = _cost(folder, _REPEATED[name])
    assert found.peak < plain.peak + _MORE
    assert found.seconds < 6 * plain.seconds


def test_long_title_is_searched_completely(vault: Vault, folder: Path) -> None:
    """Titles, tags and other values are searched beyond their first lines."""
    text = "The river rose.\n\n" * 2_000
    write(folder, "a.md", f"---\ntitle: {_WORDS} zeppelin\nx: [{_WORDS[:499]}, heron]\n---\n{text}")
    write(folder, "b.md", f"---\ntags: [{_WORDS.replace(' ', ',')[:4_000]}, osprey]\n---\n{text}")
    for word, path in (("zeppelin", "a.md"), ("heron", "a.md"), ("osprey", "b.md")):
        found = vault.call("memory_recall", query=word, type="keyword")["memories"]
        assert [entry["filePath"] for entry in found] == [path]


def test_many_short_headings_share_passages(vault: Vault, folder: Path) -> None:
    """A body of only short headings has fewer passages than lines."""
    write(folder, "a.md", "# a\n" * 60_000 * _FULL + "\n# Last\n\nperiwinkle\n")
    found = vault.call("memory_recall", query="periwinkle")["memories"]
    assert [entry["filePath"] for entry in found] == ["a.md"]
    assert vault.call("vault_status")["embedder"]["vectors"] < 3_000


@given(st.lists(st.integers(0, 20_000_000), max_size=60))
def test_files_are_indexed_in_bounded_batches(sizes: list[int]) -> None:
    """A batch is one file, or at most 8 MB and 2,000 files, in order and without gaps."""
    files = [FileState(f"{number}.md", size, 0, 0, 0) for number, size in enumerate(sizes)]
    parts = split_files(files)
    assert [state for part in parts for state in part] == files
    assert all(len(part) == 1 or sum(state.size for state in part) <= 8_000_000 for part in parts)
    assert [len(part) for part in split_files([FileState("a.md", 9, 0, 0, 0)] * 4_500)] == [
        2_000,
        2_000,
        500,
    ]


def test_ignore_patterns_never_hang(fresh: Fresh) -> None:
    """Dozens of stars in ``ignore`` do not noticeably slow down a folder scan."""
    told: list[str] = []

    def work(stars: int) -> Steps:
        root = fresh()
        globs = ["*a" * stars + "b", "**/" * stars + "x", "?*" * stars + "b"]
        write(root, "memvault.toml", f"version = 1\nignore = {json.dumps(globs)}\n")
        write(root, f"{'a' * 200}/{'a' * 200}/{'a' * 200}.md", "# A\n\nperiwinkle\n")
        yield lambda: told.append(said(root, "recall", "periwinkle", "--json"))
        assert json.loads(told[-1])["count"] == 1

    check_growth(work, 15)


def test_impossible_plan_date_is_rejected_quickly(fresh: Fresh) -> None:
    """Plans for February 30 or for impossible Mondays take little time to check."""

    def work(*lines: str) -> None:
        root = fresh()
        for number in range(40):
            line = lines[number % len(lines)]
            text = f"---\nid: p{number}\nname: P\ncron: '{line}'\n---\nDo it\n"
            write(root, f"agents/main/plans/{number}.md", text)
        for words in (["plans", "get"], ["inbox", "peek"], ["context"]):
            said(root, *words, "--json")

    work("0 0 3 2 *")  # warm up, so that all modules are loaded
    usual = seconds(lambda: work("0 0 3 2 *"))
    never = ("0 0 30 2 *", "0 0 */30 2 MON#5", "* * */27 * MON#5", "59 23 */27 2 0#5")
    assert seconds(lambda: work(*never)) < 40 * max(usual, 0.03)


_AS_WRITTEN = {
    "!!int 5": "5",
    '!!int "0x1f"': "0x1f",
    '!!int "1:30"': "1:30",
    '!!float ".inf"': ".inf",
    "!!float 1.5": "1.5",
    "!!bool yes": "yes",
    "!!bool true": "true",
    "!!null ~": "~",
    "!!null": "",
    "!!str 5": "5",
    "!!binary aGk=": "aGk=",
    "!!timestamp 2026-13-99": "2026-13-99",
    "!!python/name:os.system x": "x",
    "!!python/object/apply:os.system 'touch pwned'": "touch pwned",
    "!foo bar": "bar",
    "!foo 5": "5",
    "!<tag:example.org,2026:x> 5": "5",
    "!<int> 5": "5",
    "!!merge <<": "<<",
    "!!map text": "text",
    "9223372036854775808": "9223372036854775808",
    "-9223372036854775809": "-9223372036854775809",
    "1.0e+999": "1.0e+999",
    "-1.5e999": "-1.5e999",
    ".nan": ".nan",
}
_AS_MEANT = {
    "9223372036854775807": 2**63 - 1,
    "-9223372036854775808": -(2**63),
    "1.5e300": 1.5e300,
    "!!seq [1, b]": [1, "b"],
    "!!set {a, b}": {"a": None, "b": None},
    "!!omap [a: 1, b: 2]": [{"a": 1}, {"b": 2}],
    "!!pairs [a: 1]": [{"a": 1}],
    "!!map {a: 1}": {"a": 1},
    "!!str [a]": ["a"],
    "!!int {a: !!int 1}": {"a": "1"},
    "!foo [1]": [1],
    "!foo {a: !bar [1]}": {"a": [1]},
    "!!python/tuple [1, 2]": [1, 2],
    "!!python/object:os.PathLike {a: 1}": {"a": 1},
    "!!timestamp [x]": ["x"],
}


@pytest.mark.promise("S54")
@pytest.mark.parametrize(("written", "read"), [*_AS_WRITTEN.items(), *_AS_MEANT.items()])
def test_yaml_tag_creates_only_plain_values(written: str, read: object) -> None:
    """A tagged YAML scalar is its text, and a tagged list or mapping is a plain one."""
    header = f"a: 1\nx: {written}\nz: last\n"
    found = parse_header(header)
    assert found == {"a": 1, "x": read, "z": "last"}
    assert type(found["x"]) is type(read)
    assert json.loads(json.dumps(found)) == found
    changed = patch_header(header, {"a": 2, "x": "new", "z": None})
    assert changed == "a: 2\nx: new\n"
    assert patch_header(header, {"n": 3}) == f"{header}n: 3\n"
    inside = f"k: {{x: {written}, b: 1}}\nz: last\n"
    if "[" not in written and "{" not in written and written != "!!null":
        assert patch_mapping(inside, "k", "b", 2) == inside.replace("b: 1", "b: 2")


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**400])
def test_integer_beyond_64_bits_is_kept_as_text(number: int) -> None:
    """An integer over 64 bits is written with all its digits and read back as text."""
    assert parse_header(patch_header("a: 1\n", {"x": number})) == {"a": 1, "x": str(number)}


_DIGITS = 240_000
HEADERS = {
    "a hexadecimal number": f'x: !!int "0x{"f" * _DIGITS}"\n',
    "a number to the base of sixty": f'x: !!int "{"1:" * (_DIGITS // 2)}1"\n',
    "a long title": f'title: !!int "{"9" * 9_000}"\n',
    "a long hexadecimal title": f'title: !!int "0x{"9" * 9_000}"\n',
    "a long number": f"x: {'9' * _DIGITS}\n",
    "a long fraction": f"x: 0.{'9' * _DIGITS}\n",
    "a long whole part": f"x: {'9' * _DIGITS}.5\n",
    "an exponent": "importance: 1.0e+999\nconfidence: -1.0e+999\n",
    "an importance": f'importance: {"9" * 300}\nconfidence: !!int "{"9" * 5_000}"\n',
    "not a number": "importance: !!float .nan\n",
    "a date": "created: !!timestamp 2026-99-99\nmodified: !!timestamp [x]\n",
    "bytes": "tags: !!binary '*'\n",
    "an object": "tags: !!python/object/apply:os.system ['touch pwned']\n",
    "odd keys": "? !!int '0xff'\n: 1\n? !!timestamp x\n: 2\n",
    "one value many times": f"a: &a {'b' * 200_000}\nx: [{'*a,' * 4_900}]\n",
    "one key many times": f"a: &a {'b' * 200_000}\nx: [{'{*a : 1},' * 2_000}]\n",
    "a tag of many letters": f"x: !{'a' * _DIGITS} 1\n",
    "a memory's type": f"memory_type: !!int '{'9' * 5_000}'\nid: !!int '{'9' * 5_000}'\n",
}


def _answered(root: Path, texts: Iterable[str]) -> list[Any]:
    """Query a vault of such memories; return the answers."""
    for number, text in enumerate(texts):
        write(root, f"bomb{number}.md", f"{text}heliotrope{number}\n")
        write(root, f"episode/bomb{number}.md", f"{text}text\n")
    write(root, "memvault.toml", "version = 1\n")
    write(root, "fine.md", "---\nx: 1\n---\n# Fine\n\nperiwinkle\n")
    return [
        json.loads(said(root, *words, "--json"))
        for words in (
            ["recall", "periwinkle", "--mode", "keyword"],
            ["recall", "periwinkle", "--filter", "x == 1"],
            ["recall", "heliotrope7"],
            ["status"],
            ["consolidate"],
            ["list", "--limit", "100"],
        )
    ]


@soak_only
@pytest.mark.promise("S54")
def test_complex_headers_do_not_slow_indexing(folder: Path, tmp_path: Path) -> None:
    """A memory with a complex header is found as fast as a plain one."""
    plain = [f"---\nx: 2\n---\n{'so a word. ' * (len(text) // 44)}" for text in HEADERS.values()]
    answers: list[Any] = []
    _answered(tmp_path / "warm", plain[:1])
    quarter = seconds(lambda: _answered(tmp_path / "plain", plain))
    odd = [f"---\n{header}---\n" for header in HEADERS.values()]
    whole = seconds(lambda: answers.extend(_answered(folder, odd)))
    assert whole < 3 * 4 * quarter
    assert "damaged" not in str(answers)
    assert [found["memories"][0]["filePath"] for found in answers[:3]] == [
        *["fine.md"] * 2,
        "bomb7.md",
    ]
    assert len(answers[-1]["memories"]) == 2 * len(HEADERS) + 1
    assert not list(folder.rglob("pwned"))


@pytest.mark.promise("S54")
def test_unindexable_header_is_reported() -> None:
    """A value that JSON or UTF-8 cannot encode is reported and does not damage the index."""
    state = FileState("notes/a.md", 1, 0, 0, 0)
    memory = read_memory(b"---\nx: 1\n---\ntext\n", state, frozenset())
    assert header_problem(memory, state) == ""
    for odd in (
        {"metadata": {"x": object()}},
        {"metadata": {"x": float("inf")}},
        {"title": "\ud800"},
    ):
        assert "cannot be indexed" in header_problem(memory._replace(**odd), state)
