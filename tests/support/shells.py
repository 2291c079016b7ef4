"""Interactive shells that complete memvault's commands."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from conftest import write
from memvault import Vault

_PROMPT = "READY> "


def hostile_names(folder: Path, vault: Vault, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A vault with memories, one of them with a hostile name, an agent and a space."""
    header = "---\nid: {}\ntags: [{}]\n---\n\n# {}\n"
    write(folder, "a.md", header.format("use-wombats-abc123", "animals, dig", "Use: wombats"))
    write(folder, "b.md", header.format("use-quokkas-abc123", "animals", "Use\x1b[31m $(quokkas)"))
    write(folder, "c.md", header.format("other-abc123", "'$(touch ran)', 'a;b', x", "Other"))
    write(folder, "odd/d.md", "---\nmemory_type: field-note\n---\nx\n")
    write(folder, "agents/bob.md", "x")
    write(folder, "spaces/team/space.md", "x")
    write(folder, "templates/minutes.md", "x")
    assert vault.call("memory_list")["success"]
    monkeypatch.setenv("MEMVAULT_VAULT", str(folder))
    return folder


def completing_shell(shell: str, place: Path) -> dict[str, str]:
    """Install completion for a shell in a temporary home; return the shell's environment."""
    home = place / "home"
    write(home, f".{shell}rc", f"PS1='{_PROMPT}'\n")
    script = f'#!/bin/sh\nexec "{sys.executable}" -m memvault "$@"\n'
    program = write(place, "bin/memvault", script)
    program.chmod(0o755)
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("XDG_")},
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "HOME": str(home),
        "ZDOTDIR": str(home),
        "TERM": "dumb" if shell != "fish" else "xterm",
    }
    for words in (["completion", "install", shell, "--yes"], ["list", "--quiet"]):
        command = [str(program), *words]
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    return environment


def typed_in_shell(command: list[str], environment: Mapping[str, str], text: str) -> str:
    """Type a word that completes to a memId, and ``--json``; return the resulting line."""
    steps = [(_PROMPT, text), ("-abc123", " --json\n"), (_PROMPT, "exit\n")]
    return _typed(command, environment, steps)


def _typed(
    command: list[str], environment: Mapping[str, str], steps: Iterable[tuple[str, str]]
) -> str:
    """Type each input once the expected output has appeared; return all terminal output."""
    child, terminal = pty.fork()
    if child == 0:
        os.execvpe(command[0], command, environment)
    shown, at = b"", 0
    waiting = list(steps)
    deadline = time.monotonic() + 60
    while select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))[0]:
        try:
            piece = os.read(terminal, 4096)
        except OSError:  # the other end of the terminal is closed
            break
        if not piece:
            break
        shown += piece
        while waiting and (found := shown.find(waiting[0][0].encode(), at)) >= 0:
            at = found + len(waiting[0][0])
            os.write(terminal, waiting.pop(0)[1].encode())
    os.close(terminal)
    os.waitpid(child, 0)
    return shown.decode("utf-8", "replace")
