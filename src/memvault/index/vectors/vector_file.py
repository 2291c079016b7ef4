"""Unit vectors in a flat file, the hashes of their texts, and a card with their number.

``rows-N.i8`` contains the vectors (``UnitRows``), and ``hashes-N.u64`` contains the hashes of their
texts. If the embedder returns token vectors, ``tokens-N.bin`` contains the codes of each text's
tokens (``embedding.token_vectors``), and ``ends-N.u64`` contains the cumulative number of codes
after each text. Files are append-only; bytes past the counts in ``card.json`` are ignored.
``replace`` writes files with the next ``N``, and then a card that refers to them. The card contains
checksums of the counted bytes, so a process killed while appending loses only the new rows. It also
contains the states of the files as written, so unchanged files need not be read again to verify
them.
"""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar
from weakref import WeakValueDictionary

import numpy as np

from memvault.files import atomic, plain_files
from memvault.files.plain_files import MAX_SETTING_BYTES, FileStamp, RandomAccessFile, stamp_of
from memvault.index.embedding.arrays import Codes, Hashes, Integers, Matrix
from memvault.index.embedding.embedder import Calibration
from memvault.index.protocol import VectorsCorrupted
from memvault.index.text.passages import text_hashes
from memvault.named_tuple import NamedTuple

Value = TypeVar("Value")

FORMAT = 3
"""Incremented when the storage format of vectors or token codes changes."""
_HASH_BYTES = 8
_LENGTH_BYTES = 4
_LARGEST = 127
_BLOCK = 512
"""Rows to convert to floats in one step, so that they stay in the processor's cache."""


class UnitRows(NamedTuple):
    """Unit vectors as 8-bit integers, a quarter of the size of 32-bit floats.

    A component is a multiple of the vector's largest component / 127, so the cosine of two texts
    differs by less than 0.01 from the exact value. ``stored`` has the shape (rows, 4 + dimension):
    a little-endian 32-bit float with the length of the integer vector, then the integers. Dividing
    them by the length gives the unit vector.
    """

    stored: Codes

    @classmethod
    def encode(cls, vectors: Matrix) -> Self:
        """Encode unit vectors, shape (rows, dimension); zero vectors stay zero."""
        rows, dimension = vectors.shape
        largest = np.abs(vectors).max(axis=1, keepdims=True, initial=1e-12)
        integers = np.rint(vectors * (_LARGEST / largest)).astype(np.int8)
        lengths = np.linalg.norm(integers.astype(np.float32), axis=1)
        stored = np.empty((rows, _LENGTH_BYTES + dimension), np.uint8)
        stored[:, :_LENGTH_BYTES] = (
            np.maximum(lengths, 1.0).astype("<f4").view(np.uint8).reshape(rows, _LENGTH_BYTES)
        )
        stored[:, _LENGTH_BYTES:] = integers.view(np.uint8)
        return cls(stored)

    @property
    def size(self) -> int:
        """The number of vectors."""
        return len(self.stored)

    def select(self, selection: Any) -> UnitRows:
        """Select vectors with a NumPy index, without decoding them."""
        return UnitRows(self.stored[selection])

    def decode(self, selection: Any) -> Matrix:
        """Decode the vectors selected by a NumPy index, shape (selected, dimension)."""
        selected = self.stored[selection]
        vectors: Matrix = _integers(selected).astype(np.float32) / _lengths(selected)[:, None]
        return vectors

    def cosines(self, query: Matrix) -> Matrix:
        """Return the cosine of each vector to a unit vector, shape (dimension,)."""
        products = np.empty(self.size, np.float32)
        integers = _integers(self.stored)
        for start in range(0, self.size, _BLOCK):
            block = integers[start : start + _BLOCK].astype(np.float32)
            np.matmul(block, query, out=products[start : start + _BLOCK])
        cosines: Matrix = products / _lengths(self.stored)
        return cosines


def _integers(stored: Codes) -> Any:
    return stored[:, _LENGTH_BYTES:].view(np.int8)


def _lengths(stored: Codes) -> Matrix:
    lengths: Matrix = np.ascontiguousarray(stored[:, :_LENGTH_BYTES]).view("<f4")[:, 0]
    return lengths


Rows = tuple[UnitRows, Hashes, Hashes]
"""Vectors, the hashes of their texts, and the ends of the texts' tokens (empty without tokens)."""


class VectorCard(NamedTuple):
    """The embedder that computed the vectors, and their number.

    ``token_width`` is the number of bytes of a token's code, or 0 if there are no codes, and
    ``tokens`` is the number of codes. Vectors of another ``format`` are not used.
    """

    embedder: str
    version: str
    dimension: int
    rows: int = 0
    token_width: int = 0
    tokens: int = 0
    checksums: tuple[int, ...] = ()
    states: tuple[FileStamp, ...] = ()
    generation: int = 0
    calibrated: int = 0
    slope: float = 0.0
    midpoint: float = 0.0
    separation: float = 0.0
    format: int = FORMAT

    @property
    def row_width(self) -> int:
        """The number of bytes of a vector."""
        return _LENGTH_BYTES + self.dimension

    @property
    def calibration(self) -> Calibration | None:
        """Return the calibration of the cosines, or None if this version has not computed it."""
        if not self.calibrated:
            return None
        from memvault.index.embedding import calibrate

        if self.calibrated != calibrate.anchor_targets().version:
            return None
        return Calibration(self.slope, self.midpoint, self.separation)


def hashes_of(texts: Sequence[str]) -> Hashes:
    """Return a 64-bit hash of each text."""
    return np.array(text_hashes(texts), np.uint64)


class TokenCodes(NamedTuple):
    """The codes of all tokens in a file; without a ``file``, there are none.

    They are not memory-mapped: reading the few that a search needs is faster than slicing a map,
    whose pages would count as memory of the process.
    """

    width: int
    file: RandomAccessFile | None = None

    def read(self, starts: Integers, ends: Integers) -> Codes:
        """Return the codes of ranges of tokens, one range after the other, shape (tokens, width).

        Raises:
            VectorsCorrupted: if the file has been truncated.
        """
        codes = np.empty((int((ends - starts).sum()), self.width), np.uint8)
        if self.file is None or not codes.size:
            return codes
        filled, first = codes.data.cast("B"), 0
        ranges = zip((starts * self.width).tolist(), (ends * self.width).tolist(), strict=True)
        try:
            for start, end in ranges:
                last = first + end - start
                filled[first:last] = self.file.read(start, end - start)
                first = last
        except (OSError, ValueError) as error:
            raise VectorsCorrupted(str(error)) from error
        return codes


class VectorMap:
    """The memory-mapped rows, the hashes, and the token codes of one version of the files.

    All users of a version in a process share one map, which is closed when the last of them
    releases it.
    """

    _shared: ClassVar[WeakValueDictionary[tuple[object, ...], VectorMap]] = WeakValueDictionary()
    _sharing: ClassVar = threading.Lock()

    def __init__(self) -> None:
        self._rows: Rows | None = None
        self._tokens: TokenCodes | None = None
        self._reading = threading.Lock()

    @classmethod
    def of(cls, folder: Path, card: VectorCard) -> VectorMap:
        """Return the map of a version; the files are opened when it is first read."""
        sizes = card.dimension, card.rows, card.token_width, card.tokens
        version = (folder, *sizes, card.generation, card.checksums, card.states)
        with cls._sharing:
            return cls._shared.setdefault(version, VectorMap())

    def read(self, files: Sequence[Path], card: VectorCard) -> Rows:
        """Return the rows, hashes and ends; ``files`` must belong to the version.

        Raises:
            OSError: if the files cannot be opened.
            VectorsCorrupted: if the files are shorter than the card's counts.
        """
        with self._reading:
            if self._rows is None:
                self._rows = _map_rows(files, card)
            return self._rows

    def read_tokens(self, file: Path, card: VectorCard) -> TokenCodes:
        """Return the codes of all tokens; raises OSError or VectorsCorrupted."""
        with self._reading:
            if self._tokens is None:
                self._tokens = _open_tokens(file, card)
            return self._tokens


def _map_rows(files: Sequence[Path], card: VectorCard) -> Rows:
    rows = UnitRows(_map(files[0], np.uint8, (card.rows, card.row_width)))
    if not card.rows:  # an empty store might have no files
        return rows, np.zeros(0, np.uint64), np.zeros(0, np.uint64)
    hashes = np.fromfile(files[1], np.uint64, card.rows)
    ends = np.fromfile(files[2], np.uint64, card.rows) if card.token_width else hashes[:0]
    if len(hashes) != card.rows or len(ends) != card.rows * bool(card.token_width):
        raise VectorsCorrupted("a column is too short")
    return rows, hashes, ends


def _open_tokens(file: Path, card: VectorCard) -> TokenCodes:
    if not card.tokens:  # an empty store might have no files
        return TokenCodes(card.token_width)
    codes = RandomAccessFile(file)
    if codes.size < card.tokens * card.token_width:
        raise VectorsCorrupted("the token codes are too short")
    return TokenCodes(card.token_width, codes)


def _map(file: Path, kind: Any, shape: tuple[int, int]) -> Any:
    """Return a memory-mapped array; an empty array is not mapped, because it may have no file."""
    if not all(shape):
        return np.zeros(shape, kind)
    try:
        return np.memmap(file, kind, mode="r", shape=shape)
    except ValueError as error:  # the file was truncated after the card was read
        raise VectorsCorrupted(str(error)) from error


class VectorFile:
    """Vectors and the hashes of their texts, with their card."""

    def __init__(self, folder: Path, card: VectorCard) -> None:
        self.folder = folder
        self.card = card
        self._map = card, VectorMap.of(folder, card)

    @classmethod
    def open(cls, folder: Path) -> Self | None:
        """Open the vectors in a folder, or return None if there are no usable vectors.

        Files whose states differ from the card are read completely and verified by their checksums.
        If another process has just replaced the files, the new ones are opened.
        """
        file = cls._from_card(folder)
        if file is None or file.is_usable:
            return file
        reopened = cls._from_card(folder)
        if reopened is None or reopened.card == file.card or not reopened.is_usable:
            return None
        return reopened

    @classmethod
    def _from_card(cls, folder: Path) -> Self | None:
        """Return the vectors that a folder's card describes, without verifying them."""
        try:
            entries: dict[str, Any] = json.loads(
                plain_files.read(folder / "card.json", MAX_SETTING_BYTES)
            )
            is_known = entries["format"] == FORMAT
            card = VectorCard(**entries)._replace(
                checksums=tuple(entries["checksums"]),
                states=tuple(tuple(state) for state in entries["states"]),
            )
        except (OSError, ValueError, TypeError, KeyError):
            return None
        return cls(folder, card) if is_known else None

    @property
    def is_usable(self) -> bool:
        """Return whether the files match the card, by state or else by checksum."""
        try:
            if self.is_unchanged:
                return True
            self._map = self.card, VectorMap()  # the shared map may belong to earlier files
            return self.verify_checksums()
        except (OSError, ValueError, TypeError):
            return False

    @classmethod
    def create(cls, folder: Path, card: VectorCard) -> Self:
        """Create an empty store in a folder whose parent exists, replacing any contents.

        The card must count no rows.
        """
        if folder.is_file():
            folder.unlink()
        import shutil

        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(exist_ok=True)
        made = cls(folder, card)
        made._create_files()
        made.write_card()
        return made

    def append(
        self, rows: Matrix, hashes: Hashes, ends: Hashes, tokens: Codes | None = None
    ) -> None:
        """Append rows and token codes, and update the card's counts."""
        self._write(UnitRows.encode(rows), hashes, ends, tokens)
        self.write_card()

    def replace(self, rows: UnitRows, hashes: Hashes, ends: Hashes, tokens: Codes) -> None:
        """Replace everything: write new files, then the card, then delete the old files.

        If the replacement is interrupted at any point, the card's files are still complete.
        """
        old = [name for name, *_ in self._files()]
        self.card = self.card._replace(rows=0, tokens=0, generation=self.card.generation + 1)
        self._create_files()
        self._write(rows, hashes, ends, tokens)
        self.write_card()
        for name in old:
            (self.folder / name).unlink(missing_ok=True)

    def _create_files(self) -> None:
        """Create the card's files, empty."""
        for name, *_ in self._files():
            (self.folder / name).write_bytes(b"")
        self.card = self.card._replace(checksums=(0,) * len(self._files()))

    def _write(self, rows: UnitRows, hashes: Hashes, ends: Hashes, tokens: Codes | None) -> None:
        """Write rows after those that the card counts, without writing the card."""
        sums = []
        codes = np.zeros((0, self.card.token_width), np.uint8) if tokens is None else tokens
        parts = [rows.stored.tobytes(), hashes.tobytes()]
        parts += [ends.tobytes(), codes.tobytes()] if self.card.token_width else []
        for (name, width, count), data, checksum in zip(
            self._files(), parts, self.card.checksums, strict=True
        ):
            with open(self.folder / name, "r+b") as file:
                file.truncate(count * width)
                file.seek(count * width)
                file.write(data)
            sums.append(zlib.crc32(data, checksum))
        self.card = self.card._replace(
            rows=self.card.rows + rows.size,
            tokens=self.card.tokens + len(codes),
            checksums=tuple(sums),
        )

    def store_calibration(self, calibration: Calibration) -> None:
        """Write the calibration of the cosines to the card."""
        from memvault.index.embedding import calibrate

        version = calibrate.anchor_targets().version
        self.card = self.card._replace(calibrated=version, **calibration._asdict())
        self.write_card()

    def write_card(self) -> None:
        """Write the card with the current states of the files."""
        self.card = self.card._replace(states=self._states())
        data = json.dumps(self.card._asdict()).encode()
        atomic.write(self.folder / "card.json", data, durable=False, makes_folder=False)

    @property
    def is_unchanged(self) -> bool:
        """Return whether the states of the files match the card, so checksums can be skipped."""
        return self._states() == self.card.states

    def _states(self) -> tuple[FileStamp, ...]:
        return tuple(stamp_of(self.folder / name) or () for name, *_ in self._files())

    def _files(self) -> list[tuple[str, int, int]]:
        """Return each file's name, bytes per entry, and number of entries."""
        card = self.card
        files = [
            (f"rows-{card.generation}.i8", card.row_width, card.rows),
            (f"hashes-{card.generation}.u64", _HASH_BYTES, card.rows),
        ]
        if card.token_width:
            files += [
                (f"ends-{card.generation}.u64", _HASH_BYTES, card.rows),
                (f"tokens-{card.generation}.bin", card.token_width, card.tokens),
            ]
        return files

    def verify_checksums(self) -> bool:
        """Return whether the counted entries on disk match their checksums."""
        checksums = []
        for name, width, count in self._files():
            remaining, checksum = count * width, 0
            with open(self.folder / name, "rb") as file:
                while remaining and (data := file.read(min(remaining, 1 << 20))):
                    checksum, remaining = zlib.crc32(data, checksum), remaining - len(data)
            checksums.append(checksum if not remaining else -1)
        return tuple(checksums) == self.card.checksums

    def load(self) -> Rows:
        """Return the memory-mapped rows, hashes and ends; replaced files are reopened.

        Raises:
            VectorsCorrupted: if the files cannot be read.
        """
        return self._reopening(lambda files, shared: shared.read(files, self.card))

    def load_tokens(self) -> TokenCodes:
        """Return the codes of all tokens.

        The codes belong to the rows of ``load`` only if ``card`` is unchanged. Raises
        VectorsCorrupted.
        """
        return self._reopening(lambda files, shared: shared.read_tokens(files[-1], self.card))

    def _reopening(self, read: Callable[[list[Path], VectorMap], Value]) -> Value:
        """Return the result of ``read``; if files were replaced, reopen them and read again."""
        try:
            return read(*self._mapped())
        except FileNotFoundError as error:
            file = self.open(self.folder)
            if file is None:
                raise VectorsCorrupted(str(error)) from error
            self.card = file.card
            return read(*self._mapped())

    def _mapped(self) -> tuple[list[Path], VectorMap]:
        card, shared = self._map
        if card is not self.card:
            shared = VectorMap.of(self.folder, self.card)
            self._map = self.card, shared
        return [self.folder / name for name, *_ in self._files()], shared
