"""The deep vectors: a transformer's, kept by the hash of the passage's text and nothing else.

Nothing of uids is in them: a moved file, a new title of the file, an edit of
its header and an index made anew cost no embedding. Each text is in it once.
Several processes may add to them, each under a lock that is held for that
moment only; who reads takes no lock.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

from memvault.errors import StorageError
from memvault.index.embedding.embedder import Calibration
from memvault.index.flat_vectors import VectorCard, VectorFile
from memvault.vault.lock import FileLock

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Matrix = npt.NDArray[np.float32]
    Hashes = npt.NDArray[np.uint64]

LOCK = "lock"
"""In the folder that holds the models' folders: held while vectors are added or dropped."""
_WASTE = 0.5
_WORTH_COMPACTING = 1_000


class TransformerVectorFile(VectorFile):
    """The vectors of one model."""

    columns: ClassVar = (("hashes", "u64"),)

    def __init__(self, folder: Path, card: VectorCard) -> None:
        super().__init__(folder, card)
        self._order: tuple[npt.NDArray[np.intp], Hashes] | None = None

    @classmethod
    def create(cls, folder: Path, card: VectorCard) -> Self:
        """Begin anew, unless another process has begun meanwhile: then go on with what it has.

        Raises:
            OSError: nothing can be written there.
            StorageError: the folder of the deep vectors was deleted; it is not made again.
            TimedOut: another process holds the lock for too long.
        """
        with _locked(folder):
            return cls._begun(folder, card)

    @classmethod
    def _begun(cls, folder: Path, card: VectorCard) -> Self:
        found = cls.open(folder)
        if found is not None and found.card.version == card.version:
            return found
        return super().create(folder, card)

    def places(self, hashes: Hashes) -> npt.NDArray[np.int64]:
        """Return the row of each hash, -1 where there is none."""
        import numpy as np

        _, (known,) = self.load()
        if not len(known):
            return np.full(len(hashes), -1, np.int64)
        if self._order is None or len(self._order[1]) != len(known):
            order = np.argsort(known)
            self._order = order, known[order]
        order, rising = self._order
        near = np.minimum(np.searchsorted(rising, hashes), len(rising) - 1)
        found: npt.NDArray[np.int64] = np.where(rising[near] == hashes, order[near], -1)
        return found

    def score(self, query: Matrix, places: npt.NDArray[np.int64]) -> Matrix:
        """Return the cosine of each row to a query; nan for -1."""
        import numpy as np

        rows, _ = self.load()
        cosines = np.append(rows @ query, np.float32(np.nan))
        found: Matrix = cosines[places]
        return found

    def add(self, hashes: Hashes, rows: Matrix) -> None:
        """Add the vectors of texts, but for those that another process has added meanwhile.

        Errors as for ``create``.
        """
        with _locked(self.folder):
            self._refresh()
            _, first = _firsts(hashes)
            new = first[self.places(hashes[first]) < 0]
            if len(new):
                self.extend(rows[new], hashes[new])
                self.write_card()

    def note(self, calibration: Calibration, seconds: float = 30.0) -> None:
        """Write down what the cosines mean; errors as above, after so many seconds."""
        with _locked(self.folder, seconds):
            self._refresh()
            self.keep(calibration)

    def compact(self, used: Hashes) -> None:
        """Drop the vectors that no memory uses, where those are more than half; errors as above."""
        import numpy as np

        with _locked(self.folder):
            self._refresh()
            rows, (hashes,) = self.load()
            kept = np.isin(hashes, used)
            if self.card.rows > _WORTH_COMPACTING and kept.mean() < _WASTE:
                self.replace(rows[kept], hashes[kept])
                self._order = None

    def _refresh(self) -> None:
        """Take what other processes have added; where all is gone or damaged, begin anew."""
        calibration = self.card.calibration
        card = VectorCard(self.card.embedder, self.card.version, self.card.dimension)
        found = self._begun(self.folder, card)
        if calibration is not None and found.card.calibration is None:
            found.keep(calibration)
        self.card, self._order = found.card, None


def _firsts(hashes: Hashes) -> tuple[Hashes, npt.NDArray[np.intp]]:
    """Return the different hashes, and where each is first."""
    import numpy as np

    different, first = np.unique(hashes, return_index=True)
    return different, first


@contextmanager
def _locked(folder: Path, seconds: float = 30.0) -> Iterator[None]:
    """Hold the lock of a model's folder; a process that still works never makes a deleted index."""
    try:
        with FileLock(folder.parent / LOCK, seconds, makes_folder=False):
            yield
    except FileNotFoundError as error:
        raise StorageError("The index was deleted meanwhile", "try again") from error
