"""Run tools; every tool call goes through this module.

Python and the command line pass arguments by parameter name (``call``, ``run``); JSON front ends
pass them by key (``call_json``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from memvault.arguments.binding import ignored_note
from memvault.call import LOCAL, Call, Caller, EventDelivery, not_cancelled
from memvault.errors import FailedCall, MemvaultError, Refused, UsageError, to_memvault_error
from memvault.named_tuple import NamedTuple
from memvault.settings import locate
from memvault.tools.core import available, registry
from memvault.tools.core.registry import Tool
from memvault.vault.private_folder import has_receipts
from memvault.workspace import Workspace


class VaultTarget(NamedTuple):
    """A named vault, and a call's arguments without the vault's prefix."""

    vault: str
    root: Path
    bound: dict[str, Any]


def resolve_vault(
    tool: Tool, bound: Mapping[str, Any], caller: Caller, here: Path
) -> VaultTarget | None:
    """Return the vault that a call's arguments refer to as ``NAME:MEMORY``, or None.

    It may be the current vault, ``here``.

    Raises:
        UsageError: the arguments refer to several vaults.
        VaultNotFound: the vault no longer exists.
    """
    parameter_names = {
        parameter.name
        for parameter in tool.parameters
        if parameter.arg.completes in ("memory", "trash")
    }
    memory_names = {name: bound[name] for name in parameter_names if bound.get(name)}
    if not any(":" in text for value in memory_names.values() for text in _texts(value)):
        return None
    vault_roots = _known_vaults(caller, here)
    parts = {
        text: _split_name(text, vault_roots)
        for value in memory_names.values()
        for text in _texts(value)
    }
    if all(rest == text for text, (_, rest) in parts.items()):
        return None
    vaults = sorted({vault for vault, _ in parts.values()} - {locate.THIS}) or [locate.THIS]
    if len({vault_roots[vault] for vault, _ in parts.values()}) > 1:
        is_here = any(vault == locate.THIS for vault, _ in parts.values())
        raise UsageError(
            f"These memories are in several vaults: {', '.join(vaults)}{' and this one' * is_here}",
            "pass memories from one vault at a time",
        )
    vault = vaults[0]
    arguments = {
        name: [parts[text][1] for text in value] if isinstance(value, list) else parts[value][1]
        for name, value in memory_names.items()
    }
    return VaultTarget(vault, vault_roots[vault], {**bound, **arguments})


def split_vault_prefix(text: str, caller: Caller, here: Path) -> tuple[Path, str]:
    """Split ``NAME:MEMORY`` into the root of the named vault and the memory's name in it."""
    vault_roots = _known_vaults(caller, here)
    vault, rest = _split_name(text, vault_roots)
    return vault_roots[vault], rest


def _known_vaults(caller: Caller, here: Path) -> dict[str, Path]:
    return {**locate.reachable_vaults(caller.vaults), locate.THIS: here}


def _texts(value: Any) -> Iterator[str]:
    yield from (value if isinstance(value, list) else [str(value)])


def _split_name(text: str, vault_roots: Mapping[str, Path]) -> tuple[str, str]:
    """Split a name into the name of a vault and the name of a memory in it."""
    vault, colon, rest = text.partition(":")
    is_named = colon and vault in vault_roots and rest[:1].strip()
    return (vault, rest) if is_named else (locate.THIS, text)


_MAX_WARNINGS = 20
_MIN_BUDGET = 200
"""Number of tokens that always suffices for a result with one entry."""
_WRAPPER = 20
"""Number of tokens added by wrapping a result in another tool's result."""


class ToolOutcome:
    """A tool's result, and the events in it.

    As a context manager, it returns the events to their queue on exit, unless ``acknowledge`` was
    called after the caller received the result. ``changed`` is a sentence about the changed files,
    and ``conceal`` removes secrets and paths from a note if the caller may not see them.
    """

    def __init__(
        self,
        result: dict[str, Any],
        delivery: EventDelivery,
        budget: int = 0,
        changed: str = "",
        conceal: Callable[[str], str] = str,
    ) -> None:
        self._conceal = conceal
        self.result = result
        self.delivery = delivery
        self.budget = budget
        self.changed = changed

    def acknowledge(self) -> list[str]:
        """Acknowledge the events and return notes about failures, as the caller may see them."""
        return [*map(self._conceal, self.delivery.acknowledge())]

    def __enter__(self) -> ToolOutcome:
        return self

    def __exit__(self, *_: object) -> None:
        self.delivery.requeue()


Arguments = ParamSpec("Arguments")
Result = TypeVar("Result", bound=Mapping[str, Any])
FindTool = Callable[[Workspace, Caller, str], Tool]
"""A function that looks up a tool for a caller; it raises like ``available.find_tool``."""
Present = Callable[[Call, Mapping[str, Any], dict[str, Any]], dict[str, Any]]
"""A function that converts a call's visible result to the caller's result."""


def _unchanged(_: Call, __: Mapping[str, Any], visible: dict[str, Any]) -> dict[str, Any]:
    return visible


class _CallOptions(NamedTuple):
    """Options of a tool call: the caller, the tool lookup, and the presentation of the result.

    ``has_keys`` is true if the arguments use JSON keys instead of parameter names.
    """

    caller: Caller
    is_cancelled: Callable[[], bool] = not_cancelled
    find: FindTool = available.find_tool
    present: Present = _unchanged
    budget: int | None = None
    has_keys: bool = False

    def masks(self, tool: Tool) -> bool:
        """Return whether the secrets in a tool's result are masked.

        Nested results are masked as well, because a truncated secret would not be recognized later.
        """
        return self.caller.mask_secrets or (self.caller.secrets == "asked" and not tool.reveals)

    def visible(self, tool: Tool, call: Call, result: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result without secrets and paths that the caller may not see."""
        shown = dict(result)
        if not self.caller.may_see_paths:
            hide = call.hide_paths
            shown |= {key: [*map(hide, shown[key])] for key in ("warnings",) if key in shown}
        if self.masks(tool):
            from memvault.tools.core import redaction

            shown = redaction.masked(call, shown)
        return self.present(call, result, shown)

    @property
    def is_nested(self) -> bool:
        """Whether another tool makes this call; that tool has set the budget."""
        return self.budget is not None


def call(
    workspace: Workspace,
    name: str,
    arguments: Mapping[str, Any],
    caller: Caller = LOCAL,
    is_cancelled: Callable[[], bool] = not_cancelled,
    find: FindTool = available.find_tool,
    present: Present = _unchanged,
) -> ToolOutcome:
    """Run a tool with arguments given by the parameter names of its function.

    Warnings are returned under ``warnings``. A waiting tool releases the workspace's lock, and
    stops soon after ``is_cancelled`` returns true and the workspace is notified. Secrets and local
    paths that the caller may not see are removed from the result and from errors; ``present`` then
    converts the result.

    Raises:
        MemvaultError: the tool failed; ``error.result()`` is the failed result.
    """
    return _call_masked(
        workspace, name, arguments, _CallOptions(caller, is_cancelled, find, present)
    )


def call_json(
    workspace: Workspace,
    name: str,
    arguments: Mapping[str, Any],
    caller: Caller = LOCAL,
    is_cancelled: Callable[[], bool] = not_cancelled,
    find: FindTool = available.find_tool,
    present: Present = _unchanged,
) -> ToolOutcome:
    """Run a tool with arguments by the keys of its JSON schema; otherwise like ``call``."""
    how = _CallOptions(caller, is_cancelled, find, present, has_keys=True)
    return _call_masked(workspace, name, arguments, how)


def run(
    workspace: Workspace,
    caller: Caller,
    function: Callable[Concatenate[Call, Arguments], Result],
    /,
    *positional: Arguments.args,
    **named: Arguments.kwargs,
) -> Result:
    """Run the tool implemented by a function, and acknowledge its events.

    Raises:
        MemvaultError: the tool failed.
    """
    arguments = registry.arguments_by_name(function, positional, named)
    with workspace.lock:
        outcome = call(workspace, function.__name__, arguments, caller)
        return cast("Result", acknowledged_result(outcome))


def _call_masked(
    workspace: Workspace, name: str, arguments: Mapping[str, Any], how: _CallOptions
) -> ToolOutcome:
    """Run a tool; if it fails, mask secrets in the error unless the caller may see them."""
    try:
        return _call(workspace, name, arguments, how)
    except MemvaultError as error:
        failure(workspace, how.caller, error)
        raise


def failure(workspace: Workspace, caller: Caller, error: Exception) -> MemvaultError:
    """Return an error without secrets and local paths that the caller may not see."""
    failed = to_memvault_error(error)
    if not caller.may_see_paths:
        hide = Call(workspace, caller).hide_paths
        failed.message, failed.hint = hide(failed.message), hide(failed.hint)
        failed.args = (failed.message,)
    if caller.secrets != "shown":
        from memvault.tools.core import redaction

        redaction.detector_of(workspace).mask_error(failed)
    return failed


def _call(
    workspace: Workspace, name: str, arguments: Mapping[str, Any], how: _CallOptions
) -> ToolOutcome:
    """Run a tool like ``call``; a nested call's result includes all its warnings."""
    with workspace.lock:
        tool = None
        try:
            workspace.refresh_settings()
            tool = how.find(workspace, how.caller, name)
            return _bind_and_run(workspace, tool, arguments, how)
        except MemvaultError as error:
            if tool is not None:
                error.is_flat = tool.flat_failures
            if how.caller.message_style != "shell":
                from memvault.tools.core import messages

                messages.render_error(error, tool, how.caller, workspace.root)
            raise


def _bind_and_run(
    workspace: Workspace, tool: Tool, arguments: Mapping[str, Any], how: _CallOptions
) -> ToolOutcome:
    """Check the arguments, and run a tool in the vault that they refer to."""
    ignored: list[str] | None = [] if how.caller.adds_arguments else None
    named = tool.by_name(arguments, ignored) if how.has_keys else arguments
    bound, within = tool.check(named), None
    notes = [ignored_note(f"`{tool.name}`", ignored)] if ignored else []
    if workspace.settings.searches:
        from memvault.tools.core import saved_searches

        bound, within, note = saved_searches.expanded(tool, bound, workspace.settings.searches)
        notes += [note] * bool(note)
    target = resolve_vault(tool, bound, how.caller, workspace.root)
    in_vault = partial(
        Call,
        caller=how.caller,
        tool=tool.name,
        read_only=tool.read_only,
        is_cancelled=how.is_cancelled,
        saved_search_filters=within,
    )
    if target is None:
        return _run(in_vault(workspace), tool, bound, how, notes)
    try:
        other = workspace.open_other(target.root)
        outcome = _run(in_vault(other), tool, target.bound, how, notes, target.vault)
        if how.caller.mask_secrets:  # Also apply the secret rules of the caller's own vault.
            own_call = Call(workspace, how.caller, read_only=True)
            outcome.result = how.visible(tool, own_call, outcome.result)
        return outcome
    except MemvaultError as error:
        error.details.setdefault("vault", target.vault)
        raise


def _run(
    call_context: Call,
    tool: Tool,
    bound: Mapping[str, Any],
    how: _CallOptions,
    notes: list[str],
    vault: str = "",
) -> ToolOutcome:
    """Run a tool in the vault of a call; ``vault`` is its name unless it is the caller's own.

    ``notes`` contains warnings about the arguments. The token limit comes from the call, else from
    the outer tool, else from the setting for callers that have a token budget.
    """
    added = {entry.name for entry in tool.page_parameters}
    is_limited = "budget" in added or (tool.paged_keys is not None and tool.own_parameters is None)
    own_limit = bound.get("budget") if is_limited else None
    # A tool may apply a smaller budget itself, but cutting its entries further makes them useless.
    limits = (max(own_limit, _MIN_BUDGET) if own_limit else own_limit, how.budget)
    if "budget" in added and 0 < bound.get("budget", 0) < _MIN_BUDGET:
        raise UsageError(
            f"`--budget` must be at least {_MIN_BUDGET} tokens, not {bound['budget']}",
            "use a larger one, or 0 for no limit",
        )
    default = call_context.settings.mcp.budget if how.caller.has_token_budget else 0
    call_context.budget = next((limit for limit in limits if limit is not None), default)
    with call_context.workspace.lock:
        try:
            if not tool.works_without_files:
                require_local_files(call_context, tool.name)
            values = tool.function(
                call_context, **{name: bound[name] for name in bound if name not in added}
            )
        except BaseException as error:
            call_context.delivery.requeue()
            failed = _with_changes(error, call_context, tool, bound)
            if failed is None:
                raise
            autocommit(call_context)  # Commit the changes made before the failure.
            raise failed from error.__cause__ if failed is error else error
        notes = [*notes, *call_context.settings.warnings]
        if ("memId" in values or not tool.read_only) and has_receipts(call_context.root):
            from memvault.tools.core import memory_uses

            with _failures_noted(call_context, notes):
                memory_uses.record(call_context, tool, bound, values)
        with _failures_noted(call_context, notes):
            autocommit(call_context)
        with _failures_noted(call_context, notes):
            notes += call_context.all_notes()
    result, notes = _worded({"success": True, **values}, notes, tool, call_context)
    warnings = list(dict.fromkeys(notes))
    if warnings and not how.is_nested:
        result["warnings"] = truncate_warnings(warnings)
    if vault:
        result["vault"] = vault
    late: list[str] = []
    shown: dict[str, Any] = {"success": True, "warnings": warnings}
    with _failures_noted(call_context, late):
        shown = _presented(call_context, tool, bound, result, how)
    result = shown
    conceal = partial(_concealed, call_context)
    if late:
        result["warnings"] = [*map(conceal, [*result.get("warnings", ()), *late])]
    if warnings and how.is_nested:
        # The outer call needs these warnings.
        result["warnings"] = [*warnings, *result.get("warnings", ())]
    changed = call_context.change_set.summary(when="")
    return ToolOutcome(result, call_context.delivery, call_context.budget, changed, conceal)


def _concealed(call_context: Call, note: str) -> str:
    """Return a note without paths and secrets that the caller may not see.

    It does not use the vault's settings, because the note may report that they are invalid.
    """
    if call_context.caller.secrets == "shown":
        return call_context.hide_paths(note)
    from memvault.secrets.detector import BUILTIN

    return BUILTIN.masked(call_context.hide_paths(note))


def _worded(
    result: dict[str, Any], notes: list[str], tool: Tool, call_context: Call
) -> tuple[dict[str, Any], list[str]]:
    """Return a result and its notes with messages in the caller's style."""
    caller, root = call_context.caller, call_context.root
    if caller.message_style == "shell":
        return result, notes
    from memvault.tools.core import messages

    return (
        messages.render_result(result, tool, caller, root),
        [messages.render(note, tool, caller, root) for note in notes],
    )


def _with_changes(
    error: BaseException, call_context: Call, tool: Tool, bound: Mapping[str, Any]
) -> MemvaultError | None:
    """Return an error with the files that the call had changed, or None for a bug without changes.

    After changes, a bug is reported as an error too, because the caller might otherwise repeat
    them.
    """
    changed = call_context.change_set.summary()
    if isinstance(error, MemvaultError):
        failed = error
    elif isinstance(error, Exception) and changed and not os.environ.get("MEMVAULT_DEBUG"):
        failed = to_memvault_error(error)
    else:
        return None
    keys = {entry.name: entry.key for entry in tool.parameters}
    arguments = {keys[name]: value for name, value in bound.items()}
    failed.add_context(FailedCall(arguments, changed))
    return failed


@contextmanager
def _failures_noted(call_context: Call, notes: list[str]) -> Iterator[None]:
    """Turn a failure after a change into a note, because the caller would retry a failed call."""
    try:
        yield
    except Exception as error:
        if not call_context.change_set.files:
            raise
        notes.append(
            f"the change was made, but then this failed: {to_memvault_error(error).message}"
        )


def _presented(
    call_context: Call,
    tool: Tool,
    bound: Mapping[str, Any],
    result: dict[str, Any],
    how: _CallOptions,
) -> dict[str, Any]:
    """Return the requested part of a result within the call's budget, as visible to the caller."""
    if result.get("warnings") and tool.reveals and how.caller.secrets == "asked":
        detector = call_context.settings.detector
        result["warnings"] = list(map(detector.masked, result["warnings"]))
    try:
        if call_context.budget or any(entry.name in bound for entry in tool.page_parameters):
            return _page(call_context, tool, bound, result, how)
        return how.visible(tool, call_context, result)
    except BaseException:
        call_context.delivery.requeue()
        raise


def _page(
    call_context: Call,
    tool: Tool,
    bound: Mapping[str, Any],
    result: dict[str, Any],
    how: _CallOptions,
) -> dict[str, Any]:
    """Cut a result to the requested part and the token budget."""
    from memvault.tools.core import budget

    visible = partial(how.visible, tool, call_context)
    added = {entry.name for entry in tool.page_parameters}
    keys = tool.paged_keys or ()
    offset = bound.get("offset", 0)
    may_cut = how.present is _unchanged and not how.masks(tool)
    around = budget.keep_bounds if may_cut else call_context.settings.detector.around
    if added & {"offset", "length"} & bound.keys():
        result, offset = budget.skip(result, keys, offset, bound.get("length", 0), around)
    # A tool with its own ``budget`` parameter applies it itself, so its result is cut here only for
    # agents.
    if not call_context.budget or not (how.caller.has_token_budget or "budget" in added):
        return visible(result)
    changes_nothing = not call_context.change_set.files
    may_repeat = tool.idempotent or changes_nothing or "confirmRequired" in result
    rest = tool.continuation_hint
    if not rest and may_repeat and tool.paged_keys is not None:
        has_limit = any(entry.name == "limit" for entry in tool.parameters)
        at = f"offset {offset}{', limit 1' * has_limit} and " if keys else ""
        rest = f"repeat the call with {at}budget 0 for the full result"
    request = budget.PageRequest(keys, offset, tool.newest_last, may_repeat, rest, around)
    return dict(budget.fit(result, call_context.budget, request, visible))


def truncate_warnings(notes: list[str]) -> list[str]:
    """Return the first warnings and a count of the rest, because a vault may cause thousands."""
    omitted_count = len(notes) - _MAX_WARNINGS
    return (
        [*notes[:_MAX_WARNINGS], f"{omitted_count:,} more warnings were omitted"]
        if omitted_count > 0
        else notes
    )


def autocommit(call_context: Call) -> None:
    """Commit the files that a call wrote to git, if autocommit is enabled."""
    if call_context.change_set.files and call_context.settings.git.autocommit:
        from memvault.git.commit import commit_call

        call_context.notes += commit_call(call_context)


def visible(call_context: Call, tool: Tool, result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool's result without secrets and paths that the caller may not see."""
    return _CallOptions(call_context.caller).visible(tool, call_context, result)


def run_nested(
    call_context: Call,
    function: Callable[Concatenate[Call, Arguments], Result],
    /,
    *positional: Arguments.args,
    **named: Arguments.kwargs,
) -> Result:
    """Run a function's tool within a call, which gets its warnings and events.

    Raises:
        MemvaultError: the tool failed.
    """
    arguments = registry.arguments_by_name(function, positional, named)
    return cast("Result", call_nested(call_context, function.__name__, arguments, has_keys=False))


def call_nested(
    call_context: Call, name: str, arguments: Mapping[str, Any], has_keys: bool = True
) -> Mapping[str, Any]:
    """Run another tool within a call, which gets its warnings and events.

    Raises:
        MemvaultError: the tool failed.
    """
    limit = max(1, call_context.budget - _WRAPPER) if call_context.budget else 0
    how = _CallOptions(
        call_context.caller, call_context.is_cancelled, budget=limit, has_keys=has_keys
    )
    outcome = _call(call_context.workspace, name, arguments, how)
    call_context.budget = outcome.budget + _WRAPPER if outcome.budget else 0
    call_context.delivery.take_over(outcome.delivery)
    call_context.notes += outcome.result.pop("warnings", [])
    return outcome.result


def require_local_files(call_context: Call, name: str) -> None:
    """Check that a vault's files are on this machine.

    Raises:
        Refused: the files are on another machine.
    """
    holder = call_context.settings.index.sent
    if holder:
        raise Refused(
            f"{name} needs the vault's files, which are on {holder}",
            "run it there; on this machine you can only recall, list and show",
        )


def call_result(
    workspace: Workspace, name: str, arguments: Mapping[str, Any], caller: Caller = LOCAL
) -> dict[str, Any]:
    """Run a tool with JSON arguments and return its result, even if it failed.

    Events in the result are acknowledged as delivered.
    """
    with workspace.lock:
        try:
            outcome = call_json(workspace, name, arguments, caller)
        except (MemvaultError, OSError) as error:
            return failure(workspace, caller, error).result()
        return acknowledged_result(outcome)


def acknowledged_result(outcome: ToolOutcome) -> dict[str, Any]:
    """Acknowledge a result's events as delivered; return it, with warnings about failures."""
    notes, result = outcome.acknowledge(), outcome.result
    return {**result, "warnings": [*result.get("warnings", ()), *notes]} if notes else result
