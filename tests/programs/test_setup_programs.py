"""Real agent programs read the files of setup and start memvault.

No test downloads these programs: ``MEMVAULT_CLIENTS`` lists the folders, as in ``PATH``, with the
commands ``claude``, ``codex``, ``gemini`` and ``opencode`` installed by npm. The programs run
without an account; yours is not used. ``make programs`` runs this test, and fails without them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from conftest import Run, succeeded, write

CLIENTS = os.environ.get("MEMVAULT_CLIENTS", "")
PROGRAMS = {"claude-code": "claude", "codex": "codex", "gemini": "gemini", "opencode": "opencode"}


class Refusing(BaseHTTPRequestHandler):
    """A model provider that refuses every request."""

    def do_POST(self) -> None:
        """Refuse with an error that is not retried."""
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_error(400)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def provider() -> Iterator[list[str]]:
    """Options that make Codex use a local provider, which refuses."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/v1"
        own = f'model_providers.x={{name="x",base_url="{address}",wire_api="responses"}}'
        yield ["-c", "model_provider=x", "-c", own]
        server.shutdown()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a vault, which each program trusts; memvault is on PATH."""
    home, root = tmp_path / "home", tmp_path / "project"
    trusted = {"hasTrustDialogAccepted": True, "enabledMcpjsonServers": ["memvault"]}
    write(home, ".claude.json", json.dumps({"projects": {str(root): trusted}}))
    write(home, ".codex/config.toml", f'[projects."{root}"]\ntrust_level = "trusted"\n')
    write(home, ".gemini/trustedFolders.json", json.dumps({str(root): "TRUST_FOLDER"}))
    write(root, "notes/memvault.toml", "version = 1\n")
    line = f'#!/bin/sh\nexec "{sys.executable}" -m memvault "$@"\n'
    write(tmp_path, "bin/memvault", line).chmod(0o755)
    monkeypatch.setenv(
        "PATH", os.pathsep.join([str(tmp_path / "bin"), CLIENTS, os.environ["PATH"]])
    )
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME")
    return root


def said(name: str, *words: str, folder: Path) -> str:
    """Return a program's output."""
    program = shutil.which(PROGRAMS[name], path=CLIENTS) if CLIENTS else None
    assert program, f"MEMVAULT_CLIENTS names no folder with {PROGRAMS[name]}"
    done = subprocess.run(
        [program, *words],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        timeout=120,
    )
    return done.stdout.decode()


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("scope", ["--project", "--user"])
def test_setup_registers_server_with_each_program(
    name: str, scope: str, project: Path, run: Run
) -> None:
    """Each program lists memvault among its servers, and all but Codex try to start it."""
    succeeded(run("setup", name, scope, "--vault", str(project / "notes"), cwd=project))
    listed = said(name, "mcp", "list", folder=project)
    assert "memvault mcp" in listed or name == "codex"
    assert ("enabled" if name == "codex" else "connected") in listed.lower(), listed
    succeeded(run("setup", name, scope, "--remove", cwd=project))
    assert "memvault" not in said(name, "mcp", "list", folder=project)


def test_setup_hooks_and_agent_work_in_codex(project: Path, run: Run, provider: list[str]) -> None:
    """Codex runs the hooks for session start and prompt without reporting a problem."""
    succeeded(run("setup", "codex", "--vault", str(project / "notes"), cwd=project))
    words = ["exec", "--skip-git-repo-check", "--dangerously-bypass-hook-trust", *provider, "Hello"]
    shown = said("codex", *words, folder=project)
    assert "hook: SessionStart Completed" in shown
    assert "hook: UserPromptSubmit Completed" in shown
    assert "malformed" not in shown
