"""The library: each tool is a typed method of a vault, which returns its result or raises."""

from __future__ import annotations

import asyncio
import doctest
import inspect
from pathlib import Path
from typing import Any

import pytest

import memvault
from conftest import ROOT, SOAK, write
from memvault import AsyncVault, MemvaultError, Vault, errors, open_vault
from memvault.call import LOCAL
from memvault.library.calls import own_arguments
from memvault.tools.core.messages import render_result
from memvault.tools.core.registry import BUDGET, Tool, all_tools, find
from memvault.tools.talk import EventSpec
from tool_calls import call_of, soon, typed

HOOK: list[EventSpec] = [{"event_type": "Hook", "parameter": "ci"}]


def method_name(tool: Tool) -> str:
    """Return the name of a tool's method."""
    return tool.command.replace(" ", "_").replace("-", "_")


def by_name(tool: Tool) -> dict[str, Any]:
    """Return arguments with which a tool succeeds in the vault ``filled``, for its method."""
    given = call_of(tool) if tool.name != "wait_for" else soon(tool)
    return {entry.name: given[entry.key] for entry in tool.parameters if entry.key in given}


@pytest.mark.parametrize("kind", [Vault, AsyncVault])
def test_library_method_has_parameters_of_its_tool(kind: type) -> None:
    """A method has its tool's parameters and defaults, but no budget that ``invoke`` adds."""
    for tool in all_tools():
        if tool.name == "call_tool":
            continue
        method = getattr(kind, method_name(tool))
        assert inspect.iscoroutinefunction(method) is (kind is AsyncVault)
        assert (method.__doc__ or "").startswith(tool.summary)
        _, *given = inspect.signature(method).parameters.values()
        declared = {entry.name: entry for entry in tool.parameters if entry != BUDGET}
        own = inspect.signature(tool.function).parameters
        assert {entry.name for entry in given} == set(declared)
        for entry in given:
            assert entry.default == (own[entry.name].default if entry.name in own else None)
        positional = [entry.name for entry in given if entry.kind is not entry.KEYWORD_ONLY]
        assert all(entry.name in positional for entry in tool.parameters if entry.arg.positional)


def test_library_methods_return_pages(vault: Vault, folder: Path) -> None:
    """``offset`` and ``length`` read a list or content in parts, and ``next`` continues it."""
    for name in ("one", "two", "three"):
        write(folder, f"{name}.md", f"# {name}\n")
    every = [entry["filePath"] for entry in vault.list()["memories"]]
    assert [entry["filePath"] for entry in vault.list(offset=1)["memories"]] == every[1:]
    whole = vault.show("three")["content"]
    first = vault.show("three", length=3)
    assert (first["content"], first["next"]) == (whole[:3], 3)
    assert vault.show("three", offset=3)["content"] == whole[3:]


def test_library_error_has_code_hint_and_details(vault: Vault, folder: Path) -> None:
    """A caller can catch a class of errors and read all fields of the failed result."""
    for name in ("one", "two"):
        write(folder, f"{name}.md", "# Twin\n")
    with pytest.raises(errors.Ambiguous) as ambiguous:
        vault.show("Twin")
    assert ambiguous.value.code == "ambiguous"
    assert {entry["filePath"] for entry in ambiguous.value.candidates()} == {"one.md", "two.md"}
    assert ambiguous.value.details["candidates"]
    with pytest.raises(memvault.errors.NotFound, match="nothing of the kind"):
        vault.show("nothing of the kind")
    with pytest.raises(errors.UsageError) as usage:
        vault.recall("x", since="someday")
    assert usage.value.hint
    with pytest.raises(MemvaultError) as conflict:
        vault.forget("one.md", confirm="000000000000")
    assert conflict.value.code == "conflict"
    assert vault.call("memory_show", memId="Twin")["error"]["code"] == "ambiguous"


def test_library_messages_refer_to_tools(vault: Vault, folder: Path) -> None:
    """Errors and warnings refer to tools and arguments, not commands, in every call style."""
    with pytest.raises(errors.NotFound) as missing:
        vault.show("nothing")
    assert missing.value.hint == "`memory_list` shows all of them"
    assert missing.value.result() == vault.call("memory_show", memId="nothing")

    async def hint() -> str:
        async with AsyncVault(folder) as same:
            with pytest.raises(errors.NotFound) as failed:
                await same.show("nothing")
        return failed.value.hint

    assert asyncio.run(hint()) == missing.value.hint
    write(folder, "one.md", "# One\n")
    found = vault.recall("one", memory_type="nothing")
    assert (
        found["warnings"]
        == vault.call("memory_recall", query="one", memoryType="nothing")["warnings"]
    )
    assert "--" not in found["warnings"][0]


def test_library_write_failure_raises_memvault_error(folder: Path) -> None:
    """If a disk write fails, the caller gets only memvault's exceptions."""
    write(folder, "context", "a file where a folder should be")
    with open_vault(folder) as vault, pytest.raises(MemvaultError):
        vault.remember("Bilbies", "They dig.")


def test_library_returned_event_is_delivered_once(vault: Vault, folder: Path) -> None:
    """An event returned by a method is not delivered to others, which keep waiting."""
    vault.inbox_push("ci", "one")
    vault.inbox_push("ci", "two")
    assert [event["data"]["message"] for event in vault.inbox_peek()["events"]] == ["one"]
    with open_vault(folder) as other:
        assert [event["data"]["message"] for event in other.inbox_peek(count=5)["events"]] == [
            "two"
        ]
        assert other.inbox_peek()["events"] == []


def test_library_accepts_any_sequence_and_mapping(vault: Vault) -> None:
    """Tuples and other sequences are accepted as lists."""
    kept = vault.remember("Bilbies", "They dig.", tags=("a", "b"))
    assert kept["tags"] == ["a", "b"]
    assert vault.delete((kept["memId"], "none"))["missing"] == ["none"]
    assert own_arguments({"self": vault, "ids": ("a",), "tag": None}) == {"ids": ["a"]}


MANY = 70 if SOAK else 35
"""The number of waiting tasks, which is more than asyncio's default number of threads."""


def test_library_wait_ends_on_event_from_another_task(folder: Path) -> None:
    """While any number of tasks wait, others can use the vault and trigger the events."""

    async def talk() -> str:
        async with AsyncVault(folder) as vault:
            waits = [asyncio.create_task(vault.wait_for(HOOK)) for _ in range(MANY)]
            await asyncio.sleep(0.1)
            assert (await vault.recall("zebra"))["count"] == 0
            for number in range(MANY):
                await vault.inbox_push("ci", str(number))
            results = await asyncio.gather(*waits)
            return " ".join(
                sorted(entry["events"][0]["result"]["data"]["message"] for entry in results)
            )

    assert asyncio.run(asyncio.wait_for(talk(), 60)) == " ".join(sorted(map(str, range(MANY))))


def test_library_canceled_wait_keeps_event(folder: Path) -> None:
    """A canceled task leaves no thread behind and leaves events for the next wait."""

    async def talk() -> list[str]:
        async with AsyncVault(folder) as vault:
            for delay in (0, 0.2):
                wait = asyncio.create_task(vault.wait_for(HOOK))
                await asyncio.sleep(delay)
                wait.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await wait
            await vault.inbox_push("ci", "green")
            lost = asyncio.create_task(vault.inbox_peek())
            await asyncio.sleep(0)
            lost.cancel()
            with pytest.raises(asyncio.CancelledError):
                await lost
            result = await vault.wait_for(HOOK, timeout=30)
            return [entry["result"]["data"]["message"] for entry in result["events"]]

    assert asyncio.run(asyncio.wait_for(talk(), 60)) == ["green"]


def test_library_closing_async_vault_ends_its_waits(folder: Path) -> None:
    """A program that leaves the block while a task waits does not hang on exit."""

    async def talk() -> str:
        async with AsyncVault(folder) as vault:
            wait = asyncio.create_task(vault.wait_for(HOOK))
            await asyncio.sleep(0.1)
        with pytest.raises(errors.TimedOut) as ended:
            await wait
        with pytest.raises(errors.UsageError, match="The vault is closed"):
            await vault.recall("zebra")
        assert (await vault.call("memory_list"))["error"]["code"] == "usage"
        await vault.aclose()
        return ended.value.code

    assert asyncio.run(asyncio.wait_for(talk(), 60)) == "timed_out"


def test_library_returns_tool_results_of_any_type() -> None:
    """A registered tool's error and warnings can contain numbers and objects."""
    result = {"error": {"code": 7, "message": "use `memvault list`"}, "warnings": [1, {"a": 2}]}
    worded = render_result(result, find("memory_list"), LOCAL)
    assert worded == {**result, "error": {"code": 7, "message": "use `memory_list`"}}
    for error in (None, 3, ["x"]):
        assert render_result({"error": error, "warnings": error}, None, LOCAL)["error"] == error


def test_library_call_on_closed_vault_raises_error(folder: Path) -> None:
    """A method called after ``close`` raises a ``MemvaultError``, which ``call`` returns."""
    with open_vault(folder) as vault:
        assert vault.list()["memories"] == []
    vault.close()
    with pytest.raises(errors.UsageError, match="The vault is closed"):
        vault.list()
    assert vault.call("memory_list")["error"]["message"] == "The vault is closed"


def test_library_async_methods_raise_the_same_errors(folder: Path) -> None:
    """Async and sync methods raise the same errors, and ``call`` returns the failure."""

    async def talk() -> None:
        async with AsyncVault(folder, agent="ann") as vault:
            with pytest.raises(errors.NotFound):
                await vault.show("nothing")
            failed = await vault.call("memory_show", memId="nothing")
            assert failed["error"]["code"] == "not_found"
            with open_vault(folder) as same:
                assert failed == same.call("memory_show", memId="nothing")
            assert (await vault.call("memory_active"))["agent"] == "ann"

    asyncio.run(talk())


def test_library_documentation_examples_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each example in docs/reference/python.md runs and prints the documented output."""
    monkeypatch.chdir(tmp_path)
    assert typed("init", "notes", "--bare").code == 0
    page = (ROOT / "docs/reference/python.md").read_text("utf-8").replace("\n```\n", "\n\n")
    session = doctest.DocTestParser().get_doctest(page, {}, "python.md", "python.md", 0)
    assert len(session.examples) > 25
    shown: list[str] = []
    results = doctest.DocTestRunner().run(session, out=shown.append)
    assert results.failed == 0, "".join(shown)


PROGRAM = """
import memvault
from memvault import AsyncVault
from memvault.results import RecalledMemory

def show(memory: RecalledMemory) -> str:
    return memory["title"] + memory.get("content", "")

with memvault.open_vault() as vault:
    found = vault.recall("which database", limit=3, mode="keyword", tags=("a", "b"))
    print(*map(show, found["memories"]), found["count"] + 1, found.get("message"))
    print(vault.remember("Title", "Text")["memId"].upper(), vault.call("memory_list"))
    vault.goals_set([{"id": "g", "description": "Ship it"}])
    vault.wait_for([{"event_type": "User"}], timeout=1.5)
    found["memories"][0]["titel"]  # typeddict-item
    found["count"].upper()  # attr-defined
    vault.recall("x", limit="three")  # arg-type
    vault.recall("x", mode="fuzzy")  # arg-type
    vault.goals_get("active")  # call-arg
    vault.recal("x")  # attr-defined
    memvault.open_valt()  # attr-defined
    vault.remember("only a title")  # call-arg
    vault.goals_set([{"id": 1}])  # typeddict-item
try:
    pass
except memvault.errors.Conflict as error:
    print(error.code.upper(), error.hint.upper(), error.details["x"])

async def main() -> int:
    async with AsyncVault("notes", agent="ann") as opened:
        (await opened.recall("x"))["count"].upper()  # attr-defined
        opened.recall("x")["count"]  # index
        return (await opened.recall("x"))["count"]
"""


def test_library_types_are_visible_to_type_checkers(tmp_path: Path) -> None:
    """A type checker accepts valid arguments and results and reports invalid ones."""
    program = write(tmp_path, "program.py", PROGRAM)
    config, cache = str(ROOT / "pyproject.toml"), str(ROOT / ".mypy_cache")
    api = pytest.importorskip("mypy.api", reason="mypy is not installed")
    out, err, _ = api.run(["--config-file", config, "--cache-dir", cache, str(program)])
    reported = {
        int(line.split(":")[1]): line.rpartition("[")[2].rstrip("]")
        for line in out.splitlines()
        if ": error: " in line
    }
    expected = {
        number: line.rpartition("  # ")[2]
        for number, line in enumerate(PROGRAM.splitlines(), start=1)
        if "  # " in line
    }
    assert reported == expected, out + err
