"""What of an agent's own can be found by words: its values, goals, plans, spaces and inbox.

It is no part of the index: there is little of it, and nobody else may see it. So
what lies there is read and compared with a query's words, which are made into
terms as those of memories are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from memvault.agents.address import Address
from memvault.agents.agent_files import AgentFileStore
from memvault.agents.messages.inbox import SPACE_MESSAGE, Inbox, sender_label
from memvault.agents.messages.spaces import Spaces
from memvault.agents.plans.plans import name_of
from memvault.errors import MemvaultError, UsageError
from memvault.index.text.analysis import analyser, query_analyser
from memvault.index.text.passages import split_passages
from memvault.recall import snippets
from memvault.recall.query import Query, parse
from memvault.store.memory_store import MemoryStore

_FOLDERS = {"key-value": ("memories", "key"), "goal": ("goals", "id"), "plan": ("plans", "id")}
_TEXTS = ("message", "content", "instruction")
"""The values of an event of which one is its text."""
_LEAST = 0.5
"""The share of a query's words that an entry holds at least."""
_MOST = 1_000
"""How many of a space's messages are looked through, the newest."""


class AgentItem(NamedTuple):
    """Something of an agent's own; ``path`` is its file in the vault, ``when`` its time."""

    kind: str
    name: str
    text: str
    path: str
    when: str


class AgentHit(NamedTuple):
    """What fits a query: ``score`` is the share of its words that are there."""

    own: AgentItem
    score: float
    snippet: str


class AgentSearch(NamedTuple):
    """One search through what an agent has; ``notes`` says what could not be read."""

    store: MemoryStore
    address: Address
    languages: Sequence[str]
    notes: list[str]

    def hits(self, text: str, include: Iterable[str]) -> list[AgentHit]:
        """Return what holds at least half of a query's words, the most first, then the newest."""
        query = parse(text, query_analyser(tuple(self.languages)))
        every = [own for name in dict.fromkeys(include) for own in self._read(_SOURCES[name])]
        compared = ((own, self._share(query, own)) for own in every)
        found = [AgentHit(own, share, self._shown(query, own)) for own, share in compared if share]
        found.sort(key=lambda hit: hit.own.when, reverse=True)
        return sorted(found, key=lambda hit: -hit.score)

    def _read(self, source: Callable[[AgentSearch], Iterator[AgentItem]]) -> list[AgentItem]:
        try:
            return list(source(self))
        except MemvaultError as error:
            self.notes.append(error.message)
            return []

    def _share(self, query: Query, own: AgentItem) -> float:
        text = f"{own.name}\n{own.text}"
        if not query.has_phrases(text):
            return 0.0
        held = (snippets.coverage(text, query, analyser(name)) for name in self.languages)
        share = max(held, default=0.0)
        return share if share >= _LEAST else 0.0

    def _shown(self, query: Query, own: AgentItem) -> str:
        if not own.text.strip():
            return ""
        cut = list(enumerate(split_passages(own.text)))
        reader = analyser(query.language)
        return snippets.make_snippet(own.text, cut, query, reader, None).text

    def state(self) -> Iterator[AgentItem]:
        """Yield the agent's values, goals and plans."""
        for kind, (folder, key) in _FOLDERS.items():
            found = AgentFileStore(self.store, self.address, folder, key).read()
            self.notes.extend(found.notes)
            for entry in found.entries.values():
                name = name_of(entry) if kind == "plan" else entry.name
                yield AgentItem(kind, name, entry.text.strip(), entry.path, entry.modified)

    def messages(self) -> Iterator[AgentItem]:
        """Yield what was said in the agent's spaces, and what else lies in its inbox."""
        root = self.store.root
        spaces = Spaces(self.store.changes, self.address)
        told: set[str] = set()
        for space in spaces.joined():
            for message in spaces.messages(space, _MOST)[0]:
                told.add(message.message_id)
                path = f"spaces/{space.space_id}/messages/{message.message_id}.md"
                name = f"{space.name}, {message.sender}"
                yield AgentItem("space message", name, message.content, path, message.timestamp)
        inbox = Inbox(root, self.address)
        folder = inbox.folder.relative_to(root).as_posix()
        for event in inbox.waiting():
            if event.kind == SPACE_MESSAGE and event.data.get("messageId") in told:
                continue
            text = next((event.data[key] for key in _TEXTS if event.data.get(key)), "")
            path = f"{folder}/{event.event_id}.md"
            name = sender_label(event.kind, event.data)
            yield AgentItem("inbox event", name, str(text), path, event.timestamp)
        self.notes.extend(spaces.warnings + inbox.warnings)


_SOURCES: Mapping[str, Callable[[AgentSearch], Iterator[AgentItem]]] = {
    "state": AgentSearch.state,
    "messages": AgentSearch.messages,
}
KINDS = tuple(_SOURCES)
"""What can be asked for."""


def checked(include: Iterable[str]) -> list[str]:
    """Return what to search besides memories.

    Raises:
        UsageError: something of it is not known.
    """
    wanted = list(dict.fromkeys(name.strip().casefold() for name in include if name.strip()))
    for name in wanted:
        if name not in _SOURCES:
            raise UsageError(
                f"{name[:40]!r} cannot be included", f"include {' or '.join(_SOURCES)}, or both"
            )
    return wanted
