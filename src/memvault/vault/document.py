"""Convert a file's bytes to a memory and back without loss."""

from __future__ import annotations

import contextlib
import os
import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any

from memvault.errors import MemvaultError, Refused
from memvault.files.plain_files import digest_of
from memvault.lazy_pattern import lazy_pattern
from memvault.named_tuple import NamedTuple
from memvault.sanitize import replace_surrogates
from memvault.vault import header_dates, naming
from memvault.vault.decoding import AUTO, DecodedText, decode
from memvault.vault.front_matter import (
    FrontMatter,
    close_front_matter,
    dump_header,
    read_header,
    split_front_matter,
)
from memvault.vault.header_yaml import TEXT_KEYS, UnreadLines
from memvault.vault.markdown import has_conflict_markers, keep_ours, unwrapped


def etag(data: bytes) -> str:
    """Return the etag of these bytes, a hash."""
    return digest_of(data, 10).hex()


_BROKEN = "broken front matter"
_UNCLOSED = lazy_pattern(r"---[ \t]*\r?\n\w[\w-]*:")


class Document(NamedTuple):
    """A file's text, split into its header and body.

    ``header`` is None if there is none, or if it is unusable for the reason in ``problem``; the
    body is then the whole text. ``unread`` contains the header lines that are not valid YAML.
    """

    decoded: DecodedText
    parts: FrontMatter
    header: dict[str, Any] | None
    problem: str = ""
    unread: tuple[UnreadLines, ...] = ()

    @classmethod
    def parse(cls, data: bytes, ours: bool = False, encoding: str = AUTO) -> Document:
        """Parse the bytes of any file; ``encoding`` is passed to ``decode``.

        With ``ours``, our side of a git conflict in the header is used; otherwise such a header is
        treated as broken.
        """
        decoded = decode(data, encoding)
        parts = split_front_matter(unwrapped(decoded.text) if ours else decoded.text)
        header, problem = None, decoded.problem if decoded.encoding == "binary" else ""
        unread: tuple[UnreadLines, ...] = ()
        if parts.before:
            try:
                parsed = read_header(keep_ours(parts.header) if ours else parts.header)
                header, unread = {**parsed.values}, parsed.unread
            except ValueError as error:
                problem = f"{_BROKEN}: {error}"
                parts = FrontMatter("", "", "", decoded.text)
        elif _UNCLOSED.match(decoded.text):
            problem = f"{_BROKEN}: no closing line, or it is longer than 256 KB"
        return cls(decoded, parts, header, problem, unread)

    @property
    def strict_problem(self) -> str:
        """The problem with the header, or else with its first invalid line; empty if none."""
        if self.problem or not self.unread:
            return self.problem
        return f"{_BROKEN}: line {self.unread[0].line}: {self.unread[0].reason}"

    @property
    def text(self) -> str:
        """The body with LF line endings, without control characters and surrounding blank lines."""
        return plain_text(self.parts.body).strip("\n")

    @property
    def in_conflict(self) -> bool:
        """Whether the file has git conflict markers."""
        ours = keep_ours(self.parts.header)
        return ours != self.parts.header or has_conflict_markers(self.decoded.text)


_ID_LINE = lazy_pattern(
    r"^[\"']?id[\"']?[ \t]*:(?:[ \t]+([a-z][a-z0-9]*+-[a-z0-9-]*+)[ \t]*$)?", re.MULTILINE
)
"""Matches the header line with the id, and the id itself if it is in plain form."""


def given_id(text: str) -> str:
    """Return the id in a document's header; empty if there is none or it is invalid."""
    end = text.find("\n---", 3) if text.startswith("---") else -1
    if end < 0 or (line := _ID_LINE.search(text, 3, end)) is None:  # Most files have no id.
        return ""
    if (mem_id := line[1]) is None:  # The id is not in plain form.
        try:
            mem_id = read_header(split_front_matter(text).header).values.get("id")
        except ValueError:
            return ""
    return mem_id if isinstance(mem_id, str) and naming.is_mem_id(mem_id) else ""


def body_of(data: bytes, encoding: str = AUTO) -> str:
    """Return a file's body, without parsing its header."""
    return split_front_matter(decode(data, encoding).text).body


def encode_new(header: Mapping[str, Any], body: str, base: str = "") -> bytes:
    """Encode a new memory: header, blank line, body and a final newline.

    ``base`` contains header lines, such as a template's, that keep their order and comments.
    ``header`` replaces their values, and its other keys precede them. If a line cannot be replaced,
    ``base`` is ignored.

    Raises:
        Refused: the header would be too long or have too many values to be read back.
    """
    text = f"{plain_text(body).strip(chr(10))}\n"
    known = read_header(base).values if base else {}
    added = {key: value for key, value in header.items() if key not in known}
    data = f"---\n{dump_header(added)}{base}---\n\n{text}".encode()
    changes = {key: header[key] for key in known if key in header and header[key] != known[key]}
    if not changes:
        return data
    with contextlib.suppress(Refused):
        return edit(data, changes, None)
    return encode_new(header, body)


def _decode_argument(text: str) -> str:
    """Return a command-line argument with its non-UTF-8 bytes decoded as Windows-1252."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        with contextlib.suppress(UnicodeError):
            return os.fsencode(text).decode("cp1252", "replace")
    return text


def with_line_feeds(text: str) -> str:
    """Return text with LF line endings."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def plain_text(text: str) -> str:
    """Return text with LF line endings and without control characters and lone surrogates."""
    unified = with_line_feeds(_decode_argument(text))
    if unified.isascii() and unified.isprintable():
        return unified
    return "".join(
        char for char in unified if char in "\n\t" or unicodedata.category(char) not in ("Cc", "Cs")
    )


def edit(data: bytes, changes: Mapping[str, Any], body: str | None, encoding: str = AUTO) -> bytes:
    """Return a file's bytes with header keys set and, if ``body`` is not None, the body replaced.

    A file without a header gets one only if ``changes`` has values to set. The file's encoding is
    kept; ``encoding`` is passed to ``decode``.

    Raises:
        Refused: the file is binary, its header is broken or cannot be patched, git conflict markers
        would remain in it, or its encoding cannot represent the new text.
    """
    from memvault.vault.header_patch import patch_header

    def patched(old: FrontMatter) -> str:
        return patch_header(old.header, changes, old.newline)

    return _edit(data, changes, body, patched, encoding)


def with_closing_line(data: bytes) -> bytes:
    """Return a file's bytes, with a missing closing line of its header added below the last key."""
    text = decode(data)
    parts = close_front_matter(text.text) if _UNCLOSED.match(text.text) else None
    if parts is None or split_front_matter(text.text).before:
        return data
    closed = text.encode("".join(parts))
    header = Document.parse(closed).header or {}
    is_header = any(key in TEXT_KEYS or header_dates.is_time_key(key) for key in header)
    return closed if is_header else data


def with_lines(data: bytes, header: Mapping[str, Any]) -> bytes | None:
    """Return a file's bytes with keys added to a header that ``edit`` refuses to change.

    The keys become the header's first lines, or the entire header is rewritten from its values.
    Returns None if the file has no header.
    """
    text = decode(data)
    parts = split_front_matter(text.text)
    if not parts.before:
        return None
    with contextlib.suppress(MemvaultError, ValueError):
        lines = dump_header(header, parts.newline)
        added = text.encode("".join(parts._replace(header=lines + parts.header)))
        read = Document.parse(added, ours=True).header or {}
        if all(key in read for key in header):
            return added
        file_values = read_header(parts.header).values
        rewritten = dump_header({**file_values, **header}, parts.newline)
        return text.encode("".join(parts._replace(header=rewritten)))
    return None


def edit_entry(data: bytes, key: str, name: str, value: Any) -> bytes:
    """Return a file's bytes with one entry set in the mapping at a header key.

    Raises:
        Refused: the file cannot be edited (see ``edit``).
    """
    from memvault.vault.header_patch import patch_mapping

    return _edit(
        data,
        {key: {name: value}},
        None,
        lambda old: patch_mapping(old.header, key, name, value, old.newline),
    )


def _edit(
    data: bytes,
    changes: Mapping[str, Any],
    body: str | None,
    patched: Callable[[FrontMatter], str],
    encoding: str = AUTO,
) -> bytes:
    text = decode(data, encoding)
    if text.encoding == "binary":
        raise Refused("The file is binary, not text", "edit it with the program that created it")
    parts = split_front_matter(text.text)
    if keep_ours(parts.header) != parts.header or (
        has_conflict_markers(text.text)
        and (
            unwrapped(text.text) != text.text
            or has_conflict_markers(parts.body if body is None else body)
        )
    ):
        raise Refused(
            "The file contains git conflict markers",
            "resolve the conflict in an editor and delete the markers",
        )
    if parts.before:
        try:
            parts = parts._replace(header=patched(parts))
        except ValueError as error:
            raise Refused(
                f"The front matter is broken ({error})", "fix it in an editor first"
            ) from error
    elif values := {key: value for key, value in changes.items() if value is not None}:
        line = parts.newline
        header = dump_header(values, line)
        parts = FrontMatter(f"---{line}", header, f"---{line}{line}", parts.body)
    if body is not None:
        parts = parts._replace(body=body)
    edited = "".join(parts)
    fresh = text.encode(edited)
    is_kept = text.encoding.startswith("utf") or text.encode(text.text) == data
    if not is_kept or decode(fresh, encoding).text != replace_surrogates(edited):
        raise Refused(
            "The edited file would be read with another encoding",
            "first convert the file to UTF-8 without control characters",
        )
    return fresh
