"""Search an agent's own values, goals, plans, spaces and inbox by terms.

These are not in the index, because they are few and other agents must not see them. Their files are
read and compared with the query, which is analyzed like a query for memories.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from memvault.agents.address import Address
from memvault.agents.agent_files import AgentFileStore
from memvault.agents.messages.inbox import Inbox
from memvault.agents.messages.service_names import SPACE_MESSAGE, sender_label
from memvault.agents.messages.spaces import Spaces
from memvault.agents.plans.plan_files import plan_name
from memvault.errors import MemvaultError, UsageError, suggestion
from memvault.index.text.analyzer import analyzer, query_analyzer
from memvault.index.text.passages import split_passages
from memvault.named_tuple import NamedTuple
from memvault.recall import snippets
from memvault.recall.query import Query, parse
from memvault.store.memory_store import MemoryStore

_FOLDERS = {"key-value": ("memories", "key"), "goal": ("goals", "id"), "plan": ("plans", "id")}
_TEXTS = ("message", "content", "instruction")
"""Keys of an event's data that can contain its text."""
_MIN_SHARE = 0.5
"""Minimum share of a query's terms that an item must contain."""
_MAX_MESSAGES = 1_000
"""Maximum number of messages to search in a space, starting with the newest."""


class AgentItem(NamedTuple):
    """An item of an agent; ``path`` is its file in the vault, and ``when`` is its time."""

    kind: str
    name: str
    text: str
    path: str
    when: str


class AgentHit(NamedTuple):
    """An item that matches a query; ``score`` is the share of the query's terms in it."""

    own: AgentItem
    score: float
    snippet: str


def search_agent(
    store: MemoryStore,
    address: Address,
    languages: Sequence[str],
    text: str,
    include: Iterable[str],
) -> tuple[list[AgentHit], list[str]]:
    """Return the items with at least half of a query's terms, and notes about unreadable items.

    The hits are sorted by score, then newest first. ``include`` lists ``KINDS`` to search.
    """
    query = parse(text, query_analyzer(tuple(languages)))
    items: list[AgentItem] = []
    notes: list[str] = []
    for kind in dict.fromkeys(include):
        try:
            items += _SOURCES[kind](store, address, notes)
        except MemvaultError as error:
            notes.append(error.message)
    hits = [
        AgentHit(item, share, _snippet(query, item))
        for item in items
        if (share := _share(query, item, languages))
    ]
    hits.sort(key=lambda hit: hit.own.when, reverse=True)
    return sorted(hits, key=lambda hit: -hit.score), notes


def _share(query: Query, item: AgentItem, languages: Sequence[str]) -> float:
    """Return the share of a query's terms in an item, or 0 if it is below the minimum."""
    text = f"{item.name}\n{item.text}"
    if not query.has_phrases(text):
        return 0.0
    shares = (snippets.coverage(text, query, analyzer(name)) for name in languages)
    share = max(shares, default=0.0)
    return share if share >= _MIN_SHARE else 0.0


def _snippet(query: Query, item: AgentItem) -> str:
    if not item.text.strip():
        return ""
    passages = list(enumerate(split_passages(item.text)))
    return snippets.make_snippet(item.text, passages, query, analyzer(query.language), None).text


def _state(store: MemoryStore, address: Address, notes: list[str]) -> list[AgentItem]:
    """Return the agent's values, goals and plans."""
    items = []
    for kind, (folder, key) in _FOLDERS.items():
        files = AgentFileStore(store, address, folder, key).read()
        notes += files.notes
        for entry in files.entries.values():
            name = plan_name(entry) if kind == "plan" else entry.name
            items.append(AgentItem(kind, name, entry.text.strip(), entry.path, entry.modified))
    return items


def _messages(store: MemoryStore, address: Address, notes: list[str]) -> list[AgentItem]:
    """Return the messages in the agent's spaces, and the other events in its inbox."""
    items = []
    spaces = Spaces(store.changes, address, notes.append)
    message_ids: set[str] = set()
    for space in spaces.joined():
        for message in spaces.messages(space, _MAX_MESSAGES)[0]:
            message_ids.add(message.message_id)
            path = f"spaces/{space.space_id}/messages/{message.message_id}.md"
            name = f"{space.name}, {message.sender}"
            items.append(AgentItem("space message", name, message.content, path, message.timestamp))
    inbox = Inbox(store.root, address)
    folder = inbox.folder.relative_to(store.root).as_posix()
    events, event_notes, *_ = inbox.waiting()
    notes += event_notes
    for event in events:
        if event.kind == SPACE_MESSAGE and event.data.get("messageId") in message_ids:
            continue
        text = next((event.data[key] for key in _TEXTS if event.data.get(key)), "")
        path = f"{folder}/{event.event_id}.md"
        name = sender_label(event.kind, event.data)
        items.append(AgentItem("inbox event", name, str(text), path, event.timestamp))
    return items


_SOURCES: Mapping[str, Callable[[MemoryStore, Address, list[str]], list[AgentItem]]] = {
    "state": _state,
    "messages": _messages,
}
KINDS = tuple(_SOURCES)
"""The valid values of ``include``."""


def parse_include(include: Iterable[str]) -> list[str]:
    """Return the kinds to search in addition to memories.

    Raises:
        UsageError: a kind is unknown.
    """
    named = (name.strip().casefold() for name in include if name.strip())
    each = (KINDS if name == "both" else (name,) for name in named)
    kinds = list(dict.fromkeys(kind for kinds in each for kind in kinds))
    for name in kinds:
        if name not in _SOURCES:
            hint = suggestion(name, _SOURCES, f"use {' or '.join(_SOURCES)}, or both")
            raise UsageError(f"Unknown source {name[:40]!r} to include", hint)
    return kinds
