"""Invocation of tools; every call of a tool goes through this module."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from memvault.call import LOCAL, Call, Caller, EventDelivery, not_cancelled
from memvault.errors import MemvaultError, Refused, StorageError, UsageError, to_memvault_error
from memvault.settings import locate
from memvault.tools.core import available
from memvault.tools.core.registry import Tool
from memvault.workspace import Workspace

NAMING = frozenset(("memId", "id", "ids", "factId", "episodeId", "supersedes", "filePath", "query"))
"""Keys of arguments that may identify a memory."""
_WORDS = frozenset(("memory_compound", "memory_forget"))
"""Tools whose query is tried as the name of a memory before it is searched for."""


class VaultTarget(NamedTuple):
    """A named vault, and a call's arguments without the prefix of that vault."""

    vault: str
    root: Path
    bound: dict[str, Any]


def resolve_vault(
    tool: Tool, bound: Mapping[str, Any], caller: Caller, here: Path
) -> VaultTarget | None:
    """Return the vault that a call's arguments name with ``NAME:MEMORY``, or None.

    This may be the current vault, ``here``.

    Raises:
        UsageError: If they name several vaults.
        VaultNotFound: If the vault no longer exists.
    """
    naming = {
        parameter.name
        for parameter in tool.parameters
        if parameter.key in NAMING and (parameter.key != "query" or tool.name in _WORDS)
    }
    given = {name: bound[name] for name in naming if bound.get(name)}
    if not any(":" in text for value in given.values() for text in _texts(value)):
        return None
    known = _known(caller, here)
    parts = {text: _parted(text, known) for value in given.values() for text in _texts(value)}
    if all(rest == text for text, (_, rest) in parts.items()):
        return None
    vaults = sorted({vault for vault, _ in parts.values()} - {locate.THIS}) or [locate.THIS]
    if len({known[vault] for vault, _ in parts.values()}) > 1:
        is_here = any(vault == locate.THIS for vault, _ in parts.values())
        raise UsageError(
            f"These are memories of several vaults: {', '.join(vaults)}{' and this one' * is_here}",
            "name those of one vault at a time",
        )
    vault = vaults[0]
    own = {
        name: [parts[text][1] for text in value] if isinstance(value, list) else parts[value][1]
        for name, value in given.items()
    }
    return VaultTarget(vault, known[vault], {**bound, **own})


def split_vault_prefix(text: str, caller: Caller, here: Path) -> tuple[Path, str]:
    """Split ``NAME:MEMORY`` into the root of the named vault and the memory's name in it."""
    known = _known(caller, here)
    vault, rest = _parted(text, known)
    return known[vault], rest


def _known(caller: Caller, here: Path) -> dict[str, Path]:
    return {**locate.reachable_vaults(caller.vaults), locate.THIS: here}


def _texts(value: Any) -> Iterator[str]:
    yield from (value if isinstance(value, list) else [str(value)])


def _parted(text: str, known: Mapping[str, Path]) -> tuple[str, str]:
    """Split a text into the name of a vault and the name of a memory in it."""
    vault, colon, rest = text.partition(":")
    is_named = colon and vault in known and rest[:1].strip()
    return (vault, rest) if is_named else (locate.THIS, text)


_MOST_WARNINGS = 20


class ToolOutcome(NamedTuple):
    """A tool's result, and the delivery of its events, to be acknowledged by the caller."""

    result: dict[str, Any]
    delivery: EventDelivery


def call(
    workspace: Workspace,
    name: str,
    arguments: Mapping[str, Any],
    caller: Caller = LOCAL,
    is_cancelled: Callable[[], bool] = not_cancelled,
    find: Callable[[Call, str], Tool] = available.find_tool,
) -> ToolOutcome:
    """Run a tool with arguments named as in its schema.

    Notes for the caller are returned under ``warnings``. A tool that waits releases
    the workspace's lock meanwhile, as a condition's ``wait`` does; it ends soon after
    ``is_cancelled`` returns true and the workspace is notified. ``find`` looks the
    tool up.

    Raises:
        MemvaultError: If the tool failed; ``error.result()`` is the failed result.
    """
    with workspace.lock:
        workspace.refresh_settings()
        made = Call(workspace, caller, is_cancelled)
        tool = find(made, name)
        bound = tool.bind(arguments)
        other = _elsewhere(tool, bound, caller, workspace.root)
        if other is not None:
            place = workspace.open_other(other.root)
            try:
                found, delivery = _called(
                    Call(place, caller, is_cancelled), tool, other.bound, arguments
                )
            except MemvaultError as error:
                error.details.setdefault("vault", other.vault)
                raise
            return ToolOutcome({**found, "vault": other.vault}, delivery)
        return _called(made, tool, bound, arguments)


def _elsewhere(
    tool: Tool, bound: Mapping[str, Any], caller: Caller, here: Path
) -> VaultTarget | None:
    """Return the vault that bound arguments name, or None; raises as ``resolve_vault``."""
    texts = (
        text for value in bound.values() for text in (value if isinstance(value, list) else [value])
    )
    if not any(isinstance(text, str) and ":" in text for text in texts):
        return None

    return resolve_vault(tool, bound, caller, here)


def _called(
    made: Call, tool: Tool, bound: Mapping[str, Any], arguments: Mapping[str, Any]
) -> ToolOutcome:
    """Run a tool in the vault of a call; raises as ``call``."""
    with made.workspace.lock:
        try:
            found = _run(made, tool, bound)
        except BaseException as error:
            made.delivery.requeue()
            if isinstance(error, StorageError):
                made.change_set.tell(error)
            if isinstance(error, Refused):
                _locate_secret(error, arguments)
            if isinstance(error, MemvaultError):
                autocommit(made)  # commit the changes made before the failure
            raise
        autocommit(made)
        notes = [*made.settings.warnings, *made.all_notes()]
    result: dict[str, Any] = {"success": True, **found}
    if notes:
        result["warnings"] = _first(list(dict.fromkeys(notes)))
    return ToolOutcome(result, made.delivery)


def _first(notes: list[str]) -> list[str]:
    """Truncate the warnings, of which a vault may cause thousands, and count the rest."""
    more = len(notes) - _MOST_WARNINGS
    return [*notes[:_MOST_WARNINGS], f"{more:,} more warnings are left out"] if more > 0 else notes


def _locate_secret(error: Refused, arguments: Mapping[str, Any]) -> None:
    """Add the name of the argument that contains a rejected secret to the error."""
    from memvault.store.writer import SecretRejected

    if isinstance(error, SecretRejected):
        error.locate_in_arguments(arguments)


def autocommit(made: Call) -> None:
    """Commit the files that a call wrote to git, if autocommit is enabled."""
    if made.change_set.files and made.settings.autocommit:
        from memvault.git.commit import commit_call

        made.notes += commit_call(made)


def call_nested(made: Call, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Run another tool as part of the current call, with the same delivery and cancellation.

    Raises:
        MemvaultError: If the tool failed.
    """
    tool = available.find_tool(made, name)
    return _run(made, tool, tool.bind(arguments))


def require_local_files(made: Call, name: str) -> None:
    """Check that the files of a vault are on this machine.

    Raises:
        Refused: If they are on another machine.
    """
    holder = made.settings.shared.sent
    if holder:
        raise Refused(
            f"{holder} holds this vault, and {name} needs its files",
            "run it there; here the vault can be recalled, listed and shown",
        )


def _run(made: Call, tool: Tool, bound: Mapping[str, Any]) -> Mapping[str, Any]:
    if not tool.works_without_files:
        require_local_files(made, tool.name)
    made.only_reads = tool.read_only
    made.change_set.tool = tool.name
    return tool.function(made, **bound)


def call_result(
    workspace: Workspace,
    name: str,
    arguments: Mapping[str, Any],
    caller: Caller = LOCAL,
) -> dict[str, Any]:
    """Run a tool and return its result, or the failed result if it failed.

    Events in the result are acknowledged as delivered.
    """
    with workspace.lock:
        try:
            found, delivery = call(workspace, name, arguments, caller)
        except (MemvaultError, OSError) as error:
            return to_memvault_error(error).result()
        notes = delivery.acknowledge()
        return {**found, "warnings": [*found.get("warnings", ()), *notes]} if notes else found
