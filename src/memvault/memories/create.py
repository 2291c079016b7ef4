"""Create memories: check titles and tags, and build headers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from memvault import clock
from memvault.arguments.parameters import split_tags
from memvault.errors import UsageError
from memvault.index.text.sentences import sentence_ends
from memvault.lazy_pattern import lazy_pattern
from memvault.model import FALLBACK_TYPE, Memory
from memvault.named_tuple import NamedTuple
from memvault.secrets.detector import BUILTIN, SecretDetector
from memvault.store.memory_store import MemoryStore
from memvault.vault import naming
from memvault.vault.document import encode_new, plain_text

if TYPE_CHECKING:
    from memvault.repository.code_check import CodeCitations

_MAX_TITLE = 60
_LIST_MARKER = lazy_pattern(r"^[\s>#*+-]+|^\s*\d+[.)]\s+")
_KEY = lazy_pattern(r"[^\W\d][\w-]{0,59}")
_RESERVED_KEYS = frozenset(
    "id memid title type memorytype created modified path filepath etag supersedes secrets".split()
)


class RenderedTemplate(NamedTuple):
    """A filled-in template: its text, type, tags and the other keys of its header.

    ``base`` contains the header's lines with comments, except keys that the vault sets.
    """

    body: str
    memory_type: str
    tags: list[str]
    header: dict[str, Any]
    base: str = ""


def is_key(key: str) -> bool:
    """Return whether a string is valid as a header key."""
    return _KEY.fullmatch(key) is not None


def is_reserved(key: str) -> bool:
    """Return whether only the vault may set a header key, ignoring case, _ and -."""
    return key.casefold().replace("_", "").replace("-", "") in _RESERVED_KEYS


def add(
    store: MemoryStore,
    title: str,
    content: str,
    memory_type: str,
    header: Mapping[str, Any],
    citations: CodeCitations | None = None,
    template: RenderedTemplate | None = None,
) -> Memory:
    """Write a new memory with a new memId; ``header`` is inserted between the type and the times.

    ``citations`` finds the code that the text mentions. The header of ``template`` is added.

    Raises:
        UsageError: the title is empty, or the name of the type is invalid.
    """
    name = clean_title(title)
    kind = naming.normal_type(memory_type) if memory_type.strip() else FALLBACK_TYPE
    identity = _identity(store, name, kind)
    times = dict.fromkeys(("created", "modified"), clock.iso())
    cites: dict[str, Any] = {}
    if citations is not None:
        from memvault.memories.cited_code import new_cites

        cites = new_cites(citations, f"{name}\n{content}", kind)
    base = ""
    if template is not None:
        tags = clean_tags([*template.tags, *header.get("tags", ())])
        header, base = {**template.header, **header, "tags": tags}, template.base
    return store.add(kind, name, {**identity, **header, **cites, **times}, content, base)


def _identity(store: MemoryStore, title: str, kind: str) -> dict[str, Any]:
    return {
        "id": naming.new_id(store.settings.detector.masked(title)),
        "memory_type": kind,
        "tags": [],
    }


def new_file(store: MemoryStore, title: str, path: str = "") -> tuple[str, bytes]:
    """Return the path and bytes of a new memory that has only a title, without writing it.

    By default, the path is the one that ``add`` would choose first.

    Raises:
        UsageError: the title is empty.
    """
    name = clean_title(title)
    path = path or f"{FALLBACK_TYPE}/{naming.slug(store.settings.detector.masked(name))}.md"
    folder = path.partition("/")[0]
    kind = folder if folder in store.known_types else FALLBACK_TYPE
    times = dict.fromkeys(("created", "modified"), clock.iso())
    header = {**_identity(store, name, kind), **times}
    return path, encode_new(header, f"# {name}")


def clean_title(title: str) -> str:
    """Return a title on one line, without unprintable characters.

    Raises:
        UsageError: nothing remains of the title.
    """
    plain = plain_text(title)
    name = " ".join("".join(char for char in plain if char.isprintable() or char.isspace()).split())
    if not name:
        raise UsageError("The title is empty", "describe the memory in a few words")
    return name


def clean_tags(tags: list[str]) -> list[str]:
    """Return tags without leading hash signs and duplicates; white space becomes hyphens.

    An entry with several tags is split.

    Raises:
        UsageError: a level of a nested tag is empty.
    """
    parts = [part for tag in tags for part in split_tags(tag)]
    cleaned = ("-".join(tag.lstrip("#").split()) for tag in parts)
    return list(dict.fromkeys(nested(tag) for tag in cleaned if tag))


def nested(tag: str) -> str:
    """Return a tag without slashes around it.

    Raises:
        UsageError: a level of the tag is empty.
    """
    stripped = tag.strip("/")
    if not all(stripped.split("/")):
        raise UsageError(
            f"{tag!r} is not a valid tag",
            "use one word, with / between levels, such as project/active",
        )
    return stripped


def title_of(text: str, max_length: int = _MAX_TITLE, detector: SecretDetector = BUILTIN) -> str:
    """Return a title made of the first words of a body.

    Secrets are masked before truncation, because a truncated secret would not be detected.

    Raises:
        UsageError: the text is empty.
    """
    masked = detector.masked(plain_text(text))
    lines = [line for line in masked.splitlines() if any(map(str.isalnum, line))] or masked.split()
    if not lines:
        raise UsageError("The text is empty", "pass the text to store")
    first = _LIST_MARKER.sub("", lines[0]).strip()
    title = clean_title(first[: next(sentence_ends(first), None)] or lines[0])
    if len(title) > max_length:
        short = title[: max_length + 1].rpartition(" ")[0]
        title = short if len(short) > max_length // 3 else title[:max_length]
    return title.rstrip(" .,;:") or title


def metadata_header(metadata: Mapping[str, Any], area: str | None) -> dict[str, Any]:
    """Return the header entries for a caller's metadata and area.

    Raises:
        UsageError: a key is invalid or reserved, a value is not a string, a number, a boolean or a
        list of these, or two different areas are given.
    """
    header: dict[str, Any] = {}
    for key, value in metadata.items():
        if not is_key(key):
            raise UsageError(f"{key!r} is not a valid metadata key", "use letters, digits, - and _")
        if is_reserved(key):
            raise UsageError(f"{key!r} is set by the vault", "choose another key")
        entries = value if isinstance(value, list) else [value]
        for entry in entries:
            if isinstance(entry, str | int) or (isinstance(entry, float) and math.isfinite(entry)):
                continue
            raise UsageError(
                f"The value of {key!r} must be a string, a number, true, false or a list of these",
                "use a string or several keys instead of nested values",
            )
        header[key] = clean_tags([str(tag) for tag in entries]) if key == "tags" else value
    if area and area.strip():
        if header.get("area", area) != area:
            raise UsageError("The area is set twice, to different values", "set it once")
        header["area"] = area.strip()
    return header
