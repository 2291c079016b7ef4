"""Over MCP nobody learns where on this machine anything lies."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from conftest import Run, without_rights, write
from memvault import open_vault
from memvault.call import Call, Caller
from memvault.tools.core import registry
from memvault.workspace import Workspace

pytest.importorskip("mcp", reason="the MCP SDK is not installed: pip install 'memvault[mcp]'")
from mcp import Client, MCPError

from mcp_client import session
from memvault.mcp.calls import PendingCall
from memvault.mcp.results import result
from tool_calls import call_of

CLIENT = Caller(may_see_paths=False, budgeted=True)
"""A client of a server that was started with ``--programs``."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder, and beside it one for the cache and all the others."""
    for name, variable in (
        ("house", "HOME"),
        ("hoard", "XDG_CACHE_HOME"),
        ("mind", "XDG_STATE_HOME"),
        ("wishes", "XDG_CONFIG_HOME"),
        ("scratch", "TMPDIR"),
        ("brains", "MEMVAULT_MODELS"),
    ):
        (tmp_path / name).mkdir(mode=0o777)
        (tmp_path / name).chmod(0o777)
        monkeypatch.setenv(variable, str(tmp_path / name))
    return tmp_path / "house"


@pytest.fixture
def kept(home: Path, filled: Path) -> Path:
    """A vault in the home folder, with a little of everything."""
    root = home / "notes"
    shutil.copytree(filled, root)
    write(root, "a.md", "# Alpha\n\nThe zebra sleeps.\n")
    write(root, "locked/b.md", "# Beta\n\nThe zebra eats.\n")
    with open_vault(root) as vault:
        vault.call("enter_space", spaceId="team")
        vault.call("talk_agent", agent="main", message="Hello")
        vault.call("push_service", name="ci", message="green")
        vault.call("memory_load", memId="Alpha")
        vault.call("memory_recall", query="zebra")
    return root


def right() -> list[tuple[str, dict[str, Any]]]:
    """Return a call of every tool that succeeds where the one before took nothing away."""
    return [(tool.name, call_of(tool)) for tool in registry.all_tools()]


ODD = ("../x", ".memvault", "/", "~", "..", "nothing", "a\0b", "")


def wrong(values: Sequence[str] = ODD) -> list[tuple[str, dict[str, Any]]]:
    """Return calls of every tool that make no sense, with each of its texts."""
    found: list[tuple[str, dict[str, Any]]] = []
    for tool in registry.all_tools():
        found += [(tool.name, {}), (tool.name, {"nonsense": "x"})]
        parameters = tool.parameters
        texts = [entry.key for entry in parameters if str in entry.types and not entry.choices]
        for value in values:
            found.append((tool.name, dict.fromkeys(texts, value)))
    return [entry for entry in found if entry[0] != "wait_for" or entry[1]]


Calls = Sequence[tuple[str, dict[str, Any]]]


def answers(root: Path, calls: Calls = (), prefix: Sequence[str] = ()) -> list[str]:
    """Return all that a server says: of its tools, its memories, and to calls."""
    found: list[str] = []

    async def talk(client: Client) -> None:
        for ask in (
            client.list_tools,
            client.list_resources,
            lambda: client.read_resource("memvault://memory/Alpha"),
            lambda: client.read_resource("memvault://memory/nothing"),
            lambda: client.read_resource("file:///etc/passwd"),
            lambda: client.call_tool("nothing", {}),
        ):
            try:
                found.append(repr(await ask()))
            except MCPError as error:
                found.append(repr(error.error))
        for name, arguments in calls:
            found.append(f"{name} {arguments} {await client.call_tool(name, arguments)!r}")

    session(root, talk, "--programs", prefix=prefix)
    return found


def told(root: Path, calls: Calls) -> list[str]:
    """Return what calls are answered, as the server answers them, in this process."""
    workspace, found = Workspace(root), []
    for name, arguments in calls:
        call = PendingCall(workspace, CLIENT, name, arguments)
        answer = result(Call(workspace, CLIENT), call.run())
        call.settle()
        found.append(f"{name} {arguments} {answer!r}")
    workspace.close()
    return found


def no_paths(home: Path, said: list[str]) -> None:
    """Check that no answer names a folder of this machine."""
    for answer in said:
        for folder in (home.parent, *home.parent.iterdir()):
            assert str(folder) not in answer
        assert str(Path(registry.__file__).parents[1]) not in answer


def test_good_and_bad_calls_name_no_folder(kept: Path, home: Path) -> None:
    """Whether a call succeeds or fails, its answer names no folder of this machine."""
    said = [*answers(kept, right()), *told(kept, wrong())]
    no_paths(home, said)
    assert any("'vault': 'notes'" in answer for answer in said)


def test_a_vault_that_cannot_be_written_names_no_folder(kept: Path, home: Path) -> None:
    """Where the disk refuses, a file is named by its path in the vault."""
    weak = without_rights()
    paths = [path for path in (kept, *kept.rglob("*")) if path.is_dir()]
    for path in paths:
        path.chmod(0o555)
    (kept / "locked").chmod(0)
    try:
        said = answers(kept, [*right(), *wrong(("../x", ".memvault", "a\0b", ""))], weak)
    finally:
        for path in paths:
            path.chmod(0o755)
    no_paths(home, said)
    assert any("Permission denied" in answer for answer in said)


BROKEN = {
    "memvault.toml": "version = [\n",
    ".memvault": "no folder\n",
    "agents": "no folder\n",
    "tools": "no folder\n",
    "spaces": "no folder\n",
    "a.md": "---\ntitle: [\n---\n\nThe zebra sleeps.\n",
    "agents/main/inbox/x.md": "---\ntitle: [\n---\n",
    "tools/t.md": "---\ntitle: [\n---\n",
}


@pytest.mark.parametrize("path", BROKEN)
def test_broken_files_are_named_by_their_place_in_the_vault(
    kept: Path, home: Path, path: str
) -> None:
    """What is broken in a vault is named relative to it, in errors, hints and warnings."""
    if (kept / path).is_dir():
        (kept / path).rename(kept / "away")
    write(kept, path, BROKEN[path])
    no_paths(home, [*answers(kept), *told(kept, right())])


@pytest.mark.parametrize("section", ["embedder", "rerank"])
def test_a_models_folder_is_told_by_its_name(
    kept: Path, tmp_path: Path, home: Path, section: str
) -> None:
    """A model that the settings name by its path is told by the name of its folder."""
    elsewhere = tmp_path / "house" / "zoo" / "okapi"
    write(elsewhere, "model.onnx", "no model")
    write(kept, "memvault.toml", f'[{section}]\nmodel = "{elsewhere}"\n')
    said = told(kept, [*right(), ("memory_recall", {"query": "zebra", "rerank": True})])
    no_paths(home, said)
    assert any("okapi" in answer for answer in said)


def test_a_model_of_the_users_own_is_told_by_its_name(
    kept: Path, tmp_path: Path, home: Path
) -> None:
    """What the user's own settings name is no more of a client's business."""
    elsewhere = tmp_path / "house" / "zoo" / "okapi"
    write(elsewhere, "model.onnx", "no model")
    write(
        tmp_path,
        "wishes/memvault/settings.toml",
        f'[embedder]\nmodel = "{elsewhere}"\n[rerank]\nmodel = "{elsewhere}"\n',
    ).chmod(0o600)
    said = told(kept, [*right(), ("memory_recall", {"query": "zebra", "rerank": True})])
    no_paths(home, said)
    assert any("okapi" in answer for answer in said)


def test_an_odd_folder_of_ones_own_is_an_answer_too(
    kept: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a folder of the user's own has no whole path, each answer says so and none fails."""
    monkeypatch.setenv("MEMVAULT_CACHE", "cache")
    said = answers(kept, [("memory_recall", {"query": "zebra"}), ("memory_show", {})])
    no_paths(home, said)
    assert "MEMVAULT_CACHE is not an absolute path" in said[-2]


def test_no_models_folder_is_named(kept: Path, home: Path, run: Run) -> None:
    """Over MCP a model has a name; at the machine it may be any folder."""
    write(home, "zoo/model.onnx", "no model")
    calls = [
        (tool, {"name": name, "for": use})
        for tool in ("model_use", "model_verify")
        for name in (str(home / "zoo"), "~/zoo", "../zoo", "x/../../zoo", str(home / "none"), ".")
        for use in ("embed", "rerank")
    ]
    said = answers(kept, calls)[-len(calls) :]
    assert len({answer.partition("CallToolResult")[2] for answer in said}) == 1
    assert "may not name folders" in said[0]
    assert str(home / "zoo") in run("model", "verify", str(home / "zoo")).err


def test_the_command_line_says_where_things_lie(kept: Path, run: Run) -> None:
    """Whoever is at the machine is told whole paths."""
    assert str(kept) in run("status", "--vault", str(kept)).out
    assert run("status", "--json", "--vault", str(kept)).json["vault"] == str(kept)
