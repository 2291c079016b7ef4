"""Check the code of the surrounding repository that memories cite or mention."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from memvault.doctor.findings import Finding, check, set_header
from memvault.doctor.inspection import InspectedMemory, VaultInspection
from memvault.errors import MemvaultError
from memvault.repository.citations import KEY, describe, entries, is_outdated, parse
from memvault.repository.code_check import UNHURRIED_SECONDS, CodeCitations

if TYPE_CHECKING:
    from memvault.results import CitedCode


def _cited(
    vault: VaultInspection,
) -> Iterator[tuple[CodeCitations, InspectedMemory, list[CitedCode]]]:
    """Yield the current memories that cite code, each with the state of that code."""
    citations = vault.call.citations
    if citations is None:
        return
    citing = [memory for memory in vault.memories if KEY in memory.record.metadata]
    validities = vault.call.engine.validities([memory.record for memory in citing])
    headers = [memory.record.metadata for memory in citing]
    states = citations.check(headers, UNHURRIED_SECONDS)
    for memory, validity, cited in zip(citing, validities, states, strict=True):
        if validity.is_current:
            yield citations, memory, cited


@check(
    "code-changed",
    "warning",
    "Code that a memory cites has changed or no longer exists",
    fix="cites the current code, or the whole file, confirming that the memory is still true; "
    "only with `--only`",
)
def changed_code(vault: VaultInspection) -> Iterator[Finding]:
    for citations, memory, cited in _cited(vault):
        outdated = [describe(entry) for entry in cited if is_outdated(entry)]
        if outdated:
            renewed = citations.renewed(memory.record.metadata)
            fix = set_header(memory.file, _effect(cited, renewed), {KEY: renewed})
            message = (
                f"{'; '.join(outdated)}: compound, supersede or forget the memory if it is wrong"
            )
            yield Finding(memory.path, message, fix._replace(is_explicit=True))


def _effect(cited: Sequence[CitedCode], renewed: Sequence[object] | None) -> str:
    """Return what renewing the citations of outdated code does."""
    if any(entry["state"] == "changed" for entry in cited):
        return "cite the code as it is now"
    left = {citation.path for citation in map(parse, renewed or ()) if citation is not None}
    has_file = any(entry["path"] in left for entry in cited if entry["state"] == "gone")
    return "cite the whole file" if has_file else "remove the citation"


@check(
    "code-moved",
    "note",
    "Code that a memory cites has moved to another file",
    fix="changes the path in the header",
)
def moved_code(vault: VaultInspection) -> Iterator[Finding]:
    for citations, memory, cited in _cited(vault):
        moved = [describe(entry) for entry in cited if entry["state"] == "moved"]
        if moved and not any(map(is_outdated, cited)):
            changes = {KEY: citations.renewed(memory.record.metadata)}
            fix = set_header(memory.file, "change the path in its header", changes)
            yield Finding(memory.path, "; ".join(moved), fix)


@check("code-unread", "note", "An entry of `cites` that is not a path in the repository")
def unread_citations(vault: VaultInspection) -> Iterator[Finding]:
    for _, memory, _ in _cited(vault):
        for value in entries(memory.record.metadata):
            if isinstance(value, str) and parse(value) is None and "://" not in value:
                yield Finding(
                    memory.path, f"Its {KEY} has {value!r}, which is not a path in the repository"
                )


@check(
    "code-uncited",
    "note",
    "A memory that mentions lines or symbols in the repository but does not cite them",
    fix="cites their current state in the header",
)
def uncited_code(vault: VaultInspection) -> Iterator[Finding]:
    citations = vault.call.citations
    memories = [memory for memory in vault.memories if KEY not in memory.record.metadata]
    if citations is None:
        return
    texts = ((_text(vault, memory), memory.path.rpartition("/")[0]) for memory in memories)
    for memory, cited in zip(memories, citations.anchors_of_each(texts), strict=False):
        inside = [citation.name for citation in cited if citation.symbol or citation.line]
        if inside:
            changes = {KEY: list(map(str, cited))}
            fix = set_header(memory.file, "cite the code that it mentions", changes)
            yield Finding(
                memory.path, f"It mentions {', '.join(inside)}, but does not cite it", fix
            )


def _text(vault: VaultInspection, memory: InspectedMemory) -> str:
    """Return a memory's title and text; empty if it cannot be read or changed."""
    if memory.file.trouble or memory.file.broken:
        return ""
    try:
        return f"{memory.record.title}\n{vault.call.store.read(memory.path).body}"
    except MemvaultError:
        return ""
