"""Whatever is in the files or on the command line: a right answer or one clear sentence."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from conftest import Run, child, refused, succeeded, titles, without_rights, write
from memvault import Vault

FILES: dict[str, tuple[bytes, str, str]] = {
    "broken.md": (b"---\ntitle: [a\n---\n\nword0 x\n", "word0", "broken front matter: line 3"),
    "tabs.md": (b"---\na:\n\tb: c\n---\nword1\n", "word1", "broken front matter: line 3"),
    "endless.md": (b"---\ntitle: x\n\nword2\n", "word2", "no closing line"),
    "list.md": (b"---\n- a\n---\nword3\n", "word3", "not a list of keys"),
    "binary.md": (bytes(range(256)) * 40, "binary", "binary"),
    "cp1252.md": ("# Café\n\nword5 “€”\n".encode("cp1252"), "word5", "not UTF-8, read as cp1252"),
    "latin1.md": (b"word6 \x81\xe9\n", "word6", "not UTF-8, read as latin-1"),
    "utf16.md": ("# Größe\n\nword7\n".encode("utf-16"), "word7", ""),
    "utf16be.md": (b"\xfe\xff" + "# 字\n\nword8\n".encode("utf-16-be"), "word8", ""),
    "utf32.md": ("# Größe\n\nword9\n".encode("utf-32"), "word9", ""),
    "bom.md": (b"\xef\xbb\xbf---\r\ntitle: T\r\n---\r\nword10\r\n", "word10", ""),
    "mac.md": (b"---\rtitle: Mac\r---\rword11\r", "word11", ""),
    "nul.md": (b"word12 a\0b" + b" and text" * 99, "word12", ""),
    "empty.md": (b"", "empty", ""),
    "mark.md": (b"\xef\xbb\xbf", "mark", ""),
    "folder.md/inner.md": (b"word15\n", "word15", ""),
    "half.md": (b"\xff\xfe\x00", "half", "not UTF-8, read as cp1252"),
    "short.md": (b"word16 a\0b\n", "word16", ""),
    "bells.md": (b"\x07\x07\0 word17\x1b\n", "word17", ""),
    "many.md": (
        b"---\n" + b"".join(b"k%d: 1\n" % n for n in range(9_000)) + b"---\nx",
        "many",
        "many",
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_odd_files_are_found_by_their_text_and_never_rewritten(
    vault: Vault, folder: Path, name: str
) -> None:
    """A file of any bytes is listed, found by what can be read of it, and left as it is."""
    data, word, problem = FILES[name]
    file = write(folder, name, data)
    write(folder, "fine.md", "# Fine\n\nother text\n")
    listed = {entry["filePath"]: entry for entry in vault.call("memory_list")["memories"]}
    assert listed.keys() == {name, "fine.md"}
    assert problem in listed[name].get("problem", "")
    assert bool(problem) is ("problem" in listed[name])
    for mode in ("keyword", "hybrid"):
        answer = vault.call("memory_recall", query=word, type=mode)
        assert answer["memories"][0]["filePath"] == name
    shown = vault.call("memory_show", memId=name)
    assert shown["success"]
    assert ("title" in shown["metadata"]) is (name in ("bom.md", "mac.md"))
    result = vault.call("memory_compound", query=name, modifications="added 字")
    refused = problem.startswith(("broken", "not ", "binary", "many"))
    assert result["success"] is not refused, result
    if refused:
        assert result["error"]["code"] == "refused"
        assert file.read_bytes() == data
    else:
        assert file.read_bytes().startswith(data.rstrip(b"\n\0"))
        assert "added 字" in vault.call("memory_show", memId=name)["content"]


def test_the_last_word_of_a_huge_file_is_found(run: Run, folder: Path) -> None:
    """A word at the very end of eight megabytes is found, and the answer shows it."""
    text = "# Huge\n\n" + "one two three four five six seven\n\n" * 240_000 + "periwinkle\n"
    assert len(text) > 8_000_000
    write(folder, "huge.md", text)
    ran = succeeded(run("recall", "periwinkle", "--mode", "keyword", "--json"))
    assert titles(ran.json) == ["Huge"]
    assert "periwinkle" in ran.json["memories"][0]["snippet"]


@pytest.mark.parametrize("heading", ["Notes on C#", "F# and C#", "Über # 1", "#hash", "a \\# b"])
def test_a_heading_is_a_title_as_it_is_written(vault: Vault, folder: Path, heading: str) -> None:
    """The first heading is the title and names its section, marks of its own included."""
    write(folder, "a.md", f"# {heading}\n\ntext\n\n## {heading} ##\n\nold\n")
    shown = vault.call("memory_show", memId=heading)
    assert shown["title"] == heading
    done = vault.call("memory_compound", query="a.md", modifications="new", section=heading)
    assert done["success"], done


TITLES = {
    "a/b": "a/b",
    "../../etc/passwd": "../../etc/passwd",
    "..": "..",
    "nul\0byte": "nulbyte",
    "two\nlines\tand  spaces ": "two lines and spaces",
    "\x1b[31mred": "[31mred",
    "😀": "😀",
    "❤️ x": "❤️ x",
    "!!!": "!!!",
    "- a: b #c": "- a: b #c",
    "null": "null",
    "e" * 500: "e" * 500,
    "字" * 300: "字" * 300,
    "हिन्दी में": "हिन्दी में",
    "CON": "CON",
    "x.md": "x.md",
    "caf\udce9": "café",
}


@pytest.mark.parametrize("title", TITLES)
def test_any_title_makes_one_file_in_the_vault(vault: Vault, folder: Path, title: str) -> None:
    """A title of any characters is kept, in a plain file directly in its type's folder."""
    for number in (1, 2):
        made = vault.call("memory_remember", title=title, content="text", memoryType="fact")
        assert made["success"], made
        path = folder / made["filePath"]
        assert path.is_file()
        assert path.parent == folder / "fact"
        assert not path.name.startswith((".", "-"))
        shown = vault.call("memory_show", memId=made["memId"])
        assert shown["title"] == TITLES[title]
        assert shown["metadata"]["id"] == made["memId"]
        assert len(list(folder.rglob("*.md"))) == number


@pytest.mark.parametrize("title", ["", "   ", "\n\t", "\0", "\x07\u200b"])
def test_a_title_of_nothing_isrefused(vault: Vault, folder: Path, title: str) -> None:
    """A title with nothing to see in it is asked for again, and nothing is written."""
    result = vault.call("memory_remember", title=title, content="x", memoryType="")
    assert result["error"]["code"] == "usage"
    assert not list(folder.rglob("*.md"))


@pytest.mark.parametrize("content", ["a\0b", "\x1b[31m", "caf\udce9", "\x07" * 99, "a\x85b"])
def test_any_content_can_be_written_and_added(vault: Vault, folder: Path, content: str) -> None:
    """Characters that no text file should hold cost themselves and never the memory."""
    name = vault.call("memory_remember", title="T", content=content + " one", memoryType="")[
        "memId"
    ]
    for tool, arguments in (
        ("memory_compound", {"query": name, "modifications": content + " two"}),
        (
            "memory_remember",
            {"title": "T", "content": content + " three", "memoryType": "", "filePath": name},
        ),
    ):
        result = vault.call(tool, **arguments)
        assert result["success"], result
        shown = vault.call("memory_show", memId=name)
        assert "problem" not in shown
        assert shown["content"].strip().endswith(("two", "three"))
    assert vault.call("memory_recall", query="three", type="keyword")["count"] == 1


QUERIES = [
    '"unclosed',
    '""',
    "tag:",
    "AND",
    "*",
    "title:[",
    "((",
    "a AND OR b",
    "word " * 2_000,
    "x" * 10_000,
    "the of and",
    "😀",
    "\x00",
    "\\",
    "--",
    "caf\udce9",
    "?",
    "%s {0}",
]


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: repr(query[:12]))
def test_any_query_gets_an_answer(vault: Vault, folder: Path, query: str) -> None:
    """No query has a syntax to get wrong: any text is looked for in every way of searching."""
    write(folder, "a.md", "# The word\n\nThe title of a café and \\ x 😀\n")
    for mode in ("hybrid", "keyword", "vector", "tag"):
        answer = vault.call("memory_recall", query=query, type=mode, explain=True)
        assert answer["success"], answer
        assert answer["count"] == len(answer["memories"]) <= 1
        assert answer["count"] or answer["message"]
    json.dumps(vault.call("memory_forget", query=query))
    compounded = vault.call("memory_compound", query=query, modifications="x")
    assert compounded["success"] or compounded["error"]["code"] in ("not_found", "ambiguous")


@pytest.mark.parametrize("query", ['"unclosed', "*", "title:[", "((", "caf\udce9", "😀", "--"])
def test_any_query_gets_an_answer_from_the_command_line(run: Run, folder: Path, query: str) -> None:
    """Nothing that a shell can hand over as a query is an error."""
    write(folder, "a.md", "# A\n\ntext\n")
    succeeded(run("recall", "--mode", "keyword", "--", query))


@pytest.mark.parametrize("name", ["\udcff", "x/../y", "a/b/c", "", "-", "x" * 300, "CON", "a\nb"])
def test_what_cannot_be_an_agents_name_is_refused(run: Run, name: str) -> None:
    """A name that no folder could have, of an agent or a brain, is one short sentence."""
    commands = [("--agent", name, "goals", "get"), ("talk", "agent", "--", name, "hello")]
    for arguments in commands if name else commands[1:]:
        assert len(refused(run(*arguments), 2)) < 200
    assert refused(run("talk", "brain", "--", "x/../y", "hello"), 2)


def test_a_vault_that_may_not_be_looked_into_is_unreadable(folder: Path) -> None:
    """A folder without permission ends with the exit code of a vault that cannot be read."""
    prefix = without_rights()
    folder.chmod(0)
    try:
        line = ("--vault", str(folder), "goals", "get")
        refused(child(folder.parent, *line, prefix=prefix), 3)
    finally:
        folder.chmod(0o755)


def test_a_vault_that_is_not_there_is_said_before_the_command(run: Run, folder: Path) -> None:
    """A vault may bring commands along: where it is missing, that is what is said."""
    for line in (("frob", "--vault", "/nonexistent"), ("--vault", "/nonexistent", "frob", "--x")):
        assert "/nonexistent" in refused(run(*line), 3)
    assert "no command" in refused(run("frob", "--vault", str(folder)), 2)
    assert "no command" in refused(run("frob", cwd=folder.parent), 2)


def test_a_server_for_an_agent_that_cannot_be_is_not_started(run: Run) -> None:
    """The name of the agent that a server is for is checked when it is started."""
    assert "name of an agent" in refused(run("mcp", "--agent", "../x"), 2)


def test_an_option_that_was_meant_as_a_text_is_explained(run: Run) -> None:
    """Who writes a text that begins with a hyphen learns how to."""
    done = run("memories", "set", "-x=2")
    refused(done, 2)
    assert "behind --" in done.err
    assert run("memories", "set", "--", "-x=2").code == 0


def test_an_empty_query_is_a_wrong_use(run: Run, vault: Vault) -> None:
    """An empty query is asked for again; it never means everything."""
    for arguments in (["recall", " "], ["compound", "", "x"], ["forget", ""], ["show", ""]):
        code = 1 if arguments[0] == "show" else 2
        refused(run(*arguments), code)
    assert vault.call("memory_recall", query="", isAll=True)["success"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"limit": 0}, "limit must be at least 1, not 0"),
        ({"limit": -1}, "limit must be at least 1, not -1"),
        ({"limit": -(10**400)}, "limit must be at least 1"),
        ({"limit": 2.5}, "limit must be an integer, not 2.5"),
        ({"limit": True}, "limit must be an integer, not true"),
        ({"limit": "many"}, "limit must be an integer, not 'many'"),
        ({"threshold": 1.01}, "threshold must be at most 1, not 1.01"),
        ({"threshold": -0.01}, "threshold must be at least 0, not -0.01"),
        ({"threshold": float("nan")}, "threshold must be a number, not nan"),
        ({"threshold": 10**400}, "threshold must be"),
        ({"type": "best"}, "type must be one of hybrid, keyword, vector, tag, not 'best'"),
        ({"type": 1}, "type must be a string, not 1"),
        ({"tags": {"a": 1}}, "tags must be an array of strings, not {'a': 1}"),
        ({"tags": [1.5]}, "tags must be an array of strings, not [1.5]"),
        ({"isAll": "yes"}, "isAll must be a boolean, not 'yes'"),
        ({"qeury": "a"}, "memory_recall has no argument 'qeury'"),
        ({"": 1}, "memory_recall has no argument ''"),
        ({"QUERY": "b"}, "query is given twice"),
        ({"since": "soon"}, "since must be a date, a time, an age, or words for one, not 'soon'"),
        ({"filter": "__import__('os')"}, "The filter may not hold"),
        ({"filter": "a =="}, "The filter 'a ==' cannot be read"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_wrong_arguments_are_named(vault: Vault, arguments: dict[str, Any], said: str) -> None:
    """An argument of the wrong name, type or range is refused in words that name it."""
    result = vault.call("memory_recall", **{"query": "a", **arguments})
    assert result["success"] is False
    assert result["error"]["code"] == "usage"
    assert re.sub(r" \(--.*?\)", "", result["error"]["message"]).startswith(said)
    assert result["error"]["hint"]


@pytest.mark.parametrize("limit", [1, 10**9, 10**30, 3.0])
def test_any_limit_is_a_limit(vault: Vault, folder: Path, limit: float) -> None:
    """A limit beyond all there is gives all there is."""
    for number in range(3):
        write(folder, f"{number}.md", f"word {number}\n")
    for mode in ("hybrid", "keyword", "vector"):
        answer = vault.call("memory_recall", query="word", type=mode, limit=limit)
        assert answer["count"] == min(limit, 3)
    assert vault.call("memory_list", limit=limit)["count"] == min(limit, 3)


@pytest.mark.parametrize(
    ("arguments", "stdin"),
    [
        (["call", "memory_recall", "{"], b""),
        (["call", "memory_recall", "[1]"], b""),
        (["call", "memory_recall", "-"], b'{"query": "caf\xe9"'),
        (["call", "memory_recall", "-"], b"[" * 100_000),
        (["call", "memory_recall", '{"query": "a", "limt": 1}'], b""),
        (["call", "memory_recal", "{}"], b""),
        (["call"], b""),
        (["call", "memory_show", "{}"], b""),
    ],
)
def test_wrong_calls_fail_as_json(run: Run, arguments: list[str], stdin: bytes) -> None:
    """A wrong JSON call answers in JSON with code, sentence and hint, and exits with 2."""
    ran = run(*arguments, stdin=stdin)
    assert ran.code == 2
    assert ran.err == ""
    assert ran.json["success"] is False
    assert ran.json["error"]["code"] == "usage"
    assert ran.json["error"]["hint"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["recall", "a", "--limit", "0"], 2),
        (["recall", "a", "--limit", "many"], 2),
        (["recall", "a", "--threshold", "2"], 2),
        (["recall", "a", "--mode", "best"], 2),
        (["recall", "a", "--nonsense"], 2),
        (["recal", "a"], 2),
        (["remember", "T", "x", "--type", "../x"], 2),
        (["remember", "T", "@nowhere.txt"], 2),
        (["show", "nobody"], 1),
        (["--vault", "nowhere", "list"], 3),
    ],
)
def test_wrong_commands_fail_with_a_sentence_and_a_hint(
    run: Run, arguments: list[str], code: int
) -> None:
    """A wrong command line says what is wrong in one sentence, and what to type instead."""
    refused(run(*arguments), code)


def test_a_file_name_that_is_no_utf8_is_a_name(run: Run, folder: Path) -> None:
    """A file whose name is in an old encoding is listed, read, changed, forgotten and restored."""
    name = os.fsdecode(b"caf\xe9.md")
    file = write(folder, name, "# Coffee\n\nperiwinkle\n")
    assert titles(succeeded(run("recall", "periwinkle", "--json")).json) == ["Coffee"]
    assert succeeded(run("list", "--json")).json["memories"][0]["filePath"] == name
    succeeded(run("show", name))
    succeeded(run("compound", "Coffee", "more"))
    assert file.read_bytes().endswith(b"periwinkle\n\nmore\n")
    succeeded(run("forget", "Coffee", "--confirm", "true"))
    assert not file.exists()
    succeeded(run("restore", "Coffee"))
    assert file.exists()
