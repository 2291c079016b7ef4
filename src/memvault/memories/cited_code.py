"""Record in a memory's header the code in the surrounding repository that its text mentions."""

from __future__ import annotations

import posixpath
from itertools import islice
from typing import Any

from memvault.model import Memory
from memvault.repository.citations import KEY, MAX_CITATIONS, entries, parse
from memvault.repository.code_check import CodeCitations


def new_cites(citations: CodeCitations, text: str, folder: str) -> dict[str, list[str]]:
    """Return the header entry for the code that a new memory in a folder mentions, if any."""
    cites = list(map(str, citations.anchors(text, folder)))
    return {KEY: cites} if cites else {}


def changed_cites(citations: CodeCitations, memory: Memory, text: str, body: str) -> dict[str, Any]:
    """Return the change to the header when ``text`` is written and the body becomes ``body``.

    Code that the new text mentions is cited as it is now. Other citations stay, unless their file
    was mentioned only in text that was replaced.
    """
    existing = entries(memory.metadata)
    if not all(isinstance(value, str) for value in existing):
        return {}
    anchors = citations.anchors(text, posixpath.dirname(memory.path))
    fresh = {citation.name: citation for citation in anchors}
    kept = []
    for value in existing:
        citation = parse(value)
        if citation is None:
            kept.append(value)
            continue
        name = posixpath.basename(citation.path)
        if citation.name not in fresh and (name in body or name not in memory.body):
            kept.append(value)
            fresh.pop(citation.path, None)  # Omit the file if code in it is cited.
    free = max(0, MAX_CITATIONS - sum(parse(value) is not None for value in kept))
    cites = [*kept, *map(str, islice(fresh.values(), free))]
    return {} if cites == existing else {KEY: cites or None}
