"""Check a vault's folder: nested vaults and repositories, links, programs' files."""

from __future__ import annotations

import contextlib
import os
import posixpath
from collections.abc import Iterator
from pathlib import Path

from memvault.arguments.parameters import normal_name
from memvault.command_table import GROUPS, TOOLS
from memvault.doctor.findings import Finding, check
from memvault.doctor.inspection import VaultInspection
from memvault.files import plain_files
from memvault.files.user_folders import SETTINGS_FILE
from memvault.repository import submodules
from memvault.vault import program_files
from memvault.vault.init import TEMPLATE

_MAX_ENTRIES_SHOWN = 20


@check("tools-unknown", "error", "A name under `[mcp] tools` that is not a profile or a tool")
def unknown_offered_tools(vault: VaultInspection) -> Iterator[Finding]:
    names = {normal_name(name) for name in ("core", "all", *GROUPS)}
    names |= {name for entry in TOOLS for name in (entry.tool, entry.words.replace(" ", "_"))}
    for word in filter(None, map(str.strip, vault.call.settings.mcp.tools.split(","))):
        if normal_name(word) not in names:
            message = f"`mcp.tools` contains {word!r}, which is not a profile or a tool"
            yield Finding(SETTINGS_FILE, f"{message}: `memvault mcp --list-profiles` lists them")


@check(
    "vault-inside",
    "warning",
    "A vault inside another one; its notes belong to both",
)
def nested_vaults(vault: VaultInspection) -> Iterator[Finding]:
    """Find vaults inside this one, and a vault that contains it.

    For a caller that may not see paths, only the name of the outer folder is shown.
    """
    for path in vault.tree["file"]:
        folder, name = posixpath.split(path)
        if folder and name == SETTINGS_FILE:
            message = f"{folder} is a vault inside this one: move it out, or add it to `ignore`"
            yield Finding(path, message)
    root, sees_paths = vault.call.root, vault.call.caller.may_see_paths
    parents = (folder for folder in root.parents if os.path.lexists(folder / SETTINGS_FILE))
    outer = next(parents, None)
    if outer is not None:
        message = f"This vault is inside another one, {outer if sees_paths else outer.name}"
        yield Finding("", f"{message}: move it out, or add it to `ignore` there")


@check(
    "repository-inside",
    "warning",
    "A git repository nested in the vault's repository, which `memvault git sync` skips",
)
def nested_repositories(vault: VaultInspection) -> Iterator[Finding]:
    for path in submodules.nested_repositories(vault.call.root, vault.tree["folder"]):
        message = (
            "It is a separate git repository, so the vault's repository does not contain its files"
        )
        yield Finding(path, f"{message}: {submodules.HINT}")


@check(
    "read-by-programs",
    "note",
    "A file that programs automatically read as instructions or settings",
)
def files_of_programs(vault: VaultInspection) -> Iterator[Finding]:
    """Find files and folders that programs read, except the instructions that memvault wrote."""
    files = [path for path in (*vault.tree["file"], *_hidden(vault)) if _is_of_program(vault, path)]
    for path in files[:_MAX_ENTRIES_SHOWN]:
        read_as = program_files.read_as(path)
        message = f"Programs that run in this folder read it as {read_as}"
        yield Finding(path, f"{message}: delete it unless you know who wrote it")
    if (remaining := len(files) - _MAX_ENTRIES_SHOWN) > 0:
        yield Finding("", f"Programs that run in this folder read {remaining} more files")


def _is_of_program(vault: VaultInspection, path: str) -> bool:
    if not program_files.read_as(path):
        return False
    template_file = TEMPLATE / path
    if not template_file.is_file():
        return True
    with contextlib.suppress(OSError):
        return plain_files.read(vault.call.root / path) != template_file.read_bytes()
    return True


def _hidden(vault: VaultInspection) -> Iterator[str]:
    """Yield the vault's hidden files and folders, and the direct contents of hidden folders."""
    for folder in ("", *vault.tree["folder"]):
        for name in _entries(vault.call.root / folder):
            path = f"{folder}/{name}".removeprefix("/")
            if not name.startswith(".") or name in (".git", ".memvault"):
                continue
            yield path
            if not program_files.read_as(path):
                yield from (f"{path}/{inner}" for inner in _entries(vault.call.root / path))


def _entries(folder: Path) -> list[str]:
    """Return the sorted names in a folder; empty for a symbolic link or a file."""
    with contextlib.suppress(OSError):
        if not folder.is_symlink():
            return sorted(os.listdir(folder))
    return []


@check("link-outside", "warning", "A symbolic link that points outside the vault")
def links_outside(vault: VaultInspection) -> Iterator[Finding]:
    for path in vault.tree["link out"]:
        yield Finding(path, "The link points outside the vault, so memvault does not follow it")


@check("link-dangling", "warning", "A symbolic link without a target")
def dangling_links(vault: VaultInspection) -> Iterator[Finding]:
    for path in vault.tree["dangling"]:
        yield Finding(path, "The link's target does not exist")


@check("file-special", "warning", "A pipe, a socket or a device named like a memory")
def special_files(vault: VaultInspection) -> Iterator[Finding]:
    for path in vault.tree["special"]:
        yield Finding(path, "It is a pipe, a socket or a device, so memvault does not read it")
