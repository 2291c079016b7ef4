"""The only way a tool ever runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from memvault.call import LOCAL, Call, Caller, EventDelivery, not_cancelled
from memvault.errors import MemvaultError, Refused, StorageError, to_memvault_error
from memvault.tools.core import available
from memvault.tools.core.registry import Tool
from memvault.workspace import Workspace

if TYPE_CHECKING:
    from memvault.tools.core.elsewhere import VaultTarget


_MOST_WARNINGS = 20


class ToolOutcome(NamedTuple):
    """A tool's result, and the events in it, which the caller settles once it has them."""

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

    What the caller should be told besides is under ``warnings``. A tool that
    waits lets go of the workspace's lock meanwhile, as a condition's ``wait``
    does; it ends soon after ``gone`` says that the caller has gone and the
    workspace is woken. ``find`` finds the tool.

    Raises:
        MemvaultError: it failed; ``error.result()`` is the failed result.
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
    """Return the vault that arguments name; errors as for ``elsewhere.meant``."""
    texts = (
        text for value in bound.values() for text in (value if isinstance(value, list) else [value])
    )
    if not any(isinstance(text, str) and ":" in text for text in texts):
        return None
    from memvault.tools.core import elsewhere

    return elsewhere.resolve_vault(tool, bound, caller, here)


def _called(
    made: Call, tool: Tool, bound: Mapping[str, Any], arguments: Mapping[str, Any]
) -> ToolOutcome:
    """Run a tool in the vault of a call; errors as for ``call``."""
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
                autocommit(made)  # what it did before it failed
            raise
        autocommit(made)
        notes = [*made.settings.warnings, *made.all_notes()]
    result: dict[str, Any] = {"success": True, **found}
    if notes:
        result["warnings"] = _first(list(dict.fromkeys(notes)))
    return ToolOutcome(result, made.delivery)


def _first(notes: list[str]) -> list[str]:
    """Return the first warnings and how many more there are: a vault may cause thousands."""
    more = len(notes) - _MOST_WARNINGS
    return [*notes[:_MOST_WARNINGS], f"{more:,} more warnings are left out"] if more > 0 else notes


def _locate_secret(error: Refused, arguments: Mapping[str, Any]) -> None:
    """Say of a secret that is refused which argument holds it."""
    from memvault.vault.new_secrets import SecretRejected

    if isinstance(error, SecretRejected):
        error.locate_in_arguments(arguments)


def autocommit(made: Call) -> None:
    """Commit what a call wrote, where the settings say so."""
    if made.change_set.files and made.settings.autocommit:
        from memvault.upkeep.git.commit import commit_call

        made.notes += commit_call(made)


def call_nested(made: Call, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Run another tool as a part of the call that is under way, and given up with it.

    Raises:
        MemvaultError: it failed.
    """
    tool = available.find_tool(made, name)
    return _run(made, tool, tool.bind(arguments))


def require_local_files(made: Call, name: str) -> None:
    """Make sure that a vault's files are here, for what needs them.

    Raises:
        Refused: another machine holds them.
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
    """Run a tool; return its result, or the failed result where it failed.

    What the tool hands out counts as handed out from here on.
    """
    with workspace.lock:
        try:
            found, delivery = call(workspace, name, arguments, caller)
        except (MemvaultError, OSError) as error:
            return to_memvault_error(error).result()
        notes = delivery.acknowledge()
        return {**found, "warnings": [*found.get("warnings", ()), *notes]} if notes else found
