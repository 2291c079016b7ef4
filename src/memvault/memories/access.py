"""How often each memory was recalled on this machine."""

from __future__ import annotations

import json
from pathlib import Path

from memvault.vault import atomic

__all__ = ["counts"]


def counts(root: Path) -> dict[str, int]:
    """Return how often each memId was recalled here; what cannot be read counts as never."""
    try:
        entries = json.loads(atomic.read(root / ".memvault" / "access.json"))
        return {str(name): int(entry["count"]) for name, entry in entries.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}
