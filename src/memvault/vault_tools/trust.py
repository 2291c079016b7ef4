"""Store the user's permission to run a vault's tools on this machine.

A permission covers exactly the bytes of the tool's fingerprint, and is stored as a grant.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

from memvault import grants
from memvault.arguments.parameters import normal_name
from memvault.errors import Refused, StorageError
from memvault.vault_tools.fingerprint import CoveredFiles, ToolFingerprint, fingerprint_of
from memvault.vault_tools.tool_files import ToolFile

_KIND = "tool"


def require(root: Path, tool: ToolFile, vault_files: CoveredFiles | None = None) -> str:
    """Check that a tool is trusted here in its current state; return the program to run.

    Raises:
        Refused: the user has not trusted exactly this state.
    """
    name = tool.definition.name
    hint = f"review {tool.path}, then run `memvault tools trust {name}`"
    granted_digest = grants.get(root, _KIND, normal_name(name)).get("digest")
    if not granted_digest:  # Checked first, so no file of an untrusted tool is read.
        raise Refused(f"The tool {name} is not trusted here", hint)
    covered = fingerprint_of(root, tool, vault_files)
    if granted_digest != covered.digest:
        changed = f"{tool.path} or a file that trust covers"
        raise Refused(f"The tool {name} has changed since it was trusted: {changed}", hint)
    return covered.program


def trusted(root: Path, tools: Iterable[ToolFile]) -> list[ToolFile]:
    """Return the tools that may run here in their current state; each file is read once."""
    vault_files = CoveredFiles(root)
    runnable = []
    for tool in tools:
        with contextlib.suppress(Refused, StorageError):
            require(root, tool, vault_files)
            runnable.append(tool)
    return runnable


def grant(root: Path, tool: ToolFile, covered: ToolFingerprint) -> None:
    """Allow a tool to run on this machine while its fingerprint is unchanged.

    Raises:
        Refused: the state folder is inside a vault.
        StorageError: the grant cannot be written.
    """
    allowed = {
        "digest": covered.digest,
        "command": list(tool.definition.command),
        "files": covered.files,
    }
    grants.add(root, _KIND, normal_name(tool.definition.name), allowed)


def revoke(root: Path, name: str) -> bool:
    """Revoke the permission to run a tool on this machine; return whether there was one."""
    return grants.revoke(root, _KIND, normal_name(name))
