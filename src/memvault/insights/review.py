"""List the items to review, such as conflicts, secrets, duplicates and outdated memories."""

from __future__ import annotations

import contextlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, get_args

from memvault import clock
from memvault.agents import receipts
from memvault.call import Call
from memvault.doctor.doctor import run_checks
from memvault.doctor.findings import Finding, Fix
from memvault.doctor.inspection import VaultInspection, inspect_vault
from memvault.doctor.remembered import RememberedResults
from memvault.errors import MemvaultError, NotFound, Verbatim
from memvault.files.plain_files import digest_of
from memvault.index.protocol import MemoryRecord, StaleView, by_time
from memvault.model import EPISODE, is_example
from memvault.named_tuple import NamedTuple
from memvault.recall.answer import Validity, memory_reference
from memvault.results.vault import ReviewKind
from memvault.vault.document import body_of, etag

if TYPE_CHECKING:
    from memvault.consolidation.proposals import Proposals
    from memvault.memories.unmerged import UnmergedMemory
    from memvault.results import ReviewEntry

EPISODE_DAYS = 7
"""The number of past days to consolidate, as in `memvault consolidate`."""
_KINDS: dict[str, ReviewKind] = {
    "kept-twice": "conflict",
    "secret-in-text": "secret",
    "code-changed": "code",
}
"""The kinds of findings that are not reviewed as findings, by their code."""
_MIN_DUPLICATE = 40
"""Minimum length in characters of a body that counts as a duplicate."""
_DIGEST = 16
"""Number of bytes of a text's hash."""


class ReviewItem(NamedTuple):
    """An item that a person should review.

    ``memory`` is None if the item is not a memory; ``other`` is the other memory of a conflict or
    duplicate, or the replacement of an outdated memory. ``other_path`` is the other file of a
    conflict or duplicate. ``code`` and ``fix`` belong to a finding. ``proposals`` contains the
    consolidation proposal, if the item is a proposal. ``unmerged`` is a memory of a deleted
    worktree.
    """

    kind: ReviewKind
    path: str
    title: str
    reason: str
    memory: MemoryRecord | None = None
    other: MemoryRecord | None = None
    other_path: str = ""
    code: str = ""
    fix: Fix | None = None
    proposals: Proposals | None = None
    unmerged: UnmergedMemory | None = None

    def described(self) -> ReviewEntry:
        """Return the item as an entry in a result."""
        entry: ReviewEntry = {
            "kind": self.kind,
            "filePath": self.path,
            "title": self.title,
            # Only a doctor finding's reason contains commands; other reasons quote titles and
            # steps.
            "reason": self.reason if self.code else Verbatim(self.reason),
        }
        if self.memory is not None:
            entry["memId"] = self.memory.mem_id
        if self.unmerged is not None:
            entry["memId"] = self.unmerged.memory.mem_id
        if self.other is not None:
            entry["other"] = memory_reference(self.other)
        if self.code:
            entry["code"], entry["fix"] = self.code, self.fix.description if self.fix else ""
        if self.proposals is not None:
            entry["proposalId"] = self.proposals.ids()[0]
        return entry


def review_items(call: Call, kind: ReviewKind | None = None) -> list[ReviewItem]:
    """Return the items to review, optionally of one kind, the most urgent kinds first."""
    items: list[ReviewItem] = []
    if kind in (None, "finding", *_KINDS.values()):
        inspection = inspect_vault(call)
        records = _without_examples(memory.record for memory in inspection.memories)
        by_path = {record.path: record for record in records}
        codes = [code for code, other in _KINDS.items() if other == kind]
        items += _once(_findings(inspection, by_path, codes))
        del inspection  # Only the records are needed below.
    else:
        records = call.engine.visit_records(_without_examples)
        by_path = {record.path: record for record in records}
    if kind in (None, "unmerged"):
        items += _unmerged(call, records)
    if kind in (None, "duplicate"):
        items += _duplicates(call, records)
    if kind in (None, "outdated"):
        items += _outdated(call, records)
    if kind in (None, "unused"):
        items += _unused(call, records)
    if kind in (None, "proposal"):
        items += _proposals(call, by_path)
    selected = [item for item in items if kind in (None, item.kind)]
    return sorted(selected, key=lambda item: (get_args(ReviewKind).index(item.kind), item.path))


def _without_examples(records: Iterable[MemoryRecord]) -> list[MemoryRecord]:
    return [record for record in records if not is_example(record.metadata)]


def finding_at(call: Call, code: str, path: str) -> Finding:
    """Return the current finding with a code for a file.

    Raises:
        NotFound: the finding no longer exists.
    """
    for _, finding in run_checks(inspect_vault(call), [code]):
        if finding.path == path:
            return finding
    raise NotFound(f"{path} no longer has a finding {code}", "`memvault review`")


def _findings(
    inspection: VaultInspection, by_path: dict[str, MemoryRecord], codes: Iterable[str]
) -> Iterator[ReviewItem]:
    """Yield the errors and warnings of doctor, optionally only those with these codes."""
    for check, finding in run_checks(inspection, codes):
        if check.severity != "note":
            kind = _KINDS.get(check.code, "finding")
            memory = by_path.get(finding.path)
            yield ReviewItem(
                kind,
                finding.path,
                memory.title if memory is not None else finding.path or check.code,
                finding.message,
                memory,
                by_path.get(finding.other),
                finding.other,
                check.code,
                finding.fix,
            )


def _once(items: Iterable[ReviewItem]) -> Iterator[ReviewItem]:
    """Yield the items, with only the first of the two items for each conflict."""
    seen: set[str] = set()
    for item in items:
        if item.kind != "conflict" or item.path not in seen:
            yield item
        seen.add(item.other_path)


def _unmerged(call: Call, records: list[MemoryRecord]) -> Iterator[ReviewItem]:
    """Yield the memories that were written in git worktrees that no longer exist."""
    if call.unmerged is not None:
        for item in call.unmerged.memories(records):
            if item.worktree.is_copy:
                memory, branch = item.memory, item.worktree.checked_out
                reason = (
                    f"It was in the deleted worktree of {branch} and exists in no other worktree"
                )
                yield ReviewItem("unmerged", memory.path, memory.title, reason, unmerged=item)


def _duplicates(call: Call, records: list[MemoryRecord]) -> Iterator[ReviewItem]:
    """Yield memories whose text is a near or, ignoring whitespace, exact copy of an older one's."""
    from memvault.index.text.near_copies import near_copies  # loads NumPy

    compared: list[MemoryRecord] = []
    sketches: list[bytes] = []
    first_with: dict[bytes, MemoryRecord] = {}
    remembered = RememberedResults(call, "review")
    for record in sorted(records, key=by_time):
        fingerprint = _fingerprint(call, remembered, record)
        if not fingerprint:
            continue
        first = first_with.setdefault(fingerprint[:_DIGEST], record)
        if first is not record:
            reason = f"It has the same text as {first.path}"
            yield ReviewItem(
                "duplicate", record.path, record.title, reason, record, first, first.path
            )
        elif record.memory_type != EPISODE:  # Episodes from different days may be very similar.
            compared.append(record)
            sketches.append(fingerprint[_DIGEST:])
    remembered.save()
    for position, other, share in near_copies(sketches):
        record, first = compared[position], compared[other]
        percent = min(int(100 * share), 99)  # The share is an estimate, and the texts differ.
        reason = f"It shares {percent}% of its phrases with {first.path}"
        yield ReviewItem("duplicate", record.path, record.title, reason, record, first, first.path)


def _fingerprint(call: Call, remembered: RememberedResults, record: MemoryRecord) -> bytes:
    """Return the hash and the sketch of a memory's text, ignoring whitespace.

    Returns nothing if the text is short, cannot be read, or has changed since the index was
    refreshed.
    """

    def compute() -> str:
        from memvault.index.text.near_copies import sketch

        data, _ = call.reader.read_bytes(record.path)
        if etag(data) != record.etag:
            raise StaleView
        text = " ".join(body_of(data, call.settings.encoding).split())
        if len(text) < _MIN_DUPLICATE:
            return ""
        digest = digest_of(text.encode("utf-8", "replace"), _DIGEST)
        return b64encode(digest + sketch(text)).decode()

    if record.size >= _MIN_DUPLICATE:
        with contextlib.suppress(MemvaultError, StaleView):
            return b64decode(remembered.get("duplicate", (record.etag,), compute) or "")
    return b""


def _unused(call: Call, records: list[MemoryRecord]) -> Iterator[ReviewItem]:
    """Yield memories that were often given to agents but never used."""
    unused = receipts.unused(call.root)
    for record in records:
        if count := unused.get((record.mem_id, record.etag)):
            reason = f"It was given to agents {count} times without being used"
            yield ReviewItem("unused", record.path, record.title, reason, record)


def _proposals(call: Call, by_path: dict[str, MemoryRecord]) -> Iterator[ReviewItem]:
    """Yield the proposals of ``memvault consolidate``."""
    from memvault.consolidation.apply import load_input, propose

    inputs = load_input(call.store, call.engine, EPISODE_DAYS, clock.now())
    if not (inputs.episodes or inputs.facts or inputs.unused):
        return
    proposals, _ = propose(call.store, call.engine, inputs)
    for proposal_id in proposals.ids():
        proposal = proposals.only((proposal_id,))
        path, title, reason = _about(proposal)
        memory = by_path.get(path)
        yield ReviewItem("proposal", path, title, reason, memory, proposals=proposal)


def _about(proposal: Proposals) -> tuple[str, str, str]:
    """Return the path and title of the memory that a proposal changes, and a description."""
    for fact in proposal.facts:
        return "", fact.text, f"A new fact, from {len(fact.episodes)} episodes"
    for procedure in proposal.procedures:
        about = f"A new procedure, from {len(procedure.episodes)} episodes"
        return "", procedure.name, f"{about}: {'; '.join(procedure.prompt.splitlines())}"
    for merge in proposal.merged:
        return (
            merge.other.path,
            merge.other.title,
            f"A fact to archive: {merge.kept.path} contains it",
        )
    memory = proposal.forgotten[0].memory
    return memory.path, memory.title, "To archive: unimportant, old, and never recalled here"


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
    return f"It expired on {validity.expired_on}"
