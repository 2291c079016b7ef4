"""Only an engine granted by this user is contacted, and the token is sent only to its address."""

from __future__ import annotations

import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from conftest import Run, only_with, refused, succeeded, write
from engine_server import LOADED as LOADED  # modules preloaded for commands; see conftest
from memvault import open_vault
from memvault.index.milvus import access
from memvault.settings.vault_settings import load_settings
from memvault.tools.core.registry import all_tools
from tool_calls import soon

pytestmark = only_with("pymilvus", "milvus_lite", extra="milvus")

SETTINGS = 'version = 1\n\n[index]\nengine = "milvus"\nuri = "{}"\n'


class Listener:
    """A port that records received data and never answers."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.uri = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.received: list[bytes] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        with suppress(OSError):  # closed
            while True:
                connection, _ = self._socket.accept()
                with connection:
                    connection.settimeout(2)
                    self.received.append(b"")
                    with suppress(OSError):
                        self.received[-1] = connection.recv(65_536)

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()


@pytest.fixture
def listener() -> Iterator[Listener]:
    """An attacker's port."""
    listening = Listener()
    yield listening
    listening.close()


@pytest.mark.promise("S18")
def test_no_command_contacts_an_engine_without_a_grant(
    filled: Path, listener: Listener, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No request and no token is sent to the address in a stranger's memvault.toml."""
    monkeypatch.setenv("MEMVAULT_MILVUS_TOKEN", "sesame")
    stranger = tmp_path / "stranger"
    shutil.copytree(filled, stranger)
    text = SETTINGS.format(listener.uri).replace("[index]", "world.enabled = true\n\n[index]")
    write(stranger, "memvault.toml", f'{text}vault = "abc"\npatience = 1\n')
    succeeded(run("vaults", "add", "team", str(stranger)))
    for line in (
        ["index", "drop"],
        ["index", "drop", "--all", "--yes"],
        ["index", "status"],
        ["recall", "tea"],
        ["recall", "tea", "--vaults", "this,team"],
        ["show", "m1"],
        ["doctor", "--fix"],
        ["status"],
        ["reindex"],
        ["vaults", "list"],
        ["vaults", "default", "team"],
        ["context", "tea"],
        ["edit", "m1"],
        ["path", "m1"],
        ["completion", "show", "bash"],
        ["vaults", "remove", "team"],
    ):
        run(*line, cwd=stranger)
        assert listener.received == [], line
    with open_vault(stranger) as vault:
        for tool in all_tools():
            vault.call(tool.name, **soon(tool))
            assert listener.received == [], tool.name
    write(stranger, "memvault.toml", f'{text}vault = "abc"\nsent = "you"\n')
    for words in (["list"], ["recall", "tea"], ["show", "m1"], ["status"], ["index", "drop"]):
        run(*words, cwd=stranger)
        assert listener.received == [], words


@pytest.mark.promise("S18")
def test_token_is_sent_only_to_granted_address(
    folder: Path, tmp_path: Path, listener: Listener, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a vault's settings change the address, it gets the token only after a person types it."""
    monkeypatch.setenv("MEMVAULT_MILVUS_TOKEN", "sesame")
    write(folder, "memvault.toml", SETTINGS.format(tmp_path / "engine.db") + "patience = 60\n")
    succeeded(run("index", "push"))
    write(folder, "memvault.toml", SETTINGS.format(listener.uri) + "patience = 1\n")
    said = refused(run("index", "push"), 1)
    assert listener.uri in said
    run("recall", "tea")
    assert listener.received == []
    refused(run("index", "push", "--to", "http://127.0.0.1:1"), 2)
    assert listener.received == []
    assert "did not answer" in refused(run("index", "push", "--to", listener.uri), 1)
    assert listener.received


@pytest.mark.promise("S18")
def test_engine_granted_without_token_does_not_receive_later_token(
    folder: Path, listener: Listener, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recall does not send a token that is set after the push to that push's address."""
    settings = SETTINGS.format(listener.uri) + "patience = 1\n"
    write(folder, "memvault.toml", settings)
    assert "did not answer" in refused(run("index", "push"), 1)
    monkeypatch.setenv("MEMVAULT_MILVUS_TOKEN", "sesame")
    root = folder.resolve()
    assert access.engine_of(load_settings(root).index).where.token == ""
    succeeded(run("recall", "tea"))
    assert "may not be sent to any address yet" in refused(run("index", "push"), 1)
    assert access.engine_of(load_settings(root).index).where.token == ""
    assert "did not answer" in refused(run("index", "push", "--to", listener.uri), 1)
    assert access.engine_of(load_settings(root).index).where.token == "sesame"


def test_push_sends_token_only_to_typed_address(
    folder: Path, listener: Listener, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A push alone never sends the token to an address that comes from the vault's settings."""
    monkeypatch.setenv("MEMVAULT_MILVUS_TOKEN", "sesame")
    write(folder, "memvault.toml", SETTINGS.format(listener.uri) + "patience = 1\n")
    assert "may not be sent to any address yet" in refused(run("index", "push"), 1)
    assert listener.received == []


def test_failed_push_does_not_grant_engine_access(
    folder: Path, listener: Listener, run: Run
) -> None:
    """Recall, status and doctor do not contact an engine that has never answered a push."""
    write(folder, "tea.md", "# Tea\n\nGreen.\n")
    write(folder, "memvault.toml", SETTINGS.format(listener.uri) + "patience = 1\n")
    assert "did not answer" in refused(run("index", "push"), 1)
    listener.received.clear()
    for line in (["recall", "tea"], ["status"], ["index", "status"]):
        succeeded(run(*line))
    run("doctor")
    assert listener.received == []
