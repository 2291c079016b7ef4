"""The only way a tool ever runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from memvault.call import LOCAL, Call, Caller, Delivery, never
from memvault.errors import MemvaultError, Refused, StorageError, as_error
from memvault.tools.core import available
from memvault.tools.core.registry import Tool
from memvault.workspace import Workspace

if TYPE_CHECKING:
    from memvault.tools.core.elsewhere import Place


_MOST_WARNINGS = 20


class Outcome(NamedTuple):
    """A tool's result, and the events in it, which the caller settles once it has them."""

    result: dict[str, Any]
    delivery: Delivery


def call(
    workspace: Workspace,
    name: str,
    arguments: Mapping[str, Any],
    caller: Caller = LOCAL,
    gone: Callable[[], bool] = never,
    find: Callable[[Call, str], Tool] = available.find_in,
) -> Outcome:
    """Run a tool with arguments named as in its schema.

    What the caller should be told besides is under ``warnings``. A tool that
    waits lets go of the workspace's lock meanwhile, as a condition's ``wait``
    does; it ends soon after ``gone`` says that the caller has gone and the
    workspace is woken. ``find`` finds the tool.

    Raises:
        MemvaultError: it failed; ``error.result()`` is the failed result.
    """
    with workspace.lock:
        workspace.look()
        made = Call(workspace, caller, gone)
        tool = find(made, name)
        bound = tool.bind(arguments)
        other = _elsewhere(tool, bound, caller, workspace.root)
        if other is not None:
            place = workspace.beside(other.root)
            try:
                found, delivery = _called(Call(place, caller, gone), tool, other.bound, arguments)
            except MemvaultError as error:
                error.details.setdefault("vault", other.vault)
                raise
            return Outcome({**found, "vault": other.vault}, delivery)
        return _called(made, tool, bound, arguments)


def _elsewhere(tool: Tool, bound: Mapping[str, Any], caller: Caller, here: Path) -> Place | None:
    """Return the vault that arguments name; errors as for ``elsewhere.meant``."""
    texts = (
        text for value in bound.values() for text in (value if isinstance(value, list) else [value])
    )
    if not any(isinstance(text, str) and ":" in text for text in texts):
        return None
    from memvault.tools.core import elsewhere

    return elsewhere.meant(tool, bound, caller, here)


def _called(
    made: Call, tool: Tool, bound: Mapping[str, Any], arguments: Mapping[str, Any]
) -> Outcome:
    """Run a tool in the vault of a call; errors as for ``call``."""
    with made.workspace.lock:
        try:
            found = _run(made, tool, bound)
        except BaseException as error:
            made.delivery.abandon()
            if isinstance(error, StorageError):
                made.deed.tell(error)
            if isinstance(error, Refused):
                _name_places(error, arguments)
            if isinstance(error, MemvaultError):
                committed(made)  # what it did before it failed
            raise
        committed(made)
        notes = [*made.settings.warnings, *made.all_notes()]
    result: dict[str, Any] = {"success": True, **found}
    if notes:
        result["warnings"] = _first(list(dict.fromkeys(notes)))
    return Outcome(result, made.delivery)


def _first(notes: list[str]) -> list[str]:
    """Return the first warnings and how many more there are: a vault may cause thousands."""
    more = len(notes) - _MOST_WARNINGS
    return [*notes[:_MOST_WARNINGS], f"{more:,} more warnings are left out"] if more > 0 else notes


def _name_places(error: Refused, arguments: Mapping[str, Any]) -> None:
    """Say of a secret that is refused which argument holds it."""
    from memvault.vault.new_secrets import HoldsSecret

    if isinstance(error, HoldsSecret):
        error.name_places(arguments)


def committed(made: Call) -> None:
    """Commit what a call wrote, where the settings say so."""
    if made.deed.files and made.settings.autocommit:
        from memvault.upkeep.git.commit import of_call

        made.notes += of_call(made)


def within(made: Call, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Run another tool as a part of the call that is under way, and given up with it.

    Raises:
        MemvaultError: it failed.
    """
    tool = available.find_in(made, name)
    return _run(made, tool, tool.bind(arguments))


def needs_files(made: Call, name: str) -> None:
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
    if not tool.sent:
        needs_files(made, tool.name)
    made.only_reads = tool.read_only
    made.deed.tool = tool.name
    return tool.function(made, **bound)


def result_of(
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
            return as_error(error).result()
        notes = delivery.settle()
        return {**found, "warnings": [*found.get("warnings", ()), *notes]} if notes else found
