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
def test_a_method_takes_what_its_tool_takes(kind: type) -> None:
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


def test_a_method_returns_the_page_that_is_asked_for(vault: Vault, folder: Path) -> None:
    """``offset`` and ``length`` read a list or a text in parts, and ``next`` continues it."""
    for name in ("one", "two", "three"):
        write(folder, f"{name}.md", f"# {name}\n")
    every = [entry["filePath"] for entry in vault.list()["memories"]]
    assert [entry["filePath"] for entry in vault.list(offset=1)["memories"]] == every[1:]
    whole = vault.show("three")["content"]
    first = vault.show("three", length=3)
    assert (first["content"], first["next"]) == (whole[:3], 3)
    assert vault.show("three", offset=3)["content"] == whole[3:]


def test_a_failure_is_raised_with_code_hint_and_details(vault: Vault, folder: Path) -> None:
    """A caller can catch a class of failures, and read what the failed result would contain."""
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


def test_a_method_names_tools_as_call_does(vault: Vault, folder: Path) -> None:
    """Errors and warnings name tools and arguments, not commands, however a tool is called."""
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


def test_a_file_that_cannot_be_written_raises_an_error_of_memvault(folder: Path) -> None:
    """No other exception than memvault's reaches a caller whose disk fails."""
    write(folder, "context", "a file where a folder should be")
    with open_vault(folder) as vault, pytest.raises(MemvaultError):
        vault.remember("Bilbies", "They dig.")


def test_what_a_method_returns_is_delivered(vault: Vault, folder: Path) -> None:
    """An event that a method returned comes to no other caller, and the others still wait."""
    vault.inbox_push("ci", "one")
    vault.inbox_push("ci", "two")
    assert [event["data"]["message"] for event in vault.inbox_peek()["events"]] == ["one"]
    with open_vault(folder) as other:
        assert [event["data"]["message"] for event in other.inbox_peek(count=5)["events"]] == [
            "two"
        ]
        assert other.inbox_peek()["events"] == []


def test_any_sequence_and_mapping_can_be_given(vault: Vault) -> None:
    """Tuples and other sequences are taken for lists."""
    kept = vault.remember("Bilbies", "They dig.", tags=("a", "b"))
    assert kept["tags"] == ["a", "b"]
    assert vault.delete((kept["memId"], "none"))["missing"] == ["none"]
    assert own_arguments({"self": vault, "ids": ("a",), "tag": None}) == {"ids": ["a"]}


MANY = 70 if SOAK else 35
"""Tasks that wait, more than the threads of asyncio on a machine of the tests."""


def test_a_wait_ends_with_what_another_task_does(folder: Path) -> None:
    """However many tasks wait for events, others can use the vault and bring them about."""

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


def test_a_cancelled_wait_ends_and_loses_no_event(folder: Path) -> None:
    """A task that is cancelled leaves no thread behind, and events for the next that waits."""

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


def test_closing_an_async_vault_ends_its_waits(folder: Path) -> None:
    """A program that leaves the block while a task waits does not hang at its end."""

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


def test_a_name_in_a_message_stays_as_it_was_given(vault: Vault) -> None:
    """A command or option in a name that a message quotes is not taken for one of memvault's."""
    for name in ("memvault recall --tags of cats", "the cat's memvault list --type"):
        message = vault.call("memory_show", memId=name)["error"]["message"]
        assert message == f"There is no memory {name!r}"


def test_results_of_any_types_are_returned() -> None:
    """The error and warnings of a vault's own tool may hold numbers and objects."""
    result = {"error": {"code": 7, "message": "use `memvault list`"}, "warnings": [1, {"a": 2}]}
    worded = render_result(result, find("memory_list"), LOCAL)
    assert worded == {**result, "error": {"code": 7, "message": "use `memory_list`"}}
    for error in (None, 3, ["x"]):
        assert render_result({"error": error, "warnings": error}, None, LOCAL)["error"] == error


def test_a_closed_vault_fails_as_any_other_call_does(folder: Path) -> None:
    """A call after ``close`` raises a ``MemvaultError``, which ``call`` returns."""
    with open_vault(folder) as vault:
        assert vault.list()["memories"] == []
    vault.close()
    with pytest.raises(errors.UsageError, match="The vault is closed"):
        vault.list()
    assert vault.call("memory_list")["error"]["message"] == "The vault is closed"


def test_failures_are_raised_and_returned_in_async_code_too(folder: Path) -> None:
    """An async method raises what its twin raises, and ``call`` returns the failed result."""

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


def test_the_page_on_python_shows_what_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each example of docs/reference/python.md runs and prints what the page shows."""
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


def test_types_reach_the_programs_of_users(tmp_path: Path) -> None:
    """A type checker accepts the right uses of arguments and results, and reports the wrong."""
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
