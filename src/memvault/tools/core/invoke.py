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
_NAME_FIRST = frozenset(("memory_compound", "memory_forget"))
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
    parameter_names = {
        parameter.name
        for parameter in tool.parameters
        if parameter.key in NAMING and (parameter.key != "query" or tool.name in _NAME_FIRST)
    }
    given = {name: bound[name] for name in parameter_names if bound.get(name)}
    if not any(":" in text for value in given.values() for text in _texts(value)):
        return None
    known = _known_vaults(caller, here)
    parts = {text: _split_name(text, known) for value in given.values() for text in _texts(value)}
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
    arguments = {
        name: [parts[text][1] for text in value] if isinstance(value, list) else parts[value][1]
        for name, value in given.items()
    }
    return VaultTarget(vault, known[vault], {**bound, **arguments})


def split_vault_prefix(text: str, caller: Caller, here: Path) -> tuple[Path, str]:
    """Split ``NAME:MEMORY`` into the root of the named vault and the memory's name in it."""
    known = _known_vaults(caller, here)
    vault, rest = _split_name(text, known)
    return known[vault], rest


def _known_vaults(caller: Caller, here: Path) -> dict[str, Path]:
    return {**locate.reachable_vaults(caller.vaults), locate.THIS: here}


def _texts(value: Any) -> Iterator[str]:
    yield from (value if isinstance(value, list) else [str(value)])


def _split_name(text: str, known: Mapping[str, Path]) -> tuple[str, str]:
    """Split a text into the name of a vault and the name of a memory in it."""
    vault, colon, rest = text.partition(":")
    is_named = colon and vault in known and rest[:1].strip()
    return (vault, rest) if is_named else (locate.THIS, text)


_MAX_WARNINGS = 20


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
        call_context = Call(workspace, caller, is_cancelled)
        tool = find(call_context, name)
        bound = tool.bind(arguments)
        target = _other_vault(tool, bound, caller, workspace.root)
        if target is not None:
            place = workspace.open_other(target.root)
            try:
                result, delivery = _call_in_vault(
                    Call(place, caller, is_cancelled), tool, target.bound, arguments
                )
            except MemvaultError as error:
                error.details.setdefault("vault", target.vault)
                raise
            return ToolOutcome({**result, "vault": target.vault}, delivery)
        return _call_in_vault(call_context, tool, bound, arguments)


def _other_vault(
    tool: Tool, bound: Mapping[str, Any], caller: Caller, here: Path
) -> VaultTarget | None:
    """Return the vault that bound arguments name, or None; raises as ``resolve_vault``."""
    texts = (
        text for value in bound.values() for text in (value if isinstance(value, list) else [value])
    )
    if not any(isinstance(text, str) and ":" in text for text in texts):
        return None

    return resolve_vault(tool, bound, caller, here)


def _call_in_vault(
    call_context: Call, tool: Tool, bound: Mapping[str, Any], arguments: Mapping[str, Any]
) -> ToolOutcome:
    """Run a tool in the vault of a call; raises as ``call``."""
    with call_context.workspace.lock:
        try:
            values = _run(call_context, tool, bound)
        except BaseException as error:
            call_context.delivery.requeue()
            if isinstance(error, StorageError):
                call_context.change_set.extend_hint(error)
            if isinstance(error, Refused):
                _locate_secret(error, arguments)
            if isinstance(error, MemvaultError):
                autocommit(call_context)  # commit the changes made before the failure
            raise
        autocommit(call_context)
        notes = [*call_context.settings.warnings, *call_context.all_notes()]
    result: dict[str, Any] = {"success": True, **values}
    if notes:
        result["warnings"] = _truncate_warnings(list(dict.fromkeys(notes)))
    return ToolOutcome(result, call_context.delivery)


def _truncate_warnings(notes: list[str]) -> list[str]:
    """Truncate the warnings, of which a vault may cause thousands, and count the rest."""
    more = len(notes) - _MAX_WARNINGS
    return [*notes[:_MAX_WARNINGS], f"{more:,} more warnings are left out"] if more > 0 else notes


def _locate_secret(error: Refused, arguments: Mapping[str, Any]) -> None:
    """Add the name of the argument that contains a rejected secret to the error."""
    from memvault.store.writer import SecretRejected

    if isinstance(error, SecretRejected):
        error.locate_in_arguments(arguments)


def autocommit(call_context: Call) -> None:
    """Commit the files that a call wrote to git, if autocommit is enabled."""
    if call_context.change_set.files and call_context.settings.autocommit:
        from memvault.git.commit import commit_call

        call_context.notes += commit_call(call_context)


def call_nested(call_context: Call, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Run another tool as part of the current call, with the same delivery and cancellation.

    Raises:
        MemvaultError: If the tool failed.
    """
    tool = available.find_tool(call_context, name)
    return _run(call_context, tool, tool.bind(arguments))


def require_local_files(call_context: Call, name: str) -> None:
    """Check that the files of a vault are on this machine.

    Raises:
        Refused: If they are on another machine.
    """
    holder = call_context.settings.shared.sent
    if holder:
        raise Refused(
            f"{holder} holds this vault, and {name} needs its files",
            "run it there; here the vault can be recalled, listed and shown",
        )


def _run(call_context: Call, tool: Tool, bound: Mapping[str, Any]) -> Mapping[str, Any]:
    if not tool.works_without_files:
        require_local_files(call_context, tool.name)
    call_context.only_reads = tool.read_only
    call_context.change_set.tool = tool.name
    return tool.function(call_context, **bound)


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
