"""Completion in shells that few machines have; a missing shell is a failure."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from shells import completing_shell, hostile_names, typed_in_shell

filled = pytest.fixture(hostile_names)


def test_zsh_completes_memory_ids(filled: Path, tmp_path: Path) -> None:
    """After ``completion install``, the Tab key completes memIds in a new zsh."""
    environment = completing_shell("zsh", tmp_path)
    typed = typed_in_shell(["zsh", "-i"], environment, "memvault show use-w\t")
    assert "show use-wombats-abc123" in typed
    assert '"title": "Use: wombats"' in typed


def test_fish_completes_memory_ids(filled: Path, tmp_path: Path) -> None:
    """After ``completion install``, a new fish completes memIds and shows their titles."""
    environment = completing_shell("fish", tmp_path)
    command = ["fish", "-c", "complete -C 'memvault show use-w'"]
    out = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert out.stdout == "use-wombats-abc123\tUse: wombats\n"
