"""A check of secrets that were written into files by hand, or before anything looked."""

from __future__ import annotations

from collections.abc import Iterator

from memvault.upkeep.doctor.findings import Finding
from memvault.upkeep.doctor.look import InspectedFile, InspectedMemory, VaultInspection


def in_texts(look: VaultInspection) -> Iterator[Finding]:
    """Find files that hold a secret and do not say that it is fine; the secret is not told."""
    entries: tuple[InspectedMemory | InspectedFile, ...] = (*look.notes, *look.others)
    for entry in entries:
        if entry.secrets:
            said = f"It holds a secret: {entry.secrets}; take it out, and revoke it if"
            said += " others can read the vault; secrets: allowed in the header says it is fine"
            yield Finding("secret-in-text", entry.path, said)
