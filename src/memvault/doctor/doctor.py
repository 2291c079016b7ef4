"""Run the doctor: inspect the vault, run the checks, apply fixes and inspect again."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from memvault.call import Call
from memvault.doctor import (  # Importing these modules registers their checks.
    checks_code,  # noqa: F401
    checks_files,  # noqa: F401
    checks_links,  # noqa: F401
    checks_machine,  # noqa: F401
    checks_vault,  # noqa: F401
)
from memvault.doctor.findings import CHECKS, SEVERITIES, Check, Finding
from memvault.doctor.inspection import VaultInspection, inspect_vault
from memvault.errors import MemvaultError, UsageError, suggestion

if TYPE_CHECKING:
    from memvault.results import DoctorFinding, DoctorReport

CODES = {
    one.code: one
    for one in sorted(CHECKS, key=lambda one: (SEVERITIES.index(one.severity), one.code))
}
"""All checks by code, the most severe first."""
_MAX_ROUNDS = 5
"""Maximum number of rounds of fixes, because a fix may reveal another problem."""
_MAX_MESSAGE = 400
"""Maximum number of characters of a message, which may quote untrusted text."""

_CheckFinding = tuple[Check, Finding]


def markdown_table() -> str:
    """Return the table of all codes for docs/reference/doctor.md."""
    rows = ["| code | severity | problem | what `--fix` does |", "|---|---|---|---|"]
    rows += [
        f"| `{code}` | {check.severity} | {check.meaning} | {check.fix} |"
        for code, check in CODES.items()
    ]
    return "\n".join(rows)


def run_checks(vault: VaultInspection, only: Iterable[str] = ()) -> list[_CheckFinding]:
    """Run all checks, or the checks with the given codes; return findings, most severe first."""
    codes = frozenset(only) or CODES.keys()
    findings = [
        (check, finding)
        for code, check in CODES.items()
        if code in codes
        for finding in sorted(check.run(vault), key=lambda finding: finding.path)
    ]
    vault.remembered.save()
    return findings


def run_doctor(
    call: Call, fix: bool, only: Iterable[str] | None, limit: int, offset: int
) -> DoctorReport:
    """Return a vault's findings; with ``fix``, first apply fixes and return those too.

    Raises:
        UsageError: ``only`` is empty or contains an unknown code.
    """
    codes = list(only or ())
    if only is not None and not codes:
        raise UsageError("`only` needs a code", f"use one or more of {', '.join(CODES)}")
    for code in codes:
        if code not in CODES:
            hint = suggestion(code, CODES, f"use one or more of {', '.join(CODES)}")
            raise UsageError(f"There is no code {code!r}", hint)
    vault = inspect_vault(call)
    findings = run_checks(vault, codes)
    fixed: list[_CheckFinding] = []
    failed: set[tuple[str, str]] = set()
    for _ in range(_MAX_ROUNDS if fix else 0):
        newly_fixed = _apply_fixes(call, findings, codes, failed)
        if not newly_fixed:
            break
        fixed += newly_fixed
        vault = inspect_vault(call)
        findings = run_checks(vault, codes)
    counts = Counter(check.severity for check, _ in findings)
    remaining = len(findings) - offset - limit
    result = {
        "memories": len(vault.memories),
        **({"only": codes} if codes else {}),
        "findings": [_as_result(*finding) for finding in findings[offset : offset + limit]],
        "total": len(findings),
        **({"more": remaining} if remaining > 0 else {}),
        **({"fixed": [_as_result(*finding) for finding in fixed]} if fix else {}),
        **({"changeId": call.change_set.change_id} if call.change_set.files else {}),
        "errors": counts["error"],
        "counts": {severity: counts[severity] for severity in SEVERITIES},
    }
    return cast("DoctorReport", result)


def _apply_fixes(
    call: Call,
    findings: Iterable[_CheckFinding],
    named_codes: list[str],
    failed: set[tuple[str, str]],
) -> list[_CheckFinding]:
    """Apply the fixes of findings, at most one per file; return the fixed findings.

    An explicit fix is applied only if its code is named. ``failed`` collects the
    code and path of each fix that could not be applied; it is not tried again.
    """
    fixed: list[_CheckFinding] = []
    files: set[str] = set()
    applied: set[str] = set()
    for check, finding in findings:
        fix = finding.fix
        if fix is None or (check.code, fix.path) in failed or fix.path in files:
            continue
        if fix.is_explicit and check.code not in named_codes:
            continue
        if (
            fix.path or check.code not in applied
        ):  # A fix without a path resolves all findings of its code.
            try:
                fix.apply(call)
            except MemvaultError as error:
                failed.add((check.code, fix.path))
                call.notes.append(f"{fix.path or check.code} is not fixed: {error.message}")
                continue
            applied.add(check.code)
            files.update(filter(None, [fix.path]))
        fixed.append((check, finding))
    return fixed


def _as_result(check: Check, finding: Finding) -> DoctorFinding:
    fix = finding.fix
    only = f" with `--only {check.code}`" if fix is not None and fix.is_explicit else ""
    return {
        "code": check.code,
        "severity": check.severity,
        "filePath": finding.path,
        "message": textwrap.shorten(finding.message, _MAX_MESSAGE, placeholder=" …"),
        "fix": f"{fix.description}{only}" if fix is not None else "",
    }
