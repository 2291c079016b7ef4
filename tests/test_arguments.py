"""A tool accepts values of its schema and the documented coercions, and refuses all others."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from conftest import Run, sampled, some_of
from copies import Copy
from memvault import Vault
from memvault.arguments import parameters
from memvault.arguments.binding import COERCIONS, Coercion
from memvault.arguments.parameters import Parameter
from memvault.cli.registry import find_command
from memvault.errors import UsageError
from memvault.tools.core import reference, registry
from memvault.tools.core.registry import Tool
from plain_arguments import plain_arguments
from tool_calls import call_of, over_mcp, printed, sayable, variants, words


@pytest.mark.parametrize("digits", [400, 5_000])
@pytest.mark.parametrize("sign", [1, -1])
def test_arguments_huge_number_is_accepted_or_usage_error(digits: int, sign: int) -> None:
    """A number of any size is accepted or reported as invalid with the reason."""
    for key in ("threshold", "query", "limit")[: 2 if sign > 0 else 3]:
        with pytest.raises(UsageError):
            registry.find("memory_recall").bind({key: sign * 10**digits})


SENT: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("memory_recall", {"query": "a", "limit": None, "tags": None, "full": None}, {"query": "a"}),
    ("memory_recall", {"query": "a", "type": "Vector"}, {"query": "a", "mode": "vector"}),
    ("memory_recall", {"query": "a", "limit": "3"}, {"query": "a", "limit": 3}),
    ("memory_recall", {"query": "a", "threshold": "0.5"}, {"query": "a", "threshold": 0.5}),
    ("memory_recall", {"query": "a", "isAll": "False"}, {"query": "a", "is_all": False}),
    ("memory_recall", {"query": "a", "full": 1}, {"query": "a", "full": True}),
    ("memory_recall", {"query": "a", "tags": "x, y"}, {"query": "a", "tags": ["x", "y"]}),
    ("memory_recall", {"query": "a", "tags": "x"}, {"query": "a", "tags": ["x"]}),
    ("memory_recall", {"query": "a", "tags": ""}, {"query": "a", "tags": []}),
    ("memory_recall", {"query": "a", "tags": '["x,y"]'}, {"query": "a", "tags": ["x,y"]}),
    ("memory_recall", {"query": "a", "tags": [2026]}, {"query": "a", "tags": ["2026"]}),
    ("recall_memory", {"observations": "rain, wind"}, {"observations": ["rain, wind"]}),
    ("recall_memory", {"observations": "[1] see below"}, {"observations": ["[1] see below"]}),
    ("store_episode", {"actions": "dug, slept"}, {"actions": ["dug, slept"]}),
    ("store_episode", {"skillsUsed": "a.b,c"}, {"skills_used": ["a.b", "c"]}),
    ("store_episode", {"outcomes": {"type": "x", "n": 1}}, {"outcomes": [{"type": "x", "n": 1}]}),
    ("memory_save", {"text": "a", "metadata": '{"n": 1}'}, {"text": "a", "metadata": {"n": 1}}),
    (
        "set_memories",
        {"memories": {"Key": "port", "value": 5432}},
        {"memories": [{"key": "port", "value": "5432"}]},
    ),
    (
        "set_plans",
        {"plans": '[{"name": "p", "instruction": "i", "run_after": "1 day", "cron": null}]'},
        {"plans": [{"name": "p", "instruction": "i", "run_after": "1 day"}]},
    ),
    (
        "wait_for",
        {"events": {"eventType": "agent", "parameter": "bob", "talkId": "7"}},
        {"events": [{"event_type": "Agent", "parameter": "bob", "talk_id": 7}]},
    ),
    ("call_tool", {"toolName": "t", "parameters": "{}"}, {"tool_name": "t", "parameters": {}}),
    ("memory_recall", {"query": "a", "tags": "#a #b"}, {"query": "a", "tags": ["#a", "#b"]}),
    ("memory_recall", {"query": "a", "tags": "#a, #b"}, {"query": "a", "tags": ["#a", "#b"]}),
    ("memory_recall", {"query": "a", "tags": "#a b"}, {"query": "a", "tags": ["#a b"]}),
    ("memory_recall", {"query": "a", "tags": "a b"}, {"query": "a", "tags": ["a b"]}),
    (
        "memory_recall",
        {"query": "a", "tags": '```json\n["a", "b c"]\n```'},
        {"query": "a", "tags": ["a", "b c"]},
    ),
    ("memory_recall", {"query": "a", "isAll": "yes"}, {"query": "a", "is_all": True}),
    ("memory_forget", {"query": "a", "confirm": 1}, {"query": "a", "confirm": True}),
    ("memory_forget", {"query": "a", "confirm": 0}, {"query": "a", "confirm": False}),
    ("talk_log", {"severity": "WARN", "message": "x"}, {"severity": "warning", "message": "x"}),
    ("talk_log", {"severity": "fatal", "message": "x"}, {"severity": "critical", "message": "x"}),
    ("talk_log", {"level": "Notice", "message": "x"}, {"severity": "info", "message": "x"}),
    (
        "update_success_rate",
        {"name": "p", "success": "success"},
        {"procedure_name": "p", "success": True},
    ),
    (
        "update_success_rate",
        {"name": "p", "success": "Failed"},
        {"procedure_name": "p", "success": False},
    ),
    (
        "update_success_rate",
        {"name": "p", "success": "failure"},
        {"procedure_name": "p", "success": False},
    ),
    (
        "wait_for",
        {"events": ["agent:bob#7", {"type": "time", "parameter": 1}]},
        {
            "events": [
                {"event_type": "Agent", "parameter": "bob", "talk_id": 7},
                {"event_type": "Time", "parameter": 1.0},
            ]
        },
    ),
    ("wait_for", {"events": "time:1"}, {"events": [{"event_type": "Time", "parameter": "1"}]}),
    *(
        ("memory_recall", {"query": "a", key: 0.5}, {"query": "a", "threshold": 0.5})
        for key in ("similarity", "min_score", "minScore", "score")
    ),
    ("memory_load", {"query": "a", "similarity": 0.5}, {"query": "a", "threshold": 0.5}),
    ("memory_recall", {"query": "a", "type": "semantic"}, {"query": "a", "mode": "vector"}),
    ("memory_recall", {"query": "a", "type": "fulltext"}, {"query": "a", "mode": "keyword"}),
    ("memory_recall", {"query": "a", "type": "BM25"}, {"query": "a", "mode": "keyword"}),
    (
        "set_memories",
        {"memories": {"name": "Ana", "port": 5432}},
        {"memories": [{"key": "name", "value": "Ana"}, {"key": "port", "value": "5432"}]},
    ),
    (
        "set_memories",
        {"memories": {"name": "a", "text": "b"}},
        {"memories": [{"key": "a", "value": "b"}]},
    ),
    (
        "store_procedure",
        {"name": "p", "steps": ["a", "b"]},
        {"procedure_name": "p", "procedure_prompt": "- a\n- b"},
    ),
    (
        "store_procedure",
        {"name": "p", "steps": ["1. a", "2. b"]},
        {"procedure_name": "p", "procedure_prompt": "1. a\n2. b"},
    ),
    ("memory_list", {"tags": ["- a\n* b"]}, {"tags": ["- a\n* b"]}),
    ("set_memories", {"memories": "a=1"}, {"memories": [{"key": "a", "value": "1"}]}),
    ("memory_recall", {"q": "a", "top_k": "3"}, {"query": "a", "limit": 3}),
    ("memory_recall", {"query": "a", "max_results": 3}, {"query": "a", "limit": 3}),
    (
        "memory_compound",
        {"mem_id": "a-123456", "content": "x"},
        {"query": "a-123456", "modifications": "x"},
    ),
    (
        "memory_compound",
        {"filePath": "a.md", "text": "x", "type": "fact"},
        {"query": "a.md", "modifications": "x", "memory_type": "fact"},
    ),
    ("memory_remember", {"name": "a", "text": "x"}, {"title": "a", "content": "x"}),
    ("memory_create", {"title": "a", "content": "x"}, {"name": "a", "value": "x"}),
    ("memory_show", {"id": "a"}, {"name": "a"}),
    ("memory_list", {"type": "fact"}, {"memory_type": "fact"}),
    ("set_goals", {"goals": [{"name": "g"}]}, {"goals": [{"id": "g"}]}),
    ("send_message", {"message": "x"}, {"text": "x"}),
    ("talk_user", {"text": "x"}, {"message": "x"}),
]
"""Calls as models send them, and the resulting arguments."""

REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("memory_remember", {"title": "a", "content": None}),
    ("memory_remember", {"title": "a", "content": 1.10}),
    ("memory_remember", {"title": "a", "content": True}),
    ("memory_recall", {"query": "a", "limit": "3 or 4"}),
    ("memory_recall", {"query": "a", "limit": "2.5"}),
    ("memory_recall", {"query": "a", "limit": True}),
    ("memory_recall", {"query": "a", "full": "maybe"}),
    ("memory_recall", {"query": "a", "full": 2}),
    ("memory_recall", {"query": "a", "type": 1}),
    ("memory_recall", {"query": "a", "tags": {"x": 1}}),
    ("memory_recall", {"query": "a", "tags": ["x", None]}),
    ("memory_recall", {"query": "a", "tags": "[1.5]"}),
    ("set_memories", {"memories": "port"}),
    ("wait_for", {"events": ["bob"]}),
    ("set_memories", {"memories": {"key": "a", "val": "1"}}),
    ("set_memories", {"memories": {"a": None}}),
    ("store_procedure", {"name": "p", "steps": ["a", 1.5]}),
    ("store_procedure", {"name": "p", "steps": []}),
    ("set_memories", {"memories": [{"key": "port", "value": None}]}),
    ("memory_save", {"text": "a", "metadata": "[1]"}),
]
"""Arguments that are ambiguous or meaningless."""


@pytest.mark.parametrize(("name", "sent", "meant"), SENT, ids=str)
def test_arguments_accept_common_model_mistakes(
    name: str, sent: dict[str, Any], meant: dict[str, Any]
) -> None:
    """A value in a form other than the schema's is accepted if its meaning is clear."""
    assert registry.find(name).bind(sent) == meant


@pytest.mark.parametrize(("name", "sent"), REFUSED, ids=str)
def test_arguments_ambiguous_value_is_refused(name: str, sent: dict[str, Any]) -> None:
    """An ambiguous value is never guessed; the error contains the argument's name."""
    with pytest.raises(UsageError):
        registry.find(name).bind(sent)


def test_arguments_missing_type_uses_the_fallback(vault: Vault, run: Run) -> None:
    """The type can be missing, null or empty, in JSON and on the command line."""
    for more in ({}, {"memoryType": None}, {"memoryType": ""}):
        made = vault.call("memory_remember", title="T", content="x", **more)
        assert made["memoryType"] == "context", made
    ran = run("call", "memory_remember", '{"title": "T", "content": "x"}')
    assert ran.json["memoryType"] == "context"
    kept = vault.call("memory_remember", title="F", content="x", memoryType="fact")["filePath"]
    update = vault.call("memory_remember", title="F", content="y", filePath=kept)
    assert update["memoryType"] == "fact"


def test_misnamed_argument_is_reported() -> None:
    """An unknown key is refused with a suggestion of the right one."""
    for sent, meant in (("mode", "type"), ("quary", "query"), ("thresh", "threshold")):
        with pytest.raises(UsageError) as caught:
            registry.find("memory_recall").bind({sent: "a"})
        assert caught.value.hint == f"did you mean {meant}?"


def test_error_suggests_the_closest_choice() -> None:
    """A misspelled choice, or another program's term, is refused with the closest choice."""
    for name, sent, meant in (
        ("talk_log", {"severity": "warnign", "message": "x"}, "warning"),
        ("memory_recall", {"query": "a", "type": "vectors"}, "vector"),
    ):
        with pytest.raises(UsageError) as caught:
            registry.find(name).bind(sent)
        assert caught.value.hint == f"did you mean {meant}?"


def test_arguments_alias_belongs_to_one_argument() -> None:
    """No two arguments of a tool share an alias, and the reference lists every alias."""
    page = reference.markdown()
    for tool in registry.all_tools():
        for expected in (tool.parameters, *(entry.items for entry in tool.parameters)):
            keys = {parameters.normal_key(entry.key) for entry in expected}
            aliases = [
                alias
                for entry in expected
                for alias in {parameters.normal_key(alias) for alias in entry.arg.json_aliases}
                - keys
            ]
            assert sorted(aliases) == sorted(set(aliases)), tool.name
            assert all(
                f"`{alias}`" in page
                for entry in expected
                for alias in entry.arg.json_aliases
                if alias != entry.key
            )


TAGS = (
    "#a #b",
    "#a, #b",
    "a,b",
    "- a\n- b",
    "* #a\r\n* #b\r\n",
    "a\nb",
    '["a", "b"]',
    '```json\n["a", "b"]\n```',
    "```\n- a\n- b\n```",
    "```yaml\n- a\n- b\n```",
    "```\na, b\n```",
)


@pytest.mark.parametrize("tags", TAGS, ids=str)
def test_arguments_tags_accept_any_usual_form(vault: Vault, run: Run, tags: str) -> None:
    """Two tags are parsed as two in every form, for memories and in filters."""
    made = vault.call("memory_remember", title="T", content="x", tags=tags)
    assert made["tags"] == ["a", "b"]
    assert vault.call("memory_create", name="U", value="x", tags=tags)["success"]
    ran = run("remember", "V", "x", "--tags", tags, "--json")
    assert ran.json["tags"] == ["a", "b"]
    plain = run("remember", "W", "x", "--json").json["memId"]
    assert run("tag", "add", plain, tags, "--json").json["tags"] == ["a", "b"]
    assert run("list", "--tags", tags, "--json").json["total"] == 4
    assert vault.call("memory_list", tags=tags)["total"] == 4
    assert vault.call("memory_list", tags=["#a #b"])["total"] == 4
    assert run("tag", "remove", plain, tags, "--json").json["tags"] == []


def test_arguments_tag_has_no_empty_part(vault: Vault, run: Run, folder: Path) -> None:
    """Slashes around a new tag are dropped, and a tag with an empty part is refused."""
    for tags in ("#a/b/", ["/a/b"]):
        assert vault.call("memory_remember", title="T", content="x", tags=tags)["tags"] == ["a/b"]
    before = sorted(folder.rglob("*.md"))
    for tag in ("c//d", "#/", "- c//d"):
        made = vault.call("memory_remember", title="T", content="x", tags=[tag])
        assert made["error"]["code"] == "usage"
        assert "project/active" in made["error"]["hint"]
        assert "is not a valid tag" in run("remember", "T", "x", "--tags", tag).err
        assert vault.call("memory_create", name="T", value="x", tags=[tag])["success"] is False
    assert sorted(folder.rglob("*.md")) == before


def test_arguments_tag_with_space_is_one_tag(vault: Vault, run: Run) -> None:
    """A space inside a tag becomes a hyphen; only words that each start with # are split."""
    for tags in ("a b", ["a b"], "#a b"):
        assert vault.call("memory_remember", title="T", content="x", tags=tags)["tags"] == ["a-b"]
    assert run("remember", "T", "x", "--tags", "a b", "--json").json["tags"] == ["a-b"]


@pytest.mark.parametrize("yes", [1, "1", "y", "TRUE", "Yes", True])
def test_arguments_confirm_accepts_common_words_for_yes(vault: Vault, run: Run, yes: Any) -> None:
    """Any usual word for yes confirms, and any word for no previews again, in a shell too."""
    made = vault.call("memory_remember", title="T", content="x")["memId"]
    for no in (0, "0", "no", "N", "False", False):
        assert vault.call("memory_forget", query=made, confirm=no)["confirmRequired"]
        assert run("forget", made, "--confirm", str(no), "--json").json["confirmRequired"]
    assert vault.call("memory_forget", query=made, confirm=yes)["deletedFiles"] == 1
    made = vault.call("memory_remember", title="T", content="x")["memId"]
    assert run("forget", made, "--confirm", str(yes), "--json").json["deletedFiles"] == 1


def test_arguments_option_accepts_argument_aliases(vault: Vault, run: Run) -> None:
    """The command line also accepts an argument's aliases as options."""
    made = vault.call("memory_remember", title="T", content="x")["memId"]
    ran = run("compound", "--memId", made, "--content", "more", "--json")
    assert ran.json["memId"] == made
    assert "more" in vault.call("memory_show", id=made)["content"]
    assert run("recall", "x", "--top-k", "1", "--json").json["count"] == 1


def test_arguments_reference_lists_every_coercion() -> None:
    """The reference prints the whole coercion table, and every entry has an example."""
    page = reference.markdown()
    used: set[Coercion] = set()
    for name, sent, _ in SENT:
        plain_arguments(registry.find(name).parameters, sent, used)
    for entry in COERCIONS:
        assert f"| {entry.accepts} | {entry.becomes} |" in page
    assert used == set(COERCIONS)


BYTE, HALF = "\udcff", "\ud800"
"""A byte that is not UTF-8, as on a command line, and half of a surrogate pair, as in JSON."""


def usual(parameter: Parameter) -> Any:
    """Return a value that fits a parameter."""
    if list in parameter.types:
        return [whole(parameter.items, {})] if parameter.items else ["x"]
    if dict in parameter.types:
        return {"x": "x"}
    if str in parameter.types:
        return parameter.choices[0] if parameter.choices else "x"
    return 1 if int in parameter.types or float in parameter.types else True


def whole(parameters: tuple[Parameter, ...], given: dict[str, Any]) -> dict[str, Any]:
    """Return the given arguments and any other text arguments."""
    texts = (str, list, dict)
    more = [entry for entry in parameters if entry.required or set(texts) & set(entry.types)]
    return {
        **{entry.key: usual(entry) for entry in more},
        **plain_arguments(parameters, given, set()),
    }


def code(root: Path, *line: str) -> str:
    """Run a command line; return its error's code, or None."""
    return error(printed(root, *line))


def error(found: Any) -> str:
    """Return the code of a result's error, which may be flat, or None."""
    failed = found.get("error", {})
    return str((found if isinstance(failed, str) else failed).get("code", ""))


@sampled(1)
@pytest.mark.promise("S65")
def test_arguments_lone_surrogate_is_handled(
    filled: Path, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """A lone surrogate in any string, list, object or key never crashes a tool."""
    copy = Copy(filled, tmp_path / "copy")
    for tool in some_of(registry.all_tools()):
        with subtests.test(tool=tool.name):
            copy.put_back()
            _halves_are_no_bug(tool, copy.root)


def _halves_are_no_bug(tool: Tool, root: Path) -> None:
    arguments = sayable(tool, whole(tool.parameters, call_of(tool)))
    for half in (BYTE, HALF):

        def broken(part: Any, half: str = half) -> Any:
            return {**part, f"x{half}": "x"} if isinstance(part, dict) else f"{part}{half}"

        for bad in variants(arguments, broken, (str, dict)):
            assert error(over_mcp(root, tool.name, bad, halves=True)) != "bug", bad
            assert code(root, "call", tool.name, json.dumps(bad)) != "bug", bad
    for bad in variants(arguments, lambda text: f"{text}{BYTE}"):
        assert code(root, *words(tool, bad)) != "bug", bad


LINES = [
    ("list", "--agent", BYTE),
    ("inbox", "peek", "--agent", f"x{BYTE}"),
    ("call", BYTE),
    ("call", "memory_list", BYTE),
    (BYTE,),
    ("list", f"--{BYTE}"),
    ("tools", "trust", BYTE),
    ("tools", "untrust", BYTE),
    ("tools", "register", BYTE),
    ("list", "--vault", f"x{BYTE}"),
    ("remember", "x", f"@{BYTE}"),
]


def test_arguments_non_utf8_byte_is_handled(filled: Path, tmp_path: Path) -> None:
    """A byte that is not UTF-8 is kept or refused at every position of a command line."""
    copy = Copy(filled, tmp_path / "copy")
    for line in LINES:
        copy.put_back()
        assert code(copy.root, *line) != "bug", line


def test_arguments_reference_lists_command_options() -> None:
    """The reference lists a command's arguments, even if they differ from the tool's."""
    page = reference.markdown(find_command)
    for line in ("call", "review", "today"):
        command = find_command(line)
        assert command is not None
        section = page.partition(f"## `memvault {line}`")[2].partition("\n## ")[0]
        table = section.partition("| on the command line | |")[2].partition("| result |")[0]
        names = {
            entry.metavar if entry.arg.positional else entry.flag
            for entry in command.shell_parameters
        }
        assert set(re.findall(r"^\| `([^`]+)`", table, re.MULTILINE)) == names


def test_arguments_memory_selects_memory_and_never_suggests_a_type() -> None:
    """`memory` can select a memory; tools that select none list all their arguments instead."""
    for name, key in (
        ("memory_show", "name"),
        ("memory_compound", "query"),
        ("memory_load", "mem_id"),
    ):
        tool = registry.find(name)
        assert key in tool.by_name({"memory": "x"}), name
    assert registry.find("memory_remember").by_name({"memory": "x"}) == {"content": "x"}
    for name in ("memory_recall", "memory_list", "list_tasks"):
        with pytest.raises(UsageError) as caught:
            registry.find(name).by_name({"memory": "x"})
        assert caught.value.hint.startswith("valid arguments:")
