"""The types of the keyword index's fields and postings, and restricted unpickling for Whoosh.

Pickles may name only the classes that an index of this program contains. Only its user can write to
the index's folder, so this is a second line of defence: a pickle that names another class is
rejected, and nothing that it names is called.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from types import SimpleNamespace
from typing import IO, Any

from whoosh.codec.whoosh3 import W3Codec, W3PostingsWriter
from whoosh.fields import FieldType
from whoosh.formats import Existence

_MAX_IN_ENTRY = 16
"""The number of postings above which a block of them is smaller."""


class Bag(FieldType):  # type: ignore[misc]  # Whoosh's classes are only partly typed
    """A field of already counted terms: no analyser, no positions, the count as the weight."""

    def __init__(self) -> None:
        super().__init__(format=Existence(), analyzer=None, scorable=True)

    def index(
        self,
        value: Counter[str],
        **kwargs: Any,  # noqa: ARG002  # Whoosh's signature
    ) -> Iterator[tuple[bytes, int, float, bytes]]:
        """Yield (term, count, weight, empty value) for each term."""
        for term, count in value.items():
            yield term.encode("utf-8", "replace"), count, float(count), b""


class _PostingsWriter(W3PostingsWriter):  # type: ignore[misc]
    def finish_postings(self) -> Any:
        """Return the entry of a term, which holds its postings if they are few."""
        if self.written() or len(self) > _MAX_IN_ENTRY:
            return super().finish_postings()
        entry: Any = self._terminfo
        self._terminfo: Any = None
        entry.add_block(self)
        entry.set_inlined(self._ids, map(int, self._weights), ())
        return entry


class Codec(W3Codec):  # type: ignore[misc]
    """Whoosh's format, with the postings of rare terms in the terms' own entries.

    That takes 40 bytes less than a block of postings, and most terms occur in few memories. Whoosh
    reads such entries, but its own writer never makes any.
    """

    def postings_writer(self, dbfile: Any, byteids: bool = False) -> Any:
        """Return the writer of the postings of a field."""
        return _PostingsWriter(dbfile, self._blocklimit, byteids, self._compression)

    def postings_reader(self, dbfile: Any, terminfo: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the reader of a term's postings."""
        if terminfo.is_inlined():  # with the empty values that a merge of segments expects
            ids, weights, _ = terminfo.inlined_postings()
            terminfo.set_inlined(ids, weights, [b""] * len(ids))
        return super().postings_reader(dbfile, terminfo, *args, **kwargs)


ALLOWED = frozenset(
    {
        ("builtins", "int"),
        ("collections", "defaultdict"),
        ("memvault.index.local.whoosh_schema", "Bag"),
        ("memvault.index.local.whoosh_schema", "Codec"),
        ("whoosh.analysis.tokenizers", "IDTokenizer"),
        ("whoosh.codec.whoosh3", "W3Segment"),
        ("whoosh.fields", "ID"),
        ("whoosh.fields", "Schema"),
        ("whoosh.formats", "Existence"),
    }
)
"""The module and name of every class in a pickle of this program's index."""
_READERS = (
    "whoosh.codec.whoosh3",
    "whoosh.columns",
    "whoosh.filedb.fileindex",
    "whoosh.filedb.structfile",
    "whoosh.formats",
    "whoosh.index",
)
"""The modules of Whoosh that unpickle parts of an index."""


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Return a class that an index may contain; raise ``UnpicklingError`` for others."""
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError(f"{module}.{name} has no place in an index")
        return super().find_class(module, name)


def _load(file: IO[bytes]) -> Any:
    return _Unpickler(file).load()


def _loads(data: bytes) -> Any:
    return _load(io.BytesIO(data))


def restrict() -> None:
    """Make every module of Whoosh that reads an index use the restricted unpickler."""
    from whoosh import legacy

    for name in _READERS:
        import_module(name)
    readers = {
        "load": (pickle.load, _load),
        "loads": (pickle.loads, _loads),
        "pickle": (pickle, SimpleNamespace(load=_load, loads=_loads, dumps=pickle.dumps)),
    }
    for name, module in list(sys.modules.items()):
        if name.startswith("whoosh."):
            for attribute, (original, restricted) in readers.items():
                if getattr(module, attribute, None) is original:
                    setattr(module, attribute, restricted)
    legacy.toc_loaders.clear()  # this program never wrote indexes of older Whoosh versions
