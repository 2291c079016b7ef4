"""The vectors of one embedder: unit vectors in a flat file, and exact cosine over all of them.

One folder an embedder. ``rows-N.f32`` holds vectors back to back, ``uids-N.i64`` the
memory each row belongs to; a memory's rows are neighbours in its passages'
order, and uids only rise, so "what is not embedded yet" is every memory with a
uid above the last. Rows of memories that are gone stay until ``compact``, which
writes the next ``N`` beside the last and lets the card name it.
Both files only grow; what lies past the count in ``card.json`` does not exist.
The card holds checksums of what does, so that a process killed while it appends
loses only what it was appending, how the files were when it was written, so
that those need not be read each time, the identity of the manifest whose uids
they are, and what the cosines of a model mean (``calibrate``).
"""

from __future__ import annotations

import hashlib
import json
import shutil
import zlib
from collections.abc import Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from memvault import plain_files
from memvault.index.embedding import calibrate
from memvault.index.embedding.embedder import Calibration
from memvault.index.errors import DamagedVectors
from memvault.index.file_states import State, state_of
from memvault.plain_files import SETTING
from memvault.vault import atomic, layout

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Matrix = npt.NDArray[np.float32]


class VectorCard(NamedTuple):
    """Which embedder made the vectors, and how many there are."""

    embedder: str
    version: str
    dimension: int
    manifest: int
    rows: int = 0
    last_uid: int = 0
    checksums: tuple[int, int] = (0, 0)
    states: tuple[State, ...] = ()
    generation: int = 0
    calibrated: int = 0
    slope: float = 0.0
    midpoint: float = 0.0

    @property
    def calibration(self) -> Calibration | None:
        """What the cosines mean, unless that was never found, or in another way than now."""
        if self.calibrated != calibrate.VERSION:
            return None
        return Calibration(self.slope, self.midpoint)


class PassageHit(NamedTuple):
    """A memory's nearest passage: which one, and its cosine to the query."""

    uid: int
    passage: int
    cosine: float


def folder_name(embedder: str) -> str:
    """Return the folder of an embedder's vectors, below the index."""
    digest = hashlib.blake2b(embedder.encode(), digest_size=4).hexdigest()
    return f"{layout.slug(embedder, 40)}-{digest}"


class Vectors:
    """The vectors of one embedder, as its card counts them."""

    def __init__(self, folder: Path, card: VectorCard) -> None:
        self.folder = folder
        self.card = card
        self._rows: Matrix | None = None
        self._uids: npt.NDArray[np.int64] | None = None

    @classmethod
    def open(cls, folder: Path, manifest: int) -> Vectors | None:
        """Open the vectors in a folder; None where there are none that can be used.

        Files that are not as they were when the card was written are read
        whole and held against their checksums.
        """
        try:
            entries: dict[str, Any] = json.loads(plain_files.read(folder / "card.json", SETTING))
            card = VectorCard(**entries)._replace(
                checksums=tuple(entries["checksums"]),
                states=tuple(tuple(state) for state in entries["states"]),
            )
            if card.manifest != manifest:
                return None
            found = cls(folder, card)
            return found if found.is_settled or found.is_whole() else None
        except (OSError, ValueError, TypeError, KeyError):
            return None

    @classmethod
    def create(cls, folder: Path, card: VectorCard) -> Vectors:
        """Begin anew in a folder with a card that counts nothing."""
        if folder.parent.is_file():
            folder.parent.unlink()
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        made = cls(folder, card)
        made._begin()
        made.write_card()
        return made

    def append(self, uids: Sequence[int], counts: Sequence[int], vectors: Matrix) -> None:
        """Add memories' rows; ``counts`` says how many of ``vectors`` each memory has.

        uids must rise and lie above the last.
        """
        import numpy as np

        self._extend(np.repeat(np.asarray(uids, dtype=np.int64), counts), vectors)
        self.card = self.card._replace(last_uid=int(uids[-1]))
        self.write_card()

    def _begin(self) -> None:
        """Make the card's two files, empty."""
        for name, _ in self._files():
            (self.folder / name).write_bytes(b"")

    def _extend(self, uids: npt.NDArray[np.int64], rows: Matrix) -> None:
        """Write rows behind those that the card counts, and count them."""
        import numpy as np

        sums = []
        for (name, width), data, before in zip(
            self._files(),
            (rows.astype(np.float32).tobytes(), uids.tobytes()),
            self.card.checksums,
            strict=True,
        ):
            with open(self.folder / name, "r+b") as file:
                file.truncate(self.card.rows * width)
                file.seek(self.card.rows * width)
                file.write(data)
            sums.append(zlib.crc32(data, before))
        self.card = self.card._replace(
            rows=self.card.rows + len(uids), checksums=(sums[0], sums[1])
        )
        self._rows = self._uids = None

    def keep(self, calibration: Calibration) -> None:
        """Write down what the cosines mean."""
        self.card = self.card._replace(calibrated=calibrate.VERSION, **calibration._asdict())
        self.write_card()

    @property
    def is_settled(self) -> bool:
        """Whether the files are as the card says, and need not be read whole to be trusted."""
        return self._states() == self.card.states

    def _states(self) -> tuple[State, ...]:
        return tuple(state_of(self.folder / name) or () for name, _ in self._files())

    def _files(self) -> tuple[tuple[str, int], tuple[str, int]]:
        """Name the two files and say how many bytes a row has in each."""
        number = self.card.generation
        return (f"rows-{number}.f32", self.card.dimension * 4), (f"uids-{number}.i64", 8)

    def is_whole(self) -> bool:
        """Say whether the rows that the card counts are on disk as they were written."""
        found = []
        for name, width in self._files():
            left, total = self.card.rows * width, 0
            with open(self.folder / name, "rb") as file:
                while left and (data := file.read(min(left, 1 << 20))):
                    total, left = zlib.crc32(data, total), left - len(data)
            found.append(total if not left else -1)
        return tuple(found) == self.card.checksums

    def search(
        self, query: Matrix, among: Set[int], limit: int, also: Set[int] = frozenset()
    ) -> list[PassageHit]:
        """Return the memories with the nearest passages, and those of ``also``, nearest first.

        ``among`` are the memories that still exist and pass the filters.
        """
        import numpy as np

        rows, uids = self._load()
        if not len(rows):
            return []
        cosines = rows @ query
        firsts = np.flatnonzero(np.diff(uids, prepend=-1))
        nearest = np.maximum.reduceat(cosines, firsts)
        chosen = np.flatnonzero(_is_in(uids[firsts], among))
        if len(chosen) > limit:
            chosen = chosen[np.argpartition(-nearest[chosen], limit - 1)[:limit]]
        chosen = np.union1d(chosen, np.flatnonzero(_is_in(uids[firsts], also)))
        ends = np.append(firsts[1:], len(uids))
        hits = []
        for first, end in zip(firsts[chosen], ends[chosen], strict=True):
            passage = int(cosines[first:end].argmax())
            hits.append(PassageHit(int(uids[first]), passage, float(cosines[first + passage])))
        return sorted(hits, key=lambda hit: -hit.cosine)

    def dead(self, alive: Set[int]) -> float:
        """Return the share of rows whose memory is gone."""
        _, uids = self._load()
        return 1.0 - float(_is_in(uids, alive).mean()) if len(uids) else 0.0

    def compact(self, alive: Set[int]) -> None:
        """Drop the rows of memories that are gone: new files, the card, then the old ones go.

        Cut off anywhere it leaves the card with all that it names.
        """
        rows, uids = self._load()
        kept = _is_in(uids, alive)
        old = [name for name, _ in self._files()]
        self.card = self.card._replace(
            rows=0, checksums=(0, 0), generation=self.card.generation + 1
        )
        self._begin()
        self._extend(uids[kept], rows[kept])
        self.write_card()
        for name in old:
            (self.folder / name).unlink(missing_ok=True)

    def _load(self) -> tuple[Matrix, npt.NDArray[np.int64]]:
        """Map the rows into memory; where another process compacted them, its new ones."""
        if self._rows is None or self._uids is None:
            try:
                self._rows, self._uids = self._mapped()
            except FileNotFoundError as error:
                found = Vectors.open(self.folder, self.card.manifest)
                if found is None:
                    raise DamagedVectors(str(error)) from error
                self.card = found.card
                self._rows, self._uids = self._mapped()
        return self._rows, self._uids

    def _mapped(self) -> tuple[Matrix, npt.NDArray[np.int64]]:
        import numpy as np

        count, width = self.card.rows, self.card.dimension
        if not count:
            return np.zeros((0, width), np.float32), np.zeros(0, np.int64)
        (rows, _), (uids, _) = self._files()
        try:
            return (
                np.memmap(self.folder / rows, np.float32, mode="r", shape=(count, width)),
                np.fromfile(self.folder / uids, np.int64, count),
            )
        except ValueError as error:  # cut off since the card was read
            raise DamagedVectors(str(error)) from error

    def write_card(self) -> None:
        """Write the card, and on it how the files are now."""
        self.card = self.card._replace(states=self._states())
        data = json.dumps(self.card._asdict()).encode()
        atomic.put(self.folder / "card.json", data, durable=False)


def _is_in(uids: npt.NDArray[np.int64], wanted: Set[int]) -> npt.NDArray[np.bool_]:
    import numpy as np

    return np.isin(uids, np.fromiter(wanted, np.int64, len(wanted)))
