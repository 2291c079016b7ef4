"""The map of a vault: its memories, their links, and the pairs that are similar in meaning.

Browsers compute the positions: ``assets/map.js`` runs a force layout on the links or the pairs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from memvault import clock
from memvault.errors import MemvaultError
from memvault.tools.core.render import passage
from memvault.vault.document import body_of
from memvault.web.addresses import public_id

if TYPE_CHECKING:
    from memvault.call import Call
    from memvault.index.protocol import MemoryRecord
    from memvault.memories.link_graph import LinkGraph

MAX_NODES = 20_000
_MAX_AROUND = 60
BEGINNING = 600
"""Number of characters compared per memory."""
_NEIGHBORS = 6
"""Maximum number of similar memories paired with each memory."""


def memory_map(call: Call, graph: LinkGraph, records: Sequence[MemoryRecord]) -> dict[str, Any]:
    """Return the first memories and the links between them, as JSON values.

    ``links`` of a node is the number of links to it, and an edge is a pair of linked nodes.
    """
    records = records[:MAX_NODES]
    places = {record.uid: number for number, record in enumerate(records)}
    links = Counter[int]()
    edges: set[tuple[int, int]] = set()
    for link in graph.indexed():
        if link.source in places and link.target in places:
            source, target = places[link.source], places[link.target]
            links[target] += 1
            edges.add((min(source, target), max(source, target)))
    detector = call.settings.detector
    nodes = []
    for number, record in enumerate(records):
        mask = detector.masking(record.metadata)
        nodes.append(
            {
                "id": public_id(record, detector),
                "title": passage(mask(record.title)),
                "type": mask(record.memory_type),
                "tags": list(map(mask, record.tags)),
                "day": clock.local(record.created),
                "links": links[number],
            }
        )
    return {"nodes": nodes, "edges": sorted(edges)}


def similar_memories(
    call: Call, records: Sequence[MemoryRecord], beginnings: Mapping[str, str] | None = None
) -> list[tuple[int, int]]:
    """Return each of the first memories paired with the most similar others, by position.

    Their titles, tags and first characters are compared; ``beginnings`` are those of memories that
    were already read, by path.
    """
    from memvault.index.embedding.text_clustering import nearest_pairs, open_meaning

    known = beginnings or {}
    texts = [
        f"{record.title}\n{' '.join(record.tags)}"
        f"\n{known[record.path] if record.path in known else _beginning(call, record.path)}"
        for record in records[:MAX_NODES]
    ]
    quick = call.settings.replace(embedder=call.settings.embedder.replace(deep="off"))
    meaning, _ = open_meaning(quick, call.root)
    return nearest_pairs(meaning.space(texts), _NEIGHBORS) if texts else []


def _beginning(call: Call, path: str) -> str:
    try:
        data, _ = call.reader.read_bytes(path)
    except MemvaultError:
        return ""
    return body_of(data, call.settings.encoding)[:BEGINNING]


def around(graph: dict[str, Any], mem_id: str) -> dict[str, Any]:
    """Return the part of a map that contains one memory and its most linked neighbors.

    The memory is the first node; there are no nodes if the map does not contain it.
    """
    nodes, edges = graph["nodes"], graph["edges"]
    center = next((place for place, node in enumerate(nodes) if node["id"] == mem_id), None)
    if center is None:
        return {"nodes": [], "edges": []}
    linked = {one if other == center else other for one, other in edges if center in (one, other)}
    chosen = sorted(linked, key=lambda place: -nodes[place]["links"])[:_MAX_AROUND]
    numbers = {place: number for number, place in enumerate([center, *chosen])}
    return {
        "nodes": [nodes[place] for place in numbers],
        "edges": [
            (numbers[one], numbers[other])
            for one, other in edges
            if one in numbers and other in numbers
        ],
    }
