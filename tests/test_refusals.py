"""Invalid files and commands get a correct answer, or one clear sentence and a hint."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from conftest import ROOT, Run, called, contents, refused, soak_only, succeeded, titles, write
from memvault import Vault, open_vault
from memvault.errors import Refused
from memvault.files.plain_files import MAX_MEMORY_BYTES
from memvault.settings.vault_settings import Settings
from memvault.store.memory_store import MemoryStore
from memvault.tools.core import registry
from tool_calls import over_mcp, shell_words, typed

TABLE = yaml.safe_load((ROOT / "tests" / "refusals.yaml").read_text("utf-8"))
COMMANDS = [
    (line, code, said) for code in (1, 2, 3) for line, said in TABLE["commands"][code].items()
]
CALLS = [(code, *row) for code, rows in TABLE["calls"].items() for row in rows]
CALLS += [
    ("usage", "memory_recall", {"query": "a", "limit": -(10**400)}, "limit must be at least 1"),
    ("usage", "memory_recall", {"query": "a", "threshold": 10**400}, "threshold must be"),
    (
        "usage",
        "set_memories",
        {"memories": [{"key": "k" * 1_001, "value": "x"}]},
        "A key cannot be 'kkk",
    ),
    *(
        ("usage", "talk_agent", {"agent": name, "message": "x"}, said)
        for name, said in {
            "": "'' is not a valid agent name",
            "../x": "'..' is not a valid agent name",
            "a/b/c": "'b/c' is not a valid sub-brain name",
            ".hidden": "'.hidden' is not a valid agent name",
            "con": "'con' is a reserved name on some systems",
            "x" * 80: "xxx…' is not a valid agent name",
            "a b": "'a b' is not a valid agent name",
        }.items()
    ),
]
JSON: list[tuple[list[str], bytes, str]] = [
    *((words, b"", said) for *words, said in TABLE["json"]),
    (["memory_recall", "-"], b'{"query": "caf\xe9"', "The arguments are not JSON: Expecting"),
    (["memory_recall", "-"], b"[" * 100_000, "The arguments are not JSON: maximum recursion"),
]
NO_TIMES = "soon|yesterdayish|12|1x|a|we|32 May|2026-13-01|05/11/2026|-".split("|")
NO_NAMES = ["\udcff", "x/../y", "a/b/c", "", "-", "x" * 300, "CON", "a\nb"]
TWIN = "Deployments of the billing service run on Tuesdays after the smoke tests.\n"
FILES = {
    "memvault.toml": "version = 1\n",
    "manual.md": "---\ntitle: Spectrometer\n---\n\n# Setup\n\nAsk Mira.\n\n## Linux\n\nApt.\n\n"
    "# Calibration\n\nWarm it up.\n\n```\n# not a heading\n```\n",
    "flat.md": "---\ntitle: Flat\n---\n\nOne line.\n",
    "one/twin.md": "---\nid: twin-abc123\ntitle: Twin\n---\n\nSee [[flat]].\n",
    "two/twin.md": "---\nid: twin-abc123\ntitle: Twin\n---\n",
    "a.md": f"# Deployments of billing\n\n{TWIN}",
    "b.md": f"# Deployments of billing service\n\n{TWIN}",
    "templates/fault.md": "# {{title}}\n",
    "out/AGENTS.md": "Mine.\n",
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vault shared by all refusals, because none of them changes it."""
    root = tmp_path_factory.mktemp("refusals") / "vault"
    for path, text in FILES.items():
        write(root, path, text)
    return root


@pytest.fixture
def here(root: Path) -> Iterator[Vault]:
    """The same vault, open; nothing in it may change."""
    before = contents(root)
    with open_vault(root) as opened:
        yield opened
    assert contents(root) == before


@pytest.fixture
def refuse(root: Path, here: Vault, run: Run) -> Run:
    """Run a command line in the shared vault."""
    return partial(run, cwd=root)


def test_refusal_tables_check_every_message() -> None:
    """Every row of the refusal tables checks part of the message."""
    assert not [row for row in (*COMMANDS, *CALLS, *JSON) if not row[-1].strip()]


@pytest.mark.parametrize(("line", "code", "said"), COMMANDS, ids=[row[0] for row in COMMANDS])
def test_invalid_command_line_is_refused(refuse: Run, line: str, code: int, said: str) -> None:
    """An invalid command line fails with its exit code, a message and the correct usage."""
    ran = refuse(*shlex.split(line))
    refused(ran, code)
    assert said in ran.err.replace("`", "")


@pytest.mark.parametrize(
    ("code", "tool", "given", "said"), CALLS, ids=lambda value: str(value)[:40]
)
@pytest.mark.promise("R9")
def test_invalid_call_is_refused(
    here: Vault, code: str, tool: str, given: dict[str, Any], said: str
) -> None:
    """An invalid name, type, range or target is an error with a code and a specific message."""
    result = here.call(tool, **given)
    assert result["success"] is False
    assert result["error"]["code"] == code
    assert result["error"]["hint"]
    told = f"{result['error']['message']}\n{result['error']['hint']}"
    assert said in told.replace("`", "")


@pytest.mark.parametrize(
    ("code", "tool", "given", "said"), CALLS, ids=lambda value: str(value)[:40]
)
def test_agent_error_suggests_tools_instead_of_commands(
    root: Path, code: str, tool: str, given: dict[str, Any], said: str
) -> None:
    """Over MCP and in Python, messages refer to tools, never to commands or options."""
    with open_vault(root) as opened:
        answers = [opened.call(tool, **given)]
    ignores = said.startswith("valid arguments:")  # over MCP an unknown argument is ignored
    if registry.lookup(tool) and not ignores:
        answers.append(over_mcp(root, tool, given))
    for answer in answers:
        assert answer["error"]["code"] == code
        assert shell_words(answer) == [], said


@pytest.mark.parametrize(("words", "stdin", "said"), JSON, ids=range(len(JSON)))
def test_invalid_json_is_refused_in_json(
    refuse: Run, words: list[str], stdin: bytes, said: str
) -> None:
    """A call with invalid JSON exits with 2 and prints a JSON error with a code and a hint."""
    ran = refuse("call", *words, stdin=stdin)
    assert (ran.code, ran.err, ran.json["success"]) == (2, "", False)
    assert ran.json["error"]["code"] == "usage"
    assert said in ran.json["error"]["message"].replace("`", "")
    assert ran.json["error"]["hint"]


def test_invalid_time_is_refused(here: Vault, root: Path) -> None:
    """A value that is not a date is a usage error with a hint on the accepted formats."""
    for text in (*NO_TIMES, "9" * 500):
        for option in ("--since", "--until", "--as-of"):
            ran = typed("--vault", str(root), "recall", "boat", f"{option}={text}")
            assert "must be a date" in refused(ran, 2), (option, text)


@pytest.mark.parametrize("name", NO_NAMES, ids=ascii)
def test_invalid_agent_name_is_refused(refuse: Run, name: str) -> None:
    """An agent or brain name that cannot be a folder name is refused with a short message."""
    lines = [("--agent", name, "goals", "get"), ("talk", "agent", "--", name, "hello")]
    for line in lines if name else lines[1:]:
        assert len(refused(refuse(*line), 2)) < 200


ODD_FILES: dict[str, tuple[bytes, str, str]] = {
    "broken.md": (b"---\ntitle: [a\n---\n\nword0 x\n", "word0", "could not be read: line 2"),
    "tabs.md": (b"---\na:\n\tb: c\n---\nword1\n", "word1", "broken front matter: line 3"),
    "endless.md": (b"---\ntitle: x\n\nword2\n", "word2", "no closing line"),
    "list.md": (b"---\n- a\n---\nword3\n", "word3", "not a list of keys"),
    "binary.md": (bytes(range(256)) * 40, "binary", "binary"),
    "cp1252.md": ("# Café\n\nword5 “€”\n".encode("cp1252"), "word5", "not UTF-8, read as cp1252"),
    "latin1.md": (b"word6 \x81\xe9\n", "word6", "not UTF-8, read as cp1256"),
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


@pytest.mark.parametrize("name", ODD_FILES)
def test_file_with_arbitrary_bytes_is_found_and_unchanged(
    folder: Path, vault: Vault, name: str
) -> None:
    """A file with arbitrary bytes is listed, found by its readable text and never rewritten."""
    data, word, problem = ODD_FILES[name]
    file = write(folder, name, data)
    write(folder, "fine.md", "# Fine\n\nother text\n")
    listed = {entry["filePath"]: entry for entry in vault.call("memory_list")["memories"]}
    assert listed.keys() == {name, "fine.md"}
    assert problem in listed[name].get("problem", "")
    assert bool(problem) is ("problem" in listed[name])
    for mode in ("keyword", "hybrid"):
        answer = vault.call("memory_recall", query=word, type=mode)
        assert answer["memories"][0]["filePath"] == name
    shown = called(vault, "memory_show", memId=name)
    assert ("title" in shown["metadata"]) is (name in ("bom.md", "mac.md", "broken.md"))
    result = vault.call("memory_compound", query=name, modifications="added 字")
    refused = problem.startswith(("broken", "not ", "binary", "many"))
    assert result["success"] is not refused, result
    if refused:
        assert result["error"]["code"] == "refused"
        assert file.read_bytes() == data
    else:
        assert file.read_bytes().startswith(data.rstrip(b"\n\0"))
        assert "added 字" in vault.call("memory_show", memId=name)["content"]


@soak_only
def test_last_word_of_huge_file_is_found(run: Run, folder: Path) -> None:
    """Without an indexing limit, the last word of an eight-megabyte file is found and shown."""
    write(folder, "memvault.toml", "[index]\ncharacters = 0\n")
    text = "# Huge\n\n" + "one two three four five six seven\n\n" * 240_000 + "periwinkle\n"
    assert len(text) > 8_000_000
    write(folder, "huge.md", text)
    ran = succeeded(run("recall", "periwinkle", "--mode", "keyword", "--json"))
    assert titles(ran.json) == ["Huge"]
    assert "periwinkle" in ran.json["memories"][0]["snippet"]


@pytest.mark.parametrize("heading", ["Notes on C#", "F# and C#", "Über # 1", "#hash", "a \\# b"])
def test_heading_with_markup_is_title_and_section(vault: Vault, folder: Path, heading: str) -> None:
    """The first heading, including any markup, is the title and also selects its section."""
    write(folder, "a.md", f"# {heading}\n\ntext\n\n## {heading} ##\n\nold\n")
    shown = vault.call("memory_show", memId=heading)
    assert shown["title"] == heading
    called(vault, "memory_compound", query="a.md", modifications="new", section=heading)


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
def test_any_title_creates_one_file_in_type_folder(vault: Vault, folder: Path, title: str) -> None:
    """A title with any characters is kept, in a plain file directly in its type's folder."""
    for number in (1, 2):
        made = called(vault, "memory_remember", title=title, content="text", memoryType="fact")
        path = folder / made["filePath"]
        assert path.is_file()
        assert path.parent == folder / "fact"
        assert not path.name.startswith((".", "-"))
        shown = vault.call("memory_show", memId=made["memId"])
        assert shown["title"] == TITLES[title]
        assert shown["metadata"]["id"] == made["memId"]
        assert len(list(folder.rglob("*.md"))) == number


@pytest.mark.parametrize("content", ["a\0b", "\x1b[31m", "caf\udce9", "\x07" * 99, "a\x85b"])
def test_any_content_can_be_remembered_and_compounded(
    vault: Vault, folder: Path, content: str
) -> None:
    """Characters that are invalid in a text file are dropped, and the memory is written."""
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
        called(vault, tool, **arguments)
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
def test_any_query_is_valid_in_every_mode(vault: Vault, folder: Path, query: str) -> None:
    """A query has no syntax to get wrong: any string can be searched in every mode."""
    write(folder, "a.md", "# The word\n\nThe title of a café and \\ x 😀\n")
    for mode in ("hybrid", "keyword", "vector", "tag"):
        answer = called(vault, "memory_recall", query=query, type=mode, explain=True)
        assert answer["count"] == len(answer["memories"]) <= 1
        assert answer["count"] or answer["message"]
    json.dumps(vault.call("memory_forget", query=query))
    compounded = vault.call("memory_compound", query=query, modifications="x")
    assert compounded["success"] or compounded["error"]["code"] in ("not_found", "ambiguous")


@pytest.mark.parametrize("query", ['"unclosed', "*", "title:[", "((", "caf\udce9", "😀", "--"])
def test_any_query_is_valid_on_command_line(run: Run, folder: Path, query: str) -> None:
    """No query that a shell can pass is an error."""
    write(folder, "a.md", "# A\n\ntext\n")
    succeeded(run("recall", "--mode", "keyword", "--", query))


def test_text_after_double_dash_can_start_with_hyphen(run: Run, folder: Path) -> None:
    """After --, text can start with a hyphen; an unknown command fails even without a vault."""
    assert run("memories", "set", "--", "-x=2").code == 0
    assert "no command" in refused(run("frob", cwd=folder.parent), 2)


@pytest.mark.parametrize("limit", [1, 10**9, 10**30, 3.0])
def test_limit_can_exceed_the_number_of_memories(vault: Vault, folder: Path, limit: float) -> None:
    """A limit larger than the number of memories returns all of them."""
    for number in range(3):
        write(folder, f"{number}.md", f"word {number}\n")
    for mode in ("hybrid", "keyword", "vector"):
        answer = vault.call("memory_recall", query="word", type=mode, limit=limit)
        assert answer["count"] == min(limit, 3)
    assert vault.call("memory_list", limit=limit)["count"] == min(limit, 3)


def test_non_utf8_file_name_works_everywhere(run: Run, folder: Path) -> None:
    """A file with a non-UTF-8 name can be listed, read, changed, forgotten and restored."""
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


@soak_only
@pytest.mark.promise("S80")
def test_oversized_write_is_refused(folder: Path, vault: Vault) -> None:
    """Content that would make a file exceed the size limit is refused, and no file is changed."""
    (folder / "a.md").write_bytes(b"# A\n\n" + b"lorem ipsum\n" * (MAX_MEMORY_BYTES // 12 - 1))
    before = {path: path.stat().st_size for path in folder.rglob("*.md")}
    calls: dict[str, Any] = {
        "memory_compound": {"query": "a.md", "modifications": "zebra " * 10},
        "memory_remember": {"title": "B", "content": "x" * MAX_MEMORY_BYTES, "memoryType": "fact"},
        "set_memories": {"memories": [{"key": "b", "value": "x" * MAX_MEMORY_BYTES}]},
    }
    for tool, arguments in calls.items():
        failed = vault.call(tool, **arguments)
        assert "larger than 64 MB" in failed["error"]["message"], failed
        assert failed["error"]["hint"]
    store = MemoryStore(folder, Settings())
    with pytest.raises(Refused, match="larger than 64 MB"):
        store.rename(store.read("a.md"), "b.md", {"topic": "zebra" * 10})
    assert {path: path.stat().st_size for path in folder.rglob("*.md")} == before


@pytest.mark.promise("S80")
@pytest.mark.parametrize("endless", ["@/dev/zero", "-", None])
def test_endless_input_is_refused(folder: Path, endless: str | None) -> None:
    """An endless device or pipe is refused with a clear message before memory runs out."""
    words = [sys.executable, "-m", "memvault", "remember", "T", *([endless] if endless else [])]
    with subprocess.Popen(["yes"], stdout=subprocess.PIPE) as source:
        ran = subprocess.run(
            words, cwd=folder, stdin=source.stdout, capture_output=True, text=True, check=False
        )
        source.kill()
    first, *rest = ran.stderr.splitlines()
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "larger than 64 MB" in first
    assert rest
    assert all(line.startswith("hint: ") for line in rest)
    assert list(folder.rglob("*.md")) == []
