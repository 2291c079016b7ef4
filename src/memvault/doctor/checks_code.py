"""Check the code in the surrounding repository that memories cite or mention."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from memvault.doctor.findings import Finding, check, set_header
from memvault.doctor.inspection import InspectedMemory, VaultInspection
from memvault.errors import MemvaultError
from memvault.repository.citations import KEY, describe, entries, is_outdated, parse
from memvault.repository.code_check import UNHURRIED_SECONDS

if TYPE_CHECKING:
    from memvault.results import CitedCode


def _citing(vault: VaultInspection) -> list[InspectedMemory]:
    """Return the current memories that cite code; none if it is not checked."""
    if vault.call.citations is None:
        return []
    citing = [memory for memory in vault.memories if KEY in memory.record.metadata]
    validities = vault.call.engine.validities([memory.record for memory in citing])
    return [
        memory for memory, validity in zip(citing, validities, strict=True) if validity.is_current
    ]


def _cited(
    vault: VaultInspection, is_reported: Callable[[list[CitedCode]], bool]
) -> Iterator[tuple[InspectedMemory, list[CitedCode], list[object] | None]]:
    """Yield the memories with cited code to report, that code, and the renewed citations."""
    citations, citing = vault.call.citations, _citing(vault)
    if citations is None:
        return
    states = citations.check([memory.record.metadata for memory in citing], UNHURRIED_SECONDS)
    reported = [
        (memory, cited) for memory, cited in zip(citing, states, strict=True) if is_reported(cited)
    ]
    renewed = citations.renewed([memory.record.metadata for memory, _ in reported])
    for (memory, cited), values in zip(reported, renewed, strict=True):
        yield memory, cited, values


@check(
    "code-changed",
    "warning",
    "Code that a memory cites has changed or no longer exists",
    fix="cites the current code, or the whole file, confirming that the memory is still true; "
    "only with `--only`",
)
def changed_code(vault: VaultInspection) -> Iterator[Finding]:
    for memory, cited, renewed in _cited(vault, _has_outdated):
        outdated = "; ".join(describe(entry) for entry in cited if is_outdated(entry))
        fix = set_header(memory.file, _effect(cited, renewed), {KEY: renewed})
        message = f"{outdated}: compound, supersede or forget the memory if it is wrong"
        yield Finding(memory.path, message, fix._replace(is_explicit=True))


def _has_outdated(cited: list[CitedCode]) -> bool:
    return any(map(is_outdated, cited))


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
    for memory, cited, renewed in _cited(vault, _has_only_moved):
        moved = "; ".join(describe(entry) for entry in cited if entry["state"] == "moved")
        fix = set_header(memory.file, "change the path in its header", {KEY: renewed})
        yield Finding(memory.path, moved, fix)


def _has_only_moved(cited: list[CitedCode]) -> bool:
    return not _has_outdated(cited) and any(entry["state"] == "moved" for entry in cited)


@check("code-unread", "note", "An entry of `cites` that is not a path in the repository")
def unread_citations(vault: VaultInspection) -> Iterator[Finding]:
    for memory in _citing(vault):
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
