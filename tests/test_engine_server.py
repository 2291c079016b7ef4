"""Many machines use one engine server, which may crash, hang or refuse at any time."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import launcher
from conftest import Ran, Run, only_with, refused, sampled, soak_only, succeeded, write
from engine_server import LOADED, Server, served
from launcher import Process
from memvault.index.milvus import keyword_rows
from memvault.index.milvus.client import EngineClient
from memvault.index.milvus.engine_errors import EngineAddress

if TYPE_CHECKING:
    from mcp import Client

pytestmark = only_with("pymilvus", "milvus_lite", extra="milvus")

SETTINGS = 'version = 1\n\n[index]\nengine = "milvus"\nuri = "{}"\n'
PATIENT = ("--patience", "60")
ROUNDS = int(os.environ.get("MEMVAULT_ENGINE_ROUNDS", "4"))
"""The number of pushes while another machine reads; every second push also deletes a note."""
NOTES = int(os.environ.get("MEMVAULT_ENGINE_NOTES", "8"))
"""The number of notes that each machine pushes."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """An engine without a token."""
    with served(tmp_path / "engine") as server:
        yield server


class Machine:
    """A machine: separate folders for settings, state and indexes, and a vault.

    Unless a test is about the time limit for the engine, the limit is long, because many tests
    share the engine.
    """

    def __init__(self, root: Path, uri: str, more: str = "patience = 60\n") -> None:
        self.vault = root / root.name
        write(self.vault, "memvault.toml", SETTINGS.format(uri) + more)
        places = {kind: str(root / kind.lower()) for kind in ("STATE", "CACHE", "CONFIG")}
        self.environment = {**os.environ, **{f"MEMVAULT_{k}": v for k, v in places.items()}}

    def started(self, *words: str, fresh: bool = False) -> Process:
        """Start a command in the vault."""
        return launcher.start(
            words, self.vault, environment=self.environment, others=LOADED, fresh=fresh
        )

    def run(self, *words: str) -> Ran:
        """Run a command in the vault."""
        return ended(self.started(*words))


def ended(process: Process, seconds: float = 300) -> Ran:
    """Wait for a command with a time limit."""
    out, err = process.communicate(timeout=seconds)
    return Ran(process.wait(), out.decode(), err.decode())


def test_engine_serves_many_machines_concurrently(tmp_path: Path, server: Server) -> None:
    """Each machine finds only its own memories, and those with access can read all of them."""
    machines = [Machine(tmp_path / f"m{number}", server.uri) for number in range(4)]
    for number, machine in enumerate(machines):
        for other in range(NOTES):
            write(machine.vault, f"fact/n{other}.md", f"Thing{other} of machine{number}.\n")
    for process in [machine.started("index", "push") for machine in machines]:
        succeeded(ended(process))
    listed = [succeeded(machine.run("list", "--json")).json for machine in machines]
    own = [{entry["memId"] for entry in found["memories"]} for found in listed]
    asked = [machine.started("recall", "thing7", "--json") for machine in machines]
    for number, process in enumerate(asked):
        found = succeeded(ended(process)).json["memories"]
        assert found[0]["filePath"] == "fact/n7.md"
        assert {entry["memId"] for entry in found} <= own[number]
    first = machines[0]
    for number in (1, 2, 3):
        succeeded(
            first.run("vaults", "add", f"of{number}", server.uri, "--of", f"m{number}", *PATIENT)
        )
    found = succeeded(first.run("recall", "thing7", "--vaults", "all", "--json")).json["memories"]
    assert {entry["vault"] for entry in found} == {"of1", "of2", "of3"}


def test_remote_vault_sees_concurrent_push(tmp_path: Path, server: Server) -> None:
    """While notes change, each listing shows notes that existed, and the last is up to date."""
    owner, reader = (Machine(tmp_path / name, server.uri) for name in ("owner", "reader"))
    write(owner.vault, "fact/first.md", "The first.\n")
    succeeded(owner.run("index", "push"))
    succeeded(reader.run("vaults", "add", "team", server.uri, *PATIENT))
    for number in range(ROUNDS):
        write(owner.vault, f"fact/n{number}.md", f"Thing{number} is here.\n")
        if number % 2:
            (owner.vault / f"fact/n{number - 1}.md").unlink()
        sending = owner.started("index", "push")
        listing = reader.started("--vault", "team", "recall", "thing first", "--json")
        succeeded(ended(sending))
        found = {entry["filePath"] for entry in succeeded(ended(listing)).json["memories"]}
        assert "fact/first.md" in found
        assert found <= {"fact/first.md", *(f"fact/n{other}.md" for other in range(number + 1))}
        own = succeeded(owner.run("list", "--json")).json["memories"]
        theirs = succeeded(reader.run("--vault", "team", "list", "--json")).json["memories"]
        assert [entry["memId"] for entry in theirs] == [entry["memId"] for entry in own]


@pytest.mark.filterwarnings("ignore:resources.*is removed as of 2026-07-28")
def test_remote_vault_notifies_clients_of_changes(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over MCP, memories of a remote vault can be read and subscribed to like local ones."""
    pytest.importorskip("mcp", reason="the MCP SDK is not installed: pip install 'memvault[mcp]'")
    from mcp_client import session

    owner, reader = (Machine(tmp_path / name, server.uri) for name in ("owner", "reader"))
    note = write(owner.vault, "fact/tea.md", "---\nid: tea-1\n---\n\nGreen tea.\n")
    succeeded(owner.run("index", "push"))
    succeeded(reader.run("vaults", "add", "team", server.uri, *PATIENT))
    for name, value in reader.environment.items():
        monkeypatch.setenv(name, value)
    told = asyncio.Event()

    async def heard(message: Any) -> None:
        if getattr(message, "method", "") == "notifications/resources/updated":
            told.set()

    async def talk(client: Client) -> None:
        uri = "memvault://memory/tea-1"
        await client.subscribe_resource(uri)
        note.write_text("---\nid: tea-1\n---\n\nBlack tea.\n", "utf-8")
        succeeded(await asyncio.to_thread(owner.run, "index", "push"))
        async with asyncio.timeout(30):
            await told.wait()
        (content,) = (await client.read_resource(uri)).contents
        assert "Black tea" in content.text  # type: ignore[union-attr]

    session(Path("team"), talk, mode="legacy", message_handler=heard)


@soak_only
@pytest.mark.promise("R47")
def test_push_survives_engine_restart(tmp_path: Path, server: Server) -> None:
    """If the engine is killed during a push and restarted, the same push sends everything."""
    machine = Machine(tmp_path / "m", server.uri)
    for number in range(400):
        write(machine.vault, f"fact/n{number}.md", f"# Note {number}\n\nThing{number} is here.\n")
    pushing = machine.started("index", "push", fresh=True)
    while not any((tmp_path / "m").rglob("engine-*.json")):
        time.sleep(0.001)
        assert pushing.poll() is None
    server.end(signal.SIGKILL)
    server.start(fresh=True)
    succeeded(ended(pushing))
    told = succeeded(machine.run("index", "status", "--json")).json
    assert (told["rows"]["words"], told["problem"]) == (400, "")
    found = succeeded(machine.run("recall", "thing377", "-n", "1", "--json")).json["memories"]
    assert [entry["filePath"] for entry in found] == ["fact/n377.md"]


def test_hanging_engine_times_out(tmp_path: Path, server: Server) -> None:
    """A server that accepts calls but never answers ends a recall with one error message."""
    machine = Machine(tmp_path / "m", server.uri, "")
    succeeded(machine.run("remember", "Tea", "Green tea at four."))
    succeeded(machine.run("index", "push"))
    server.process.send_signal(signal.SIGSTOP)
    assert "did not answer" in refused(machine.run("recall", "tea"), 1)
    succeeded(machine.run("remember", "Disk", "The disk of db1 is full."))
    server.process.send_signal(signal.SIGCONT)
    assert "db1" in succeeded(machine.run("recall", "disk")).out


@soak_only
@pytest.mark.promise("R45")
def test_engine_lost_between_lookup_and_search_is_reported(tmp_path: Path, server: Server) -> None:
    """If the engine fails between lookup and search, recall reports it or uses another engine."""
    alone = Machine(tmp_path / "alone", server.uri, "")
    backed = Machine(tmp_path / "backed", server.uri, "fallback = true\n")
    for machine in (alone, backed):
        succeeded(machine.run("remember", "Tea", "Green tea at four."))
        succeeded(machine.run("index", "push"))
        succeeded(machine.run("recall", "tea"))
    server.be_deaf_to("Search")
    assert "did not answer" in refused(alone.run("recall", "tea"), 1)
    found = succeeded(backed.run("recall", "tea", "--json"))
    assert [entry["title"] for entry in found.json["memories"]] == ["Tea"]
    assert "this machine's own index was used" in found.out + found.err


@sampled(2)
@pytest.mark.parametrize("calls", ["LoadCollection", "Upsert Delete"])
def test_engine_answering_only_some_calls_times_out(
    tmp_path: Path, server: Server, calls: str
) -> None:
    """Recall waits no longer for a full or broken engine than for a missing one."""
    machine = Machine(tmp_path / "m", server.uri, "patience = 1\n")
    succeeded(machine.run("remember", "Tea", "Green tea at four."))
    succeeded(machine.run("index", "push"))
    write(machine.vault, "fact/rum.md", "Brown rum at five.\n")
    server.be_deaf_to(*calls.split())
    assert "did not answer within 1 s" in refused(ended(machine.started("recall", "tea"), 30), 1)
    server.be_deaf_to()
    succeeded(machine.run("index", "push"))
    assert "Green tea" in succeeded(machine.run("recall", "tea", "-n", "1")).out


@soak_only
def test_engine_timeout_covers_all_calls_of_recall(tmp_path: Path, server: Server) -> None:
    """If each call is answered but the total takes too long, the message shows the setting."""
    machine = Machine(tmp_path / "m", server.uri, "patience = 1\n")
    succeeded(machine.run("remember", "Tea", "Green tea at four in the garden."))
    succeeded(machine.run("index", "push"))
    server.be_slow(0.4)
    ran = machine.run("recall", "green tea in the garden at four")
    assert "did not answer within 1 s" in refused(ran, 1)
    assert "patience" in ran.err
    settings = machine.vault / "memvault.toml"
    settings.write_text(settings.read_text("utf-8").replace("patience = 1", "patience = 60"))
    assert "garden" in succeeded(machine.run("recall", "green tea in the garden at four")).out


@soak_only
@pytest.mark.promise("R46")
def test_engine_lost_during_recall_is_noted(tmp_path: Path, server: Server) -> None:
    """If one vault's engine fails during a recall, the other vaults still answer."""
    machine = Machine(tmp_path / "m", server.uri, "")
    succeeded(machine.run("remember", "Tea", "Green tea at four."))
    succeeded(machine.run("index", "push"))
    write(home := tmp_path / "home", "memvault.toml", "version = 1\n")
    write(home, "fact/rum.md", "Rum or tea at five.\n")
    for name, folder in (("work", machine.vault), ("home", home)):
        succeeded(machine.run("vaults", "add", name, str(folder)))
    every = ("recall", "tea at four or five", "--vaults", "all", "--json")
    found = succeeded(machine.run(*every)).json["memories"]
    assert {entry["vault"] for entry in found} == {"work", "home"}
    server.be_deaf_to("Search")
    told = succeeded(machine.run(*every))
    assert {entry["vault"] for entry in told.json["memories"]} == {"home"}
    assert "the vault work was not searched: The engine" in told.out + told.err


def test_engine_token_is_read_only_from_environment(
    tmp_path: Path, folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the token the engine answers; a missing or wrong token is reported."""
    with served(tmp_path / "engine", "sesame") as server:
        write(folder, "memvault.toml", SETTINGS.format(server.uri))
        assert "requires a token" in refused(run("index", "push"), 1)
        succeeded(run("remember", "Tea", "Green tea at four."))
        assert "Green tea" in succeeded(run("recall", "tea")).out  # from this machine's own index
        monkeypatch.setenv("MEMVAULT_MILVUS_TOKEN", "sesame")
        succeeded(run("index", "push", "--to", server.uri))
        monkeypatch.setenv("MEMVAULT_MILVUS_TOKEN", "another")
        assert "refused the token" in refused(run("recall", "tea"), 1)
        monkeypatch.setenv("MEMVAULT_MILVUS_TOKEN", "sesame")
        assert "Green tea" in succeeded(run("recall", "tea")).out


def test_rows_of_interrupted_push_are_never_found(tmp_path: Path, server: Server) -> None:
    """Rows left by an interrupted push are removed when their memory is uploaded."""
    machine = Machine(tmp_path / "m", server.uri)
    write(machine.vault, "fact/a.md", "The first.\n")
    succeeded(machine.run("index", "push"))
    engine = EngineClient(EngineAddress(server.uri, "memvault", ""))
    ((vault, card),) = engine.publications().items()
    row = {"vault": vault, "generation": card.words, "uid": 2, "block": 3, "lengths": {"body": 1}}
    text = " ".join(keyword_rows.encode_document({"body": Counter({"wombat": 1})}))
    engine.upsert("words", [{"id": "left", "text": text, **row}], lambda _: None)
    engine.close()
    write(machine.vault, "fact/b.md", "The second.\n")
    found = succeeded(machine.run("recall", "wombat", "--mode", "keyword", "--json")).json
    assert found["memories"] == []
    told = succeeded(machine.run("index", "status", "--json")).json
    assert (told["documents"], told["rows"]["words"], told["problem"]) == (2, 2, "")
