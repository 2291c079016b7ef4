"""Add, remove, rename and count tags in memories' headers and bodies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from memvault.arguments.parameters import split_tags
from memvault.errors import Refused, UsageError
from memvault.index.protocol import MemoryRecord, by_time
from memvault.memories.edit import modified_now, retry_on_conflict
from memvault.model import Memory, is_example
from memvault.named_tuple import NamedTuple
from memvault.store.memory_store import MemoryStore, WriteResult
from memvault.vault.markdown import tags as tags_in
from memvault.vault.memory_file import tag_items, tag_of_item
from memvault.vault.names import normalize, tag_key

_NOT_IN_TAGS = frozenset(" #,[]{}\"'`|^")


class TagCount(NamedTuple):
    """A tag, the number of memories with it or a nested tag, and the number with the tag itself."""

    tag: str
    memories: int
    own: int


def parse_new_tags(tags: Iterable[str]) -> list[str]:
    """Return new tags in the form stored in headers.

    Raises:
        UsageError: a tag is invalid, or none is given.
    """
    cleaned_tags = [validate_tag(part) for entry in tags for part in split_tags(entry)]
    if not cleaned_tags:
        raise UsageError("No tag is given", "pass at least one tag")
    return list(dict.fromkeys(cleaned_tags))


def validate_tag(text: str) -> str:
    """Return a new tag in the form stored in headers.

    Raises:
        UsageError: the tag is invalid.
    """
    tag = parse_tag(text)
    odd = any(not char.isprintable() or char in _NOT_IN_TAGS for char in tag)
    if odd or not all(tag.split("/")):
        raise UsageError(
            f"{text!r} is not a valid tag",
            "use one word, with / between levels, such as project/active",
        )
    return tag


def parse_tag(text: str) -> str:
    """Return a tag in its stored form, even if it would be invalid as a new tag."""
    return normalize("NFC", text.strip().removeprefix("#").strip("/"))


def parse_existing_tags(tags: Iterable[str], memory: Memory) -> list[str]:
    """Return the given tags of a memory in their stored form.

    Text is split with ``split_tags``, unless the memory has the whole text as one tag.

    Raises:
        UsageError: no tag is given.
    """
    existing = {tag_key(tag) for tag in memory.tags}
    parsed: list[str] = []
    for entry in tags:
        whole = parse_tag(entry)
        parsed += [whole] if tag_key(whole) in existing else map(parse_tag, split_tags(entry))
    if not any(parsed):
        raise UsageError("No tag is given", "pass at least one tag")
    return list(dict.fromkeys(filter(None, parsed)))


def counted(records: Iterable[MemoryRecord], by_name: bool = False) -> list[TagCount]:
    """Return the counts of all tags of the records, each followed by the tags nested in it.

    Tags at the same level are ordered by count, highest first, or by name. The parents of nested
    tags are included. Tags of examples are not counted. A tag is spelled as in the last modified
    memory that has it.
    """
    with_nested: Counter[str] = Counter()
    exact: Counter[str] = Counter()
    latest: dict[str, tuple[tuple[str, str], str]] = {}
    for record in records:
        if is_example(record.metadata):
            continue
        spelled: dict[str, str] = {}
        for tag in record.tags:
            for parent in _levels(tag):
                spelled.setdefault(tag_key(parent), parent)
        with_nested.update(spelled.keys())
        exact.update({tag_key(tag) for tag in record.tags})
        time = by_time(record)
        for key, parent in spelled.items():
            if key not in latest or time > latest[key][0]:
                latest[key] = time, parent

    def position(key: str) -> list[tuple[int, str]]:
        """Return a sort key: the count and the name of each level of a tag."""
        return [(0 if by_name else -with_nested[level], level) for level in _levels(key)]

    return [
        TagCount(latest[key][1], with_nested[key], exact[key])
        for key in sorted(with_nested, key=position)
    ]


def _levels(tag: str) -> Iterator[str]:
    """Yield a tag's parents, outermost first, and then the tag."""
    parts = tag.split("/")
    return ("/".join(parts[:depth]) for depth in range(1, len(parts) + 1))


def add(store: MemoryStore, memory: Memory, tags: Sequence[str]) -> Memory:
    """Add tags to a memory's header; existing tags are not changed."""

    def added(now: Memory) -> WriteResult:
        existing = {tag_key(tag) for tag in now.tags}
        new = [tag for tag in tags if tag_key(tag) not in existing]
        return _write_tags(store, now, [*tag_items(now.metadata), *new], now.body)

    return retry_on_conflict(store, memory, added).memory


def remove(store: MemoryStore, memory: Memory, tags: Sequence[str]) -> Memory:
    """Remove tags from a memory: from its header, and by deleting their ``#`` in its text."""
    removed_tags = {tag_key(tag) for tag in tags}

    def removed(now: Memory) -> WriteResult:
        remaining = [
            item
            for item in tag_items(now.metadata)
            if tag_key(tag_of_item(item)) not in removed_tags
        ]
        body = _rename_in_text(
            now.body, lambda tag: tag if tag_key(tag) in removed_tags else None, ""
        )
        return _write_tags(store, now, remaining, body)

    return retry_on_conflict(store, memory, removed).memory


def is_under(tag: str, above: str) -> bool:
    """Return whether a tag equals another one or is nested in it."""
    low, outer = tag_key(tag), tag_key(above)
    return low == outer or low.startswith(f"{outer}/")


def check_in_texts(memories: Iterable[Memory], old: str, new: str) -> None:
    """Check that a new tag name is valid in every memory that contains the old one.

    Raises:
        UsageError: the new name would be parsed as another tag there.
    """
    if [match[1] for match in tags_in(f"#{new}")] == [new]:
        return
    for memory in memories:
        if any(is_under(match[1].rstrip("/"), old) for match in tags_in(memory.body)):
            raise UsageError(
                f"{new!r} is not valid as an inline tag, but {memory.path} contains #{old}",
                "use letters, digits, - and _, including at least one non-digit",
            )


def rename(
    store: MemoryStore, memory: Memory, old: str, new: str, only_check: bool = False
) -> None:
    """Rename a tag, and the tags nested in it, in the header and text of a memory.

    With ``only_check``, nothing is written.

    Raises:
        Refused: the header cannot be patched; with ``only_check`` the message contains the path.
    """

    def renamed(tag: str) -> str | None:
        nested = tag.split("/")[old.count("/") + 1 :]
        return "/".join([new, *nested]) if is_under(tag, old) else None

    def change(now: Memory) -> WriteResult:
        items = [renamed(tag_of_item(item)) or item for item in tag_items(now.metadata)]
        text = _rename_in_text(now.body, renamed, "#")
        if only_check:
            store.check_change(now, *_tag_changes(now, items, text))
            return WriteResult(now, "")
        return _write_tags(store, now, items, text)

    retry_on_conflict(store, memory, change)


def _write_tags(store: MemoryStore, memory: Memory, items: Sequence[Any], body: str) -> WriteResult:
    """Write a memory with new tags and a new body, if either has changed."""
    changes, text = _tag_changes(memory, items, body)
    if not changes and text is None:
        return WriteResult(memory, "")
    return store.change(memory, changes, text)


def _tag_changes(
    memory: Memory, items: Sequence[Any], body: str
) -> tuple[dict[str, Any], str | None]:
    """Return the header changes, under the header's own key for tags, and the new text.

    Items that are not tags stay; duplicate tags are reduced to the first.
    """
    seen: set[str] = set()
    unique = []
    for item in items:
        tag = tag_key(tag_of_item(item))
        if not tag or tag not in seen:
            unique.append(item)
            seen.add(tag)
    changes: dict[str, Any] = {}
    if unique != tag_items(memory.metadata):
        key = "tag" if "tag" in memory.metadata and "tags" not in memory.metadata else "tags"
        current = memory.metadata.get(key)
        if isinstance(current, dict) and set(current.values()) == {None}:  # a set in YAML
            raise Refused(
                f"The tags in the header of {memory.path} are a set, not a list",
                "write them as a list, [one, two]",
            )
        changes = {key: unique or None}
    text = body if body != memory.body else None
    if not changes and text is None:
        return {}, None
    return {**changes, **modified_now(memory)}, text


def _rename_in_text(body: str, renamed: Callable[[str], str | None], mark: str) -> str:
    """Return text with its tags renamed; ``renamed`` returns None to keep a tag."""
    parts: list[str] = []
    position = 0
    for start, end, name in _renames_in_text(body, renamed):
        parts += [body[position:start], mark, name]
        position = end
    return "".join([*parts, body[position:]])


def _renames_in_text(
    body: str, renamed: Callable[[str], str | None]
) -> Iterator[tuple[int, int, str]]:
    for match in tags_in(body):
        tag = match[1].rstrip("/")
        name = renamed(tag)
        if name is not None:
            yield match.start(), match.start() + 1 + len(tag), name
