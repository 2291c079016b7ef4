"""Help and messages use the reader's terms: options in a shell, keys in JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import Run, write
from memvault import Vault
from memvault.arguments.parameters import Parameter
from memvault.cli import parameter_help, registry
from memvault.command_table import COMMANDS
from memvault.tools.core import reference
from memvault.tools.core import registry as tools
from memvault.tools.core.registry import Tool

ENTRIES = {row.words: registry.find_command(row.words) for row in COMMANDS}
_TEMPLATE = re.compile(r"'\{[^']*\}[^']*'")
_WORD = re.compile(r"(?<![\w-])[\w-]+")


def keys_unlike_options(entry: registry.ShellCommand) -> set[str]:
    """Return the keys of a command's arguments, and of their objects, that are not option names."""
    whole: Iterator[Parameter] = iter(entry.parameters if isinstance(entry, Tool) else ())
    parts = [part for one in whole for part in (one, *one.items)]
    parts += entry.shell_parameters
    return {part.key for part in parts if part.key not in (part.shell_name.strip("-"), "key=value")}


def is_a_key(word: str) -> bool:
    """Return whether a word is spelled like a key, such as ``memoryType``."""
    return re.fullmatch(r"[a-z]+([A-Z][a-z]*)+", word) is not None


@pytest.mark.promise("R111")
@pytest.mark.parametrize("words", ENTRIES)
def test_help_shows_options_instead_of_json_keys(words: str, run: Run) -> None:
    """Help pages use options, never JSON keys spelled differently or tool names."""
    entry = ENTRIES[words]
    assert entry is not None
    shown = run("help", *words.split())
    assert shown.code == 0, shown
    assert not re.search(r"``|\*\*|\]\(|:[a-z]+:`", shown.out), shown.out
    page = _TEMPLATE.sub("", shown.out)
    known = keys_unlike_options(entry) | {one.name for one in tools.all_tools() if "_" in one.name}
    used = set(_WORD.findall(page.partition("Examples:")[0]))
    assert not {word for word in used if is_a_key(word)}, page
    assert not {word for word in used & known if is_a_key(word) or "_" in word}, page


def test_group_help_shows_complete_summaries(run: Run) -> None:
    """The help of a group of commands never cuts a summary, and wraps it at 80 columns."""
    for group in sorted({row.words.partition(" ")[0] for row in COMMANDS if " " in row.words}):
        page = run(group, "--help").out
        shown = " ".join(page.partition("Commands:")[2].split())
        for row in COMMANDS:
            if row.words.startswith(f"{group} "):
                assert row.summary in shown
        assert max(map(len, page.splitlines())) <= 80


def test_command_summaries_have_no_json_keys() -> None:
    """The list of all commands contains no JSON keys."""
    assert not [row for row in COMMANDS if any(map(is_a_key, _WORD.findall(row.summary)))]


def test_help_calls_memory_argument_memory() -> None:
    """An argument that selects a memory is shown as MEMORY, regardless of its key."""
    for entry in ENTRIES.values():
        assert entry is not None
        for parameter in entry.shell_parameters:
            if parameter.arg.completes == "memory":
                assert "MEMORY" in (parameter_help.value_name(parameter) or "")


@pytest.mark.promise("R111")
@pytest.mark.parametrize(
    ("line", "shell", "tool", "arguments", "json"),
    [
        ("recall a --limit 0", "--limit must be", "memory_recall", {"query": "a", "limit": 0},
         "limit must be"),
        ("recall a --mode best", "--mode must be one of", "memory_recall",
         {"query": "a", "type": "best"}, "type must be one of"),
        ("recall --all --as-of yesterday", "--as-of and --all cannot", "memory_recall",
         {"isAll": True, "asOf": "yesterday"}, "asOf and isAll cannot"),
        ("load", "memvault load needs MEMORY or --query", "memory_load", {},
         "memory_load needs memId or query\nfind memory ids with memory_search(query)"),
        ("load x --query y", "--query and MEMORY cannot", "memory_load",
         {"memId": "x", "query": "y"}, "query and memId cannot"),
        ("show LONG", "MEMORY has 100,001 characters", "memory_show", {"memId": "LONG"},
         "memId has 100,001 characters"),
        ("remember a b --title c", "TITLE is given twice", "memory_remember",
         {"title": "a", "Title": "b", "content": "x"}, "title is given twice"),
        ("plans set A b", "(found none)\nhint: pass one of --cron, --run-after and --at",
         "set_plans", {"plans": [{"name": "A", "instruction": "b"}]},
         "(found none)\npass one of cron, runAfter and scheduledAt"),
        ("show", "memvault show needs MEMORY", "memory_show", {}, "memory_show needs memId"),
        ("show twin", "use one of their paths", "memory_show", {"memId": "twin"},
         "with the same memory id\nuse one of their paths"),
        ("compound '' x", "pass a memory id, a path", "memory_compound",
         {"query": "", "modifications": "x"}, "pass a memory id, a path"),
    ],
)  # fmt: skip
def test_message_uses_options_in_shell_and_keys_in_json(
    folder: Path,
    vault: Vault,
    run: Run,
    line: str,
    shell: str,
    tool: str,
    arguments: dict[str, object],
    json: str,
) -> None:
    """The same failure shows options and arguments in a shell, and keys to a JSON caller."""
    for place in ("one", "two"):
        write(folder, f"{place}/twin.md", "---\nid: twin\n---\n")
    long = "x" * 100_001
    typed = [long if word == "LONG" else word.strip("'") for word in line.split(" ")]
    assert shell in run(*typed).err.replace("`", "")
    given = {key: long if value == "LONG" else value for key, value in arguments.items()}
    error = vault.call(tool, **given)["error"]
    assert json in f"{error['message']}\n{error['hint']}".replace("`", "")


@pytest.mark.promise("R111")
def test_tool_file_error_uses_file_key(run: Run, folder: Path) -> None:
    """An error about a missing key in a tool's file spells the key as the file must."""
    file = write(folder, "tool.json", '{"name": "t", "command": ["echo"]}')
    said = run("tools", "register", str(file)).err
    assert "needs `description`\n" in said
    assert "--description" not in said


def test_tool_descriptions_use_keys_instead_of_options() -> None:
    """Tool descriptions for MCP clients use JSON keys where help uses options."""
    shown = {tool.name: reference.described(tool) for tool in tools.all_tools()}
    recall = shown["memory_recall"]
    assert "With `asOf`, later" in recall["description"]
    assert "with `isAll`" in recall["inputSchema"]["properties"]["limit"]["description"]
    about = shown["memory_show"]["inputSchema"]["properties"]["memId"]["description"]
    assert about.startswith("Memory id or its beginning")
