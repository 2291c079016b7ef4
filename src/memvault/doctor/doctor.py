"""Running the doctor: inspect the vault, run the checks, apply fixes and inspect again."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from memvault.call import Call
from memvault.doctor import checks_files, checks_vault
from memvault.doctor.findings import CODES, SEVERITIES, Finding, Fix
from memvault.doctor.inspection import VaultInspection, inspect
from memvault.errors import Conflict, MemvaultError, UsageError
from memvault.files import atomic, lock
from memvault.vault.paths import private_folder


def apply(call: Call, fix: Fix) -> None:
    """Apply one fix.

    Raises:
        Conflict: the file has changed since the inspection.
        MemvaultError: the fix cannot be applied.
    """
    match fix.kind:
        case "header":
            memory = call.store.read(fix.path)
            if memory.etag != fix.etag:
                raise Conflict(f"{fix.path} was changed meanwhile", "run memvault doctor again")
            call.store.change(memory, dict(fix.changes), None)
        case "trash":
            call.store.discard(fix.path, fix.etag)
        case "sweep":
            atomic.sweep_below(call.root)
        case "unlock":
            lock.sweep_below(private_folder(call.root))
        case "ignore":
            private_folder(call.root)
        case "prune":
            call.store.history.prune()
        case "reindex":
            call.index.rebuild()
        case "vectors":
            call.index.deep.delete_unused_models()


CHECKS: tuple[Callable[[VaultInspection], Iterator[Finding]], ...] = (
    checks_files.unreadable_files,
    checks_files.check_conflict_markers,
    checks_files.check_duplicate_keys,
    checks_files.unusable_ids,
    checks_files.shared_ids,
    checks_files.types,
    checks_files.future_times,
    checks_files.conflict_copies,
    checks_files.case_collisions,
    checks_files.titles,
    checks_vault.superseding,
    checks_vault.circles,
    checks_vault.kept_twice,
    checks_vault.kept_twice_by_agents,
    checks_vault.broken_links,
    checks_files.in_texts,
    checks_vault.nested_vaults,
    checks_vault.repositories,
    checks_vault.special_files,
    checks_vault.private,
    checks_vault.history_problems,
    checks_vault.index,
)
"""All checks, in the order in which they run."""
_MAX_ROUNDS = 5
"""Maximum number of rounds of fixes: a fix may reveal another problem, but not endlessly."""
_MAX_MESSAGE = 400
"""Maximum number of characters of a message, which may quote text from strangers."""


def run_checks(inspection: VaultInspection, only: Iterable[str] = ()) -> list[Finding]:
    """Run all checks and return their findings, most severe first.

    If ``only`` names codes, other findings are left out.
    """
    codes = frozenset(only) or CODES.keys()
    findings = (finding for check in CHECKS for finding in check(inspection))
    return sorted(
        (finding for finding in findings if finding.code in codes),
        key=lambda finding: (SEVERITIES.index(finding.severity), finding.code, finding.path),
    )


def run_doctor(
    call: Call, fix: bool, only: Iterable[str] | None, limit: int, offset: int
) -> dict[str, Any]:
    """Return the findings of a vault; with ``fix``, apply fixes first and return those too.

    Raises:
        UsageError: ``only`` is empty or contains an unknown code.
    """
    codes = list(only or ())
    if only is not None and not codes:
        raise UsageError("only names no code", f"the codes are {', '.join(CODES)}")
    for code in codes:
        if code not in CODES:
            raise UsageError(f"There is no code {code!r}", f"the codes are {', '.join(CODES)}")
    inspection = inspect(call)
    findings = run_checks(inspection, codes)
    fixed: list[Finding] = []
    given_up: set[Finding] = set()
    for _ in range(_MAX_ROUNDS if fix else 0):
        fixable = [entry for entry in findings if _may_fix(entry, codes)]
        newly_fixed = _apply_fixes(call, fixable, given_up)
        if not newly_fixed:
            break
        fixed += newly_fixed
        inspection = inspect(call)
        findings = run_checks(inspection, codes)
    counts = Counter(finding.severity for finding in findings)
    more = len(findings) - offset - limit
    return {
        "memories": len(inspection.notes),
        **({"only": codes} if codes else {}),
        "findings": [_as_result(finding) for finding in findings[offset : offset + limit]],
        "total": len(findings),
        **({"more": more} if more > 0 else {}),
        **({"fixed": [_as_result(finding) for finding in fixed]} if fix else {}),
        **({"changeId": call.change_set.change_id} if call.change_set.files else {}),
        "errors": counts["error"],
        "counts": {severity: counts[severity] for severity in SEVERITIES},
    }


def _may_fix(finding: Finding, codes: Sequence[str]) -> bool:
    """Return whether ``--fix`` may handle a finding.

    A fix that cannot be undone is allowed only if its code was named.
    """
    return finding.fix is None or not finding.fix.for_good or finding.code in codes


def _apply_fixes(call: Call, findings: Iterable[Finding], given_up: set[Finding]) -> list[Finding]:
    """Apply the fixes of findings, at most one for each file; return the fixed findings."""
    fixed = []
    files: set[str] = set()
    applied_kinds: set[str] = set()
    for finding in findings:
        fix = finding.fix
        if fix is None or finding in given_up or (fix.path and fix.path in files):
            continue
        files.add(fix.path)
        if fix.path or fix.kind not in applied_kinds:
            applied_kinds.add(fix.kind)
            try:
                apply(call, fix)
            except MemvaultError as error:
                given_up.add(finding)
                call.notes.append(f"{fix.path or finding.code} is not fixed: {error.message}")
                continue
        fixed.append(finding)
    return fixed


def _as_result(finding: Finding) -> dict[str, str]:
    fix = finding.fix
    only = f" with --only {finding.code}" if fix is not None and fix.for_good else ""
    return {
        "code": finding.code,
        "severity": finding.severity,
        "filePath": finding.path,
        "message": textwrap.shorten(finding.message, _MAX_MESSAGE, placeholder=" …"),
        "fix": f"{fix.words}{only}" if fix is not None else "",
    }
