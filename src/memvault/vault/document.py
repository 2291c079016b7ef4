"""Bytes to a memory and back, losing nothing."""

from __future__ import annotations

import codecs
import contextlib
import hashlib
import os
import re
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from memvault import clock
from memvault.errors import Refused
from memvault.model import FALLBACK_TYPE, FileState, Memory
from memvault.vault import paths
from memvault.vault.front_matter import (
    FrontMatter,
    dump_header,
    parse_header,
    patch_header,
    patch_mapping,
    split_front_matter,
    whole,
)
from memvault.vault.markdown import first_heading, has_conflict_markers, keep_ours, tags, unwrapped

MODIFIED = ("modified", "updated", "last_modified_at", "lastmod")
"""Keys of a header that say when its memory was changed; the first that is one counts."""
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_BLANKS = " \t\r\n"
_FEW_CONTROLS = 8
"""Control characters that any text may hold, such as a NUL that a crash left behind."""


class DecodedText(NamedTuple):
    """A file's text and how its bytes spell it, so that it can be written back."""

    text: str
    encoding: str
    bom: bytes
    problem: str = ""

    def encode(self, text: str) -> bytes:
        """Spell another text as this file is spelled; what that cannot spell is ``Refused``."""
        if self.encoding.startswith("utf"):  # half a character can only be left out
            return self.bom + text.encode(self.encoding, "replace")
        try:
            return self.bom + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            raise Refused(
                f"The file is {self.encoding}, which has no {text[error.start]!r}",
                "convert the file to UTF-8 first",
            ) from error


def etag(data: bytes) -> str:
    """Return the tag of exactly these bytes."""
    return hashlib.blake2b(data, digest_size=10).hexdigest()


def decode(data: bytes) -> DecodedText:
    """Read bytes as text: by their mark, as UTF-8, else as Windows-1252 or Latin-1."""
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            try:
                return DecodedText(data[len(bom) :].decode(encoding), encoding, bom)
            except UnicodeDecodeError:
                break
    if _is_binary(data):
        return DecodedText("", "binary", b"", "the file is binary, not text")
    try:
        return DecodedText(data.decode("utf-8"), "utf-8", b"")
    except UnicodeDecodeError:
        pass
    for encoding in ("cp1252", "latin-1"):
        try:
            return DecodedText(
                data.decode(encoding), encoding, b"", f"not UTF-8, read as {encoding}"
            )
        except UnicodeDecodeError:
            continue
    raise AssertionError("latin-1 reads any bytes")


def _is_binary(data: bytes) -> bool:
    """Say whether bytes are no text; one with a few control characters is one."""
    head = data[:65536]
    if b"\0" not in head:
        return False
    controls = sum(byte < 9 or 13 < byte < 27 for byte in head)
    mostly = controls * 2 > len(head)
    return mostly or (controls > _FEW_CONTROLS and controls * 100 > len(head))


def read_memory(data: bytes, state: FileState, known_types: frozenset[str]) -> Memory:
    """Make a memory of a file's bytes, whatever they are.

    Of a header in conflict this side counts, so that it stays the same memory.
    """
    text = decode(data)
    parts = split_front_matter(unwrapped(text.text))
    problem = text.problem
    header = keep_ours(parts.header)
    if header != parts.header or has_conflict_markers(text.text):
        problem = "it holds the marks of a conflict in git"
    metadata: dict[str, Any] = {}
    if parts.before:
        try:
            metadata = parse_header(header)
        except ValueError as error:
            problem = f"broken front matter: {error}"
            parts = FrontMatter("", "", "", text.text)
    elif text.text.startswith("---") and re.match(r"---[ \t]*\r?\n\w[\w-]*:", text.text):
        problem = problem or "broken front matter: no closing line, or it is longer than 256 KB"
    path = PurePosixPath(state.path)
    title = _title(metadata, parts.body, path)
    modified = _time(metadata, MODIFIED)
    created = _time(metadata, ("created", "date"))
    own = metadata.get("id")
    return Memory(
        path=state.path,
        mem_id=own
        if isinstance(own, str) and paths.is_mem_id(own)
        else paths.derived_id(state.path),
        title=title,
        memory_type=_type(metadata, path, known_types),
        tags=_tags(metadata, parts.body),
        created=created or clock.iso_from_ns(min(state.mtime, state.ctime)),
        modified=modified or max(clock.iso_from_ns(state.mtime), created or ""),
        metadata=metadata,
        body=parts.body,
        etag=etag(data),
        problem=problem,
        newline=parts.newline,
    )


def read_header(data: bytes) -> tuple[dict[str, Any] | None, str]:
    """Return a file's header, None where it has none, and its body, for files of any kind.

    Raises:
        ValueError: the header is broken, or the file is no text.
    """
    text = decode(data)
    if text.encoding == "binary":
        raise ValueError(text.problem)
    parts = split_front_matter(text.text)
    if not parts.before:
        return None, text.text
    return parse_header(parts.header), plain_text(parts.body).strip("\n")


def _title(metadata: Mapping[str, Any], body: str, path: PurePosixPath) -> str:
    named = metadata.get("title")
    if isinstance(named, str | int | float) and not isinstance(named, bool) and str(named).strip():
        return " ".join(str(named).split())
    heading = first_heading(body)
    stem = path.name[: -len(path.suffix)] if path.suffix else path.name
    return heading or " ".join(replace_surrogates(stem).split()) or "memory"


def replace_surrogates(name: str) -> str:
    """Return a file's name with the bytes that are no UTF-8 shown as question marks."""
    return name.encode("utf-8", "replace").decode()


def _type(metadata: Mapping[str, Any], path: PurePosixPath, known: frozenset[str]) -> str:
    named = metadata.get("memory_type")
    if isinstance(named, str) and named.strip():
        return named.strip()
    folder = path.parts[0] if len(path.parts) > 1 else ""
    return folder if folder in known else FALLBACK_TYPE


def _tags(metadata: Mapping[str, Any], body: str) -> tuple[str, ...]:
    """Return a header's tags and those that stand in its text, each once, whatever its case."""
    found = list(header_tags(metadata))
    known = {tag.casefold() for tag in found}
    for match in tags(body):
        tag = match[1].strip("/")
        if tag.casefold() not in known:
            known.add(tag.casefold())
            found.append(tag)
    return tuple(found)


def header_tags(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the tags that a header names."""
    value = metadata.get("tags", metadata.get("tag"))
    entries = re.split(r"[,\s]+", value) if isinstance(value, str) else value
    if not isinstance(entries, list):
        entries = [] if entries is None else [entries]
    named = (
        str(entry).strip().lstrip("#") for entry in entries if not isinstance(entry, dict | list)
    )
    return tuple(dict.fromkeys(tag for tag in named if tag))


def _time(metadata: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    for key in keys:
        value = metadata.get(key)
        moment = clock.parse(str(value)) if isinstance(value, str | int) else None
        if moment is not None:
            return clock.iso(moment)
    return ""


def encode_new(header: Mapping[str, Any], body: str) -> bytes:
    """Write a new memory: header, a blank line, the body, one line end.

    Errors as for ``new_header``.
    """
    return f"---\n{dump_header(header)}---\n\n{plain_text(body).strip(chr(10))}\n".encode()


def _whole(text: str) -> str:
    """Return a text with bytes that were no UTF-8 on the command line read as Windows-1252."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        with contextlib.suppress(UnicodeError):
            return os.fsencode(text).decode("cp1252", "replace")
    return text


def plain_text(text: str) -> str:
    """Return a text with line feeds for line ends and without what no text file should hold."""
    unified = _whole(text).replace("\r\n", "\n").replace("\r", "\n")
    if unified.isascii() and unified.isprintable():
        return unified
    return "".join(
        char for char in unified if char in "\n\t" or unicodedata.category(char) not in ("Cc", "Cs")
    )


def edit(data: bytes, changes: Mapping[str, Any], body: str | None) -> bytes:
    """Return a file's bytes with header keys set and, unless None, exactly another body.

    A file without a header gets one only where ``changes`` asks for keys.

    Raises:
        Refused: the file is binary, its header is broken or cannot be patched,
            a conflict in git would stay in it, or its encoding cannot spell the
            new text.
    """
    return _edited(data, changes, body, lambda old: patch_header(old.header, changes, old.newline))


def edit_entry(data: bytes, key: str, name: str, value: Any) -> bytes:
    """Return a file's bytes with one entry set of the mapping that its header has under a key.

    Errors as for ``edit``.
    """
    return _edited(
        data,
        {key: {name: value}},
        None,
        lambda old: patch_mapping(old.header, key, name, value, old.newline),
    )


def _edited(
    data: bytes, changes: Mapping[str, Any], body: str | None, patched: Callable[[FrontMatter], str]
) -> bytes:
    text = decode(data)
    if text.encoding == "binary":
        raise Refused("The file is binary, not text", "edit it with the program that made it")
    parts = split_front_matter(text.text)
    if keep_ours(parts.header) != parts.header or (
        has_conflict_markers(text.text)
        and (
            unwrapped(text.text) != text.text
            or has_conflict_markers(parts.body if body is None else body)
        )
    ):
        raise Refused(
            "The file holds the marks of a conflict in git",
            "choose what is to stay in an editor, and take the marks away",
        )
    if parts.before:
        try:
            parts = parts._replace(header=patched(parts))
        except ValueError as error:
            raise Refused(
                f"The front matter is broken ({error})", "fix it in an editor first"
            ) from error
    elif given := {key: value for key, value in changes.items() if value is not None}:
        line = parts.newline
        header = dump_header(given, line)
        parts = FrontMatter(f"---{line}", header, f"---{line}{line}", parts.body)
    if body is not None:
        parts = parts._replace(body=body)
    edited = "".join(parts)
    fresh = text.encode(edited)
    if decode(fresh).text != whole(edited):
        raise Refused(
            "The file would be read as something else after this edit",
            "convert the file to UTF-8 without control characters first",
        )
    return fresh
