"""Tags of memories, in their headers and in their texts: added, removed, renamed, counted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from memvault.errors import UsageError
from memvault.index.protocol import MemoryRecord
from memvault.memories.edit import modified_now, retry_on_conflict
from memvault.model import Memory, is_example
from memvault.store.memory_store import MemoryStore, WriteResult
from memvault.vault.document import header_tags
from memvault.vault.markdown import tags as tags_in

_NOT_IN_TAGS = frozenset(" #,[]{}\"'`|^")


class TagCount(NamedTuple):
    """A tag, in how many memories it or one nested in it is, and in how many it is itself."""

    tag: str
    memories: int
    own: int


def cleaned(tags: Iterable[str]) -> list[str]:
    """Return new tags as a header keeps them.

    Raises:
        UsageError: one of them cannot be a tag, or none is given.
    """
    found = [new(part) for entry in tags for part in entry.split(",")]
    if not found:
        raise UsageError("No tag is given", "name one or more")
    return list(dict.fromkeys(found))


def new(text: str) -> str:
    """Return one new tag as a header keeps it.

    Raises:
        UsageError: it cannot be a tag.
    """
    tag = named(text)
    odd = any(not char.isprintable() or char in _NOT_IN_TAGS for char in tag)
    if odd or not all(tag.split("/")):
        raise UsageError(
            f"{text!r} cannot be a tag", "a tag is one word; / nests it, as in project/active"
        )
    return tag


def named(text: str) -> str:
    """Return a tag that there may be as it is kept: also one that no new tag could be called."""
    return text.strip().removeprefix("#").strip("/")


def present(tags: Iterable[str], memory: Memory) -> list[str]:
    """Return which tags of a memory are meant: each whole, or else its parts at commas.

    Raises:
        UsageError: none is given.
    """
    held = {tag.casefold() for tag in memory.tags}
    found: list[str] = []
    for entry in tags:
        whole = named(entry)
        found += [whole] if whole.casefold() in held else map(named, entry.split(","))
    if not any(found):
        raise UsageError("No tag is given", "name one or more")
    return list(dict.fromkeys(filter(None, found)))


def counted(records: Iterable[MemoryRecord]) -> list[TagCount]:
    """Return every tag of some memories in the order of a tree, those above nested ones too.

    Tags of examples do not count.
    """
    whole: dict[str, set[int]] = defaultdict(set)
    own: dict[str, set[int]] = defaultdict(set)
    spelled: dict[str, str] = {}
    for record in records:
        for tag in () if is_example(record.metadata) else record.tags:
            parts = tag.split("/")
            for end in range(1, len(parts) + 1):
                above = "/".join(parts[:end])
                spelled.setdefault(above.casefold(), above)
                whole[above.casefold()].add(record.key)
            own[tag.casefold()].add(record.key)
    return [
        TagCount(spelled[key], len(whole[key]), len(own[key]))
        for key in sorted(whole, key=lambda key: key.split("/"))
    ]


def add(store: MemoryStore, memory: Memory, tags: Sequence[str]) -> Memory:
    """Add tags to a header; those that are there already stay as they are."""

    def added(now: Memory) -> WriteResult:
        known = {tag.casefold() for tag in now.tags}
        new = [tag for tag in tags if tag.casefold() not in known]
        held = header_tags(now.metadata)
        return _changed(store, now, [*held, *new], now.body)

    return retry_on_conflict(store, memory, added).memory


def remove(store: MemoryStore, memory: Memory, tags: Sequence[str]) -> Memory:
    """Take tags out of a header; one in the text loses its ``#`` and stays as a word."""
    gone = {tag.casefold() for tag in tags}

    def removed(now: Memory) -> WriteResult:
        held = [tag for tag in header_tags(now.metadata) if tag.casefold() not in gone]
        body = _rewritten(now.body, lambda tag: tag if tag.casefold() in gone else None, "")
        return _changed(store, now, held, body)

    return retry_on_conflict(store, memory, removed).memory


def is_under(tag: str, above: str) -> bool:
    """Say whether a tag is another one, or nested in it."""
    low = tag.casefold()
    if len(above) > len(low):  # a longer one is not folded for each tag; folding shortens none
        return False
    return low == above.casefold() or low.startswith(f"{above.casefold()}/")


def check_in_texts(memories: Iterable[Memory], old: str, new: str) -> None:
    """Make sure that a new name can stand in the texts that have the old one.

    Raises:
        UsageError: it would be another tag there.
    """
    if [match[1] for match in tags_in(f"#{new}")] == [new]:
        return
    for memory in memories:
        if any(is_under(match[1].rstrip("/"), old) for match in tags_in(memory.body)):
            raise UsageError(
                f"{new!r} cannot be a tag in a text, where {memory.path} has {old}",
                "use letters, digits, - and _, and not only digits",
            )


def rename(store: MemoryStore, memory: Memory, old: str, new: str) -> Memory:
    """Rename a tag, and those nested in it, in a memory's header and text."""

    def renamed(tag: str) -> str | None:
        nested = tag.split("/")[old.count("/") + 1 :]
        return "/".join([new, *nested]) if is_under(tag, old) else None

    def change(now: Memory) -> WriteResult:
        held = [renamed(tag) or tag for tag in header_tags(now.metadata)]
        return _changed(store, now, held, _rewritten(now.body, renamed, "#"))

    return retry_on_conflict(store, memory, change).memory


def _changed(store: MemoryStore, memory: Memory, tags: Sequence[str], body: str) -> WriteResult:
    """Write a memory with other tags in its header, under the key that it has them under."""
    unique = list({tag.casefold(): tag for tag in reversed(tags)}.values())[::-1]
    changes: Mapping[str, Any] = {}
    if unique != list(header_tags(memory.metadata)):
        key = "tag" if "tag" in memory.metadata and "tags" not in memory.metadata else "tags"
        changes = {key: unique or None}
    text = body if body != memory.body else None
    if not changes and text is None:
        return WriteResult(memory, "")
    return store.change(memory, {**changes, **modified_now(memory)}, text)


def _rewritten(body: str, renamed: Callable[[str], str | None], mark: str) -> str:
    """Return a text with its tags called otherwise, where ``renamed`` says how."""
    parts: list[str] = []
    place = 0
    for start, end, name in _new_names(body, renamed):
        parts += [body[place:start], mark, name]
        place = end
    return "".join([*parts, body[place:]])


def _new_names(body: str, renamed: Callable[[str], str | None]) -> Iterator[tuple[int, int, str]]:
    for match in tags_in(body):
        tag = match[1].rstrip("/")
        name = renamed(tag)
        if name is not None:
            yield match.start(), match.start() + 1 + len(tag), name
