"""What needs a person: conflicts, secrets, duplicates, outdated memories, findings."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple

from memvault.call import Call
from memvault.doctor.doctor import run_doctor
from memvault.errors import MemvaultError
from memvault.index.protocol import MemoryRecord, by_time
from memvault.model import is_example
from memvault.recall.answer import Validity, memory_reference
from memvault.recall.filters import Filters

if TYPE_CHECKING:
    from memvault.results import DoctorFinding, ReviewEntry

Kind = Literal["conflict", "secret", "duplicate", "outdated", "finding"]
_MAX_FINDINGS = 10_000
_CONFLICT, _SECRET = "kept-twice", "secret-in-text"
_MIN_DUPLICATE = 40
"""Characters of the shortest text that counts as a duplicate of another."""


class ReviewItem(NamedTuple):
    """Something that needs a person.

    ``memory`` is None if it is no memory; ``other`` is the other memory of a conflict or duplicate,
    or the one that replaces an outdated memory. ``code`` is that of a finding, ``fix`` what its fix
    does.
    """

    kind: Kind
    path: str
    title: str
    reason: str
    memory: MemoryRecord | None = None
    other: MemoryRecord | None = None
    code: str = ""
    fix: str = ""

    def described(self) -> ReviewEntry:
        """Return the item as an entry of a result."""
        entry: ReviewEntry = {
            "kind": self.kind,
            "filePath": self.path,
            "title": self.title,
            "reason": self.reason,
        }
        if self.memory is not None:
            entry["memId"] = self.memory.mem_id
        if self.other is not None:
            entry["other"] = memory_reference(self.other)
        if self.code:
            entry["code"], entry["fix"] = self.code, self.fix
        return entry


def review_items(call: Call) -> list[ReviewItem]:
    """Return what needs a person in a vault, the most urgent kinds first."""
    records = [
        record for record in call.engine.list_records(Filters()) if not is_example(record.metadata)
    ]
    by_path = {record.path: record for record in records}
    report = run_doctor(call, False, None, _MAX_FINDINGS, 0)
    findings = [
        _of_finding(entry, by_path) for entry in report["findings"] if entry["severity"] != "note"
    ]
    order: tuple[Kind, ...] = ("conflict", "secret", "duplicate", "outdated", "finding")
    items = [*_once(findings), *_duplicates(call, records), *_outdated(call, records)]
    return sorted(items, key=lambda item: (order.index(item.kind), item.path))


def _of_finding(entry: DoctorFinding, by_path: dict[str, MemoryRecord]) -> ReviewItem:
    code, path = entry["code"], entry["filePath"]
    memory = by_path.get(path)
    kind: Kind = "conflict" if code == _CONFLICT else "secret" if code == _SECRET else "finding"
    other = None
    if kind == "conflict" and memory is not None:
        named = str(memory.metadata.get("conflict_with", ""))
        other = next((one for one in by_path.values() if one.mem_id in named), None)
    title = memory.title if memory is not None else path or code
    return ReviewItem(kind, path, title, entry["message"], memory, other, code, entry["fix"])


def _once(items: list[ReviewItem]) -> Iterator[ReviewItem]:
    """Leave out the second of the two items of a conflict."""
    seen: set[str] = set()
    for item in items:
        if item.kind != "conflict" or item.path not in seen:
            yield item
        if item.other is not None:
            seen.add(item.other.path)


def _duplicates(call: Call, records: list[MemoryRecord]) -> Iterator[ReviewItem]:
    """Yield the memories with the same text as one that is older, whatever the blanks."""
    same_size: dict[bytes, MemoryRecord] = {}
    for record in sorted(records, key=by_time):
        if record.size < _MIN_DUPLICATE:
            continue
        try:
            words = " ".join(call.reader.read(record.path).body.split())
        except MemvaultError:
            continue
        if len(words) < _MIN_DUPLICATE:
            continue
        digest = hashlib.blake2b(words.encode("utf-8", "replace"), digest_size=16).digest()
        first = same_size.setdefault(digest, record)
        if first is not record:
            reason = f"It has the same text as {first.path}"
            yield ReviewItem("duplicate", record.path, record.title, reason, record, first)


def _outdated(call: Call, records: list[MemoryRecord]) -> Iterator[ReviewItem]:
    for record, validity in zip(records, call.engine.validities(records), strict=True):
        if validity.replaced_by is not None or validity.expired_on:
            yield ReviewItem(
                "outdated",
                record.path,
                record.title,
                _why(validity),
                record,
                validity.replaced_by,
            )


def _why(validity: Validity) -> str:
    if validity.replaced_by is not None:
        return f"It is superseded by {validity.replaced_by.title} ({validity.replaced_by.path})"
    return f"It ended on {validity.expired_on}"
