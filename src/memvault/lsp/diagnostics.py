"""Run the doctor's checks on the text of an open memory."""

from __future__ import annotations

import re

from lsprotocol import types

from memvault.doctor import checks_links
from memvault.doctor.doctor import run_checks
from memvault.doctor.findings import Check, Finding
from memvault.doctor.inspection import VaultInspection, inspect_memory
from memvault.lsp.documents import MAX_TEXT, EditorDocument
from memvault.sanitize import escape_line, shorten

CHECKS = (
    "front-matter-broken",
    "front-matter-line",
    "key-twice",
    "git-markers",
    "secret-in-text",
    "id-unusable",
    "type-unknown",
    "time-ahead",
    "date-unread",
    "date-form",
    "supersedes-broken",
    "link-settled",
    "kept-twice",
)
"""The checks that need only one text and the names of the other memories."""
_SEVERITIES = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "note": types.DiagnosticSeverity.Information,
}
_MAX_MESSAGE = 400
_LINE = re.compile(r"\bline (\d{1,9})\b")
_HAS_LINE = ("front-matter-broken", "front-matter-line", "secret-in-text")
"""The checks whose messages contain a line number."""


def inspect(document: EditorDocument) -> VaultInspection | None:
    """Return the input of the doctor's checks for an open text; None if it was just deleted."""
    state = document.state
    record = state.record_at(document.path)
    if record is None:
        return None
    data, _ = state.store.read_bytes(document.path)
    return inspect_memory(state.call, state.graph, record, data)


def diagnose(document: EditorDocument) -> list[types.Diagnostic]:
    """Return the doctor's findings in an open memory's text."""
    inspection = inspect(document)
    if inspection is None:
        return []
    found = [
        _diagnostic(check.code, check.severity, finding.message, _range(document, check, finding))
        for check, finding in run_checks(inspection, CHECKS)
    ]
    start = document.body_start
    for link in checks_links.broken_in(inspection, document.parts.body):
        message = f"{document.state.mask(checks_links.shown_link(link))} does not resolve to a file"
        where = document.lines.range(start + link.span[0], start + link.span[1])
        found.append(_diagnostic("link-broken", "warning", message, where))
    return found


def too_large() -> list[types.Diagnostic]:
    """Return the note for a text that is too large to be checked while it is edited."""
    message = f"Not checked while it is edited: the text is longer than {MAX_TEXT:,} characters"
    start = types.Position(0, 0)
    return [_diagnostic("too-large", "note", message, types.Range(start, start))]


def _diagnostic(code: str, severity: str, message: str, where: types.Range) -> types.Diagnostic:
    text = shorten(escape_line(message), _MAX_MESSAGE)
    level = _SEVERITIES[severity]
    return types.Diagnostic(where, text, severity=level, code=code, source="memvault")


def _range(document: EditorDocument, check: Check, finding: Finding) -> types.Range:
    """Return a finding's range: its line or header key, or else the first line."""
    lines = document.lines
    if check.code in _HAS_LINE and (match := _LINE.search(finding.message)):
        return lines.line_range(int(match[1]) - 1)
    name = finding.key.rpartition(".")[2]
    for number in range(lines.line_number(document.body_start)) if name else ():
        if lines.line(number).lstrip(" -\"'").startswith((f"{name}:", f'{name}":')):
            return lines.line_range(number)
    return lines.line_range(0)
