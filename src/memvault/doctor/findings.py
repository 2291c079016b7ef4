"""Define findings of checks and their fixes, and register all checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from memvault.call import Call
from memvault.doctor.inspection import InspectedFile, VaultInspection
from memvault.errors import Conflict
from memvault.named_tuple import NamedTuple

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
"""All severities, most severe first."""


class Fix(NamedTuple):
    """A repair of a finding: its description for people, and the function that applies it.

    ``path`` is the file that it changes; empty if it concerns the vault as a whole. A fix that
    ``is_explicit`` deletes data permanently, or needs a person's judgment; it is applied only if
    the code of its finding is named.
    """

    description: str
    apply: Callable[[Call], object]
    path: str = ""
    is_explicit: bool = False


class Finding(NamedTuple):
    """A problem found by a check; ``path`` is empty if it concerns the vault as a whole.

    ``other`` is the path of a second file involved, and ``key`` the header key that it concerns.
    """

    path: str
    message: str
    fix: Fix | None = None
    other: str = ""
    key: str = ""


_Run = Callable[[VaultInspection], Iterable[Finding]]


class Check(NamedTuple):
    """A function that finds problems of one kind in a vault, without changing anything.

    ``code``, ``severity`` and ``meaning`` describe its findings, ``fix`` describes the effect of
    ``--fix``; docs/reference/doctor.md shows them.
    """

    code: str
    severity: Severity
    meaning: str
    fix: str
    run: _Run


CHECKS: list[Check] = []
"""All checks of the imported modules."""


def check(code: str, severity: Severity, meaning: str, fix: str = "") -> Callable[[_Run], _Run]:
    """Register the decorated function as a check; see ``Check``."""

    def register(run: _Run) -> _Run:
        CHECKS.append(Check(code, severity, meaning, fix, run))
        return run

    return register


def set_header(file: InspectedFile, description: str, changes: Mapping[str, Any]) -> Fix:
    """Return a fix that sets keys in a memory's header; None removes a key."""

    def apply(call: Call) -> None:
        memory = call.store.read(file.path)
        if memory.etag != file.etag:
            raise Conflict(
                f"{file.path} has changed since it was checked", "run `memvault doctor` again"
            )
        call.store.change(memory, changes, None)

    return Fix(description, apply, file.path)
