"""The contents of a vault's files, stored in Milvus for machines that do not have the files.

Each memory has a row for every piece of its record as JSON and of its file's bytes, both split at
the size limit of a Milvus field. The same collection stores subword frequencies, so that other
machines compute the same scores as the publisher.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from memvault.errors import MemvaultError
from memvault.files import atomic
from memvault.files.plain_files import MAX_SETTING_BYTES, read
from memvault.index.local.backend import Progress
from memvault.index.local.manifest import Manifest, ManifestRow, columns_of
from memvault.index.milvus.client import EngineClient, Row
from memvault.index.protocol import MemoryRecord
from memvault.model import FileState
from memvault.named_tuple import NamedTuple
from memvault.settings.vault_settings import LANGUAGES
from memvault.store.memory_store import MemoryStore
from memvault.vault import naming, paths
from memvault.vault.document import etag as etag_of
from memvault.vault.header_links import SUPERSEDES, referenced_names

_MAX_PIECE_BYTES = 60_000
"""Bytes of a record or a file per row."""
_MAX_PIECES = 3_000
"""The maximum number of pieces read per memory, more than any file needs."""
_MAX_UID = 1 << 40
_BATCH = 100
_FREQUENCY_UID = -1
"""The uid under which the subword frequencies are stored."""
_MAX_FREQUENCY_BYTES = 4_000_000
"""The maximum size in bytes of subword frequencies read from the engine."""
_STATE_FILE = "copies.json"
RECORD_FIELDS = [name for name in MemoryRecord._fields if name not in MemoryRecord._field_defaults]
"""The stored fields of a record; the view sets the other fields."""


class StoredText(NamedTuple):
    """A memory as stored in the engine: its manifest row, and its file's bytes."""

    row: ManifestRow
    data: bytes


class UploadState(NamedTuple):
    """The last uploaded uid of a generation, and the number of memories in its frequencies."""

    generation: str = ""
    last: int = 0
    counted: int = 0


class StoredTexts:
    """The stored texts of one vault. Texts of removed memories are deleted with their terms."""

    def __init__(self, engine: EngineClient, vault: str) -> None:
        self._engine = engine
        self._vault = vault

    def has_pending(self, manifest: Manifest, generation: str, folder: Path) -> bool:
        """Return whether any texts or the subword frequencies still have to be uploaded."""
        uploaded = read_upload_state(folder / _STATE_FILE)
        frequency = manifest.blocks.document_frequency()
        return (
            uploaded.generation != generation
            or bool(manifest.uids_above(uploaded.last))
            or (frequency is not None and frequency[1] != uploaded.counted)
        )

    @staticmethod
    def uploaded_frequency(folder: Path) -> int:
        """Return the number of memories counted in the last uploaded subword frequencies."""
        return read_upload_state(folder / _STATE_FILE).counted

    def upload(
        self,
        manifest: Manifest,
        store: MemoryStore,
        generation: str,
        folder: Path,
        progress: Progress,
    ) -> None:
        """Upload the remaining texts, lowest uid first.

        ``folder`` stores the state of the upload. A file that has changed since it was indexed is
        skipped; the next refresh uploads it.
        """
        uploaded = read_upload_state(folder / _STATE_FILE)
        if uploaded.generation != generation:
            uploaded = UploadState(generation)
        pending, is_incomplete = manifest.uids_above(uploaded.last), False
        for first in range(0, len(pending), _BATCH):
            batch = pending[first : first + _BATCH]
            if not first:  # an interrupted upload may have left rows with these uids
                self._engine.delete("memories", self._vault, generation, [uid for uid, _ in batch])
            rows = {uid: list(self._rows(manifest, store, uid, path)) for uid, path in batch}
            self._put(generation, [row for memory_rows in rows.values() for row in memory_rows])
            is_incomplete = is_incomplete or any(not memory_rows for memory_rows in rows.values())
            if not is_incomplete:
                uploaded = uploaded._replace(last=batch[-1][0])
                write_upload_state(folder / _STATE_FILE, uploaded)
            if len(pending) > _BATCH:
                progress("sending texts", first + len(batch), len(pending))
        frequency = manifest.blocks.document_frequency()
        if frequency is not None and frequency[1] != uploaded.counted:
            holding, memories = frequency
            text = base64.b64encode(zlib.compress(holding)).decode()
            self._engine.delete("memories", self._vault, generation, [_FREQUENCY_UID])
            self._put(generation, _split_rows(_FREQUENCY_UID, str(memories), text))
            uploaded = uploaded._replace(counted=memories)
        write_upload_state(folder / _STATE_FILE, uploaded)

    def uids(self, generation: str, above: int = 0) -> set[int]:
        """Return the uids greater than ``above`` of the memories with stored texts."""
        rows = self._engine.generation_rows("memories", self._vault, generation, ("uid",), above)
        return {row["uid"] for row in rows}

    def manifest_rows(self, generation: str, uids: Sequence[int]) -> list[ManifestRow]:
        """Return the manifest rows of memories; incomplete ones are omitted."""
        pieces = self._pieces(generation, uids, ("uid", "piece", "record"))
        rows = [
            parse_row(uid, _join(memory_pieces, "record")) for uid, memory_pieces in pieces.items()
        ]
        return [row for row in rows if row is not None]

    def texts(self, generation: str, uids: Sequence[int]) -> dict[int, StoredText]:
        """Return the stored texts of memories; incomplete ones are omitted."""
        pieces = self._pieces(generation, uids, ("uid", "piece", "record", "text"))
        texts: dict[int, StoredText] = {}
        for uid, memory_pieces in pieces.items():
            record = _join(memory_pieces, "record")
            row = parse_row(uid, record)
            if row is not None:
                is_text = bool(json.loads(record).get("is_text"))
                texts[uid] = StoredText(row, bytes_of(_join(memory_pieces, "text"), is_text))
        return texts

    def frequency(self, generation: str) -> tuple[bytes, int] | None:
        """Return how many memories contain each subword, and the number of memories counted.

        None if the subwords were not counted, or the rows are invalid.
        """
        pieces = self._pieces(generation, [_FREQUENCY_UID], ("uid", "piece", "record", "text"))
        try:
            frequency_pieces = pieces[_FREQUENCY_UID]
            packed = base64.b64decode(_join(frequency_pieces, "text"))
            holding = zlib.decompressobj().decompress(packed, _MAX_FREQUENCY_BYTES)
            return holding, max(0, min(int(_join(frequency_pieces, "record")), _MAX_UID))
        except (KeyError, ValueError, binascii.Error, zlib.error):
            return None

    def _rows(self, manifest: Manifest, store: MemoryStore, uid: int, path: str) -> Iterator[Row]:
        record = manifest.record(uid)
        if record is None:
            return
        try:
            data, state = store.read_bytes(path)
        except MemvaultError:  # the record's problem already reports this
            data, state = b"", FileState.of(path, b"")
        if record.etag and etag_of(data) != record.etag:
            return
        text, is_text = _encode_bytes(data)
        content = {
            "record": {name: getattr(record, name) for name in RECORD_FIELDS},
            "lengths": manifest.lengths_of(uid),
            "times": [state.mtime, state.ctime],
            "is_text": is_text,
        }
        yield from _split_rows(uid, json.dumps(content), text)

    def _put(self, generation: str, rows: Iterator[Row] | list[Row]) -> None:
        common = {"vault": self._vault, "generation": generation, "place": [1.0, 0.0]}
        name = f"{self._vault}-{generation}"
        complete = [{"id": f"{name}-{row['uid']}-{row['piece']}", **common, **row} for row in rows]
        self._engine.upsert("memories", complete, lambda _: None)

    def _pieces(
        self, generation: str, uids: Sequence[int], fields: Sequence[str]
    ) -> dict[int, list[Row]]:
        pieces: dict[int, list[Row]] = defaultdict(list)
        for row in self._engine.rows("memories", self._vault, generation, uids, fields):
            if row["piece"] < _MAX_PIECES:
                pieces[row["uid"]].append(row)
        return {
            uid: sorted(memory_pieces, key=lambda row: row["piece"])
            for uid, memory_pieces in pieces.items()
        }


def _split_rows(uid: int, record: str, text: str) -> Iterator[Row]:
    pairs = zip_longest(_split_text(record), _split_text(text), fillvalue="")
    for number, (record_part, other) in enumerate(pairs):
        yield {"uid": uid, "piece": number, "record": record_part, "text": other}


def _split_text(text: str) -> Iterator[str]:
    """Split a text into pieces that fit into one field; yield at least one piece."""
    data = text.encode()
    start = 0
    while True:
        end = min(start + _MAX_PIECE_BYTES, len(data))
        while end < len(data) and data[end] & 0xC0 == 0x80:  # do not split a multi-byte character
            end -= 1
        yield data[start:end].decode()
        start = end
        if start >= len(data):
            return


def _join(pieces: Sequence[Row], field: str) -> str:
    return "".join(str(row[field]) for row in pieces)


def parse_row(uid: int, text: str) -> ManifestRow | None:
    """Parse a manifest row, or return None if a piece is missing or any value is invalid."""
    try:
        content: dict[str, Any] = json.loads(text)
        values: dict[str, Any] = content["record"]
        if values.keys() != set(RECORD_FIELDS):
            return None
        record = MemoryRecord(**{**values, "uid": uid, "tags": tuple(values["tags"])})
        mtime, ctime = map(int, content["times"])
        state = FileState(record.path, record.size, mtime, ctime, 0)
        lengths = {str(name): int(count) for name, count in content["lengths"].items()}
        row = ManifestRow(record, state, 0, lengths)
        columns_of(row)
        referenced_names(record.metadata, SUPERSEDES)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return None
    numbers = (record.size, mtime, ctime, *lengths.values())
    fits = 0 < uid < _MAX_UID and all(abs(number) < 1 << 62 for number in numbers)
    return row if fits and _is_valid(record) else None


def _is_valid(record: MemoryRecord) -> bool:
    """Return whether a record is valid for this version; others may write to the engine."""
    types = {"uid": int, "size": int, "tags": tuple, "metadata": dict}
    return (
        all(isinstance(getattr(record, name), types.get(name, str)) for name in RECORD_FIELDS)
        and all(isinstance(tag, str) for tag in record.tags)
        and (paths.is_memory_path(record.path) or paths.is_document_path(record.path))
        and naming.is_mem_id(record.mem_id)
        and record.language in ("", *LANGUAGES)
    )


def _encode_bytes(data: bytes) -> tuple[str, bool]:
    """Return bytes as text for a field, and whether that is UTF-8 rather than base64."""
    if b"\0" not in data:
        try:
            return data.decode(), True
        except UnicodeDecodeError:
            pass
    return base64.b64encode(data).decode(), False


def bytes_of(text: str, is_text: bool) -> bytes:
    """Return a file's bytes from a field's text; empty if it is invalid base64."""
    try:
        return text.encode() if is_text else base64.b64decode(text)
    except ValueError:  # invalid base64, which the etag check will catch
        return b""


def read_upload_state(file: Path) -> UploadState:
    """Read the state of an upload; a missing or invalid file means that nothing was uploaded."""
    try:
        state = json.loads(read(file, MAX_SETTING_BYTES))
        return UploadState(str(state["generation"]), int(state["last"]), int(state["counted"]))
    except (OSError, ValueError, KeyError, TypeError):
        return UploadState()


def write_upload_state(file: Path, uploaded: UploadState) -> None:
    """Write the state of an upload."""
    atomic.write(file, json.dumps(uploaded._asdict()).encode(), durable=False)
