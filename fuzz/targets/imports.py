"""Any modified source is imported or listed: nothing else is raised, lost or invented.

An input is a list of edits of a source from ``tests/import_sources``: the first byte selects its
form, and each edit has a byte for the file, two for the position, one for the replaced length, and
one for the length of the new bytes. In a database it replaces a value.
"""

from __future__ import annotations

import inspect
import io
import json
import posixpath
import sqlite3
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

_TESTS = Path(__file__).resolve().parents[2] / "tests"
sys.path.extend({str(_TESTS), str(_TESTS / "support")} - {*sys.path})

from import_sources import EMPTY_VAULT  # noqa: E402
from memvault.importers import formats, reader_process  # noqa: E402
from memvault.importers.applying import render_note  # noqa: E402
from memvault.importers.archives import open_source  # noqa: E402
from memvault.importers.database import MAGIC  # noqa: E402
from memvault.importers.items import ImportedNote, Item, ItemWarning, SkippedItem, TypeCount  # noqa: E402
from memvault.importers.planning import plan  # noqa: E402
from memvault.importers.source import Source  # noqa: E402
from memvault.secrets.detector import BUILTIN  # noqa: E402
from memvault.vault import document, program_files  # noqa: E402
from memvault.vault.names import names_folded  # noqa: E402
from targets.shapes import HEADER_TOKENS, value_of  # noqa: E402

TOKENS = (
    *HEADER_TOKENS,
    *(
        "null",
        "{",
        "[",
        '"',
        "1e999",
        "NaN",
        "[[",
        "[]",
        '{"a": 7}',
        "\\ud800",
        "99999999999999999999",
    ),
    *(
        "<![x",
        "<!--",
        "<?",
        "</a",
        '<a b="',
        "<li>",
        "<td>",
        "&#0;",
        "<note>",
        "</note>",
        "<![CDATA[",
    ),
    *(
        "../",
        "/etc/",
        "\\\\",
        "AGENTS.md",
        "memvault.toml",
        ".git/",
        "import:",
        "((",
        "::",
        "]]",
        "|",
    ),
    *("n", "i-1", "f1e400", "ltrue|1", "dkey~n", "(", "h\x00", "\x94", "\x93", "}", "u", "."),
)
_STATE = EMPTY_VAULT
_WRITTEN = 4
"""One of this many inputs is planned and written, which takes most of the time."""
_MAX_GROWTH, _MIN_GROWN = 100, 1_000_000


class _Form(NamedTuple):
    """A source from a fixture: its name, and its files."""

    path: Path
    files: dict[str, bytes]


class _MemorySource(Source):
    """A source whose files are in memory."""

    def __init__(self, path: Path, files: dict[str, bytes]) -> None:
        super().__init__(path)
        self._files = files
        self.__dict__["names"] = sorted(files)

    @property
    def label(self) -> str:
        return self.path.stem

    def size(self, name: str) -> int:
        return len(self._data(name))

    def modified(self, name: str) -> float:
        return 1_700_000_000.0 if self._data(name) is not None else 0.0

    def _open(self, name: str) -> BinaryIO:
        return io.BytesIO(self._data(name))

    def _data(self, name: str) -> bytes:
        if name not in self._files:
            raise FileNotFoundError(2, "there is no such file", name)
        return self._files[name]


@cache
def _forms(kind: str) -> list[_Form]:
    module = import_module(f"import_sources.{formats.find_format(kind).module_name}")
    found = []
    for name, make in sorted(inspect.getmembers(module, inspect.isfunction)):
        if name.startswith("make"):
            with tempfile.TemporaryDirectory() as folder:
                path = make(Path(folder))
                with closing(open_source(str(path))) as source:
                    files = {name: source.read(name) for name in source.names}
                found.append(_Form(Path("/made") / path.name, files))
    return found


def _edits(data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """Yield the file, the position from 0 to 65,535, the length and the new bytes of each edit."""
    while len(data) >= 5:
        file, place, length, new = data[0], int.from_bytes(data[1:3], "big"), data[3], data[4]
        yield file, place, length, data[5 : 5 + new]
        data = data[5 + new :]


def _edited(form: _Form, data: bytes) -> dict[str, bytes]:
    files, names = dict(form.files), sorted(form.files)
    for file, place, length, new in _edits(data):
        name = names[file % len(names)]
        text = files[name]
        if text.startswith(MAGIC):
            files[name] = _with_value(text, place, new)
        else:
            at = place * len(text) >> 16
            files[name] = text[:at] + new + text[at + length :]
    return files


def _with_value(database: bytes, place: int, new: bytes) -> bytes:
    """Return a database with one value replaced."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(database)
        tables = [
            row[0]
            for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        cells = [
            (table, row[0], column[1])
            for table in tables
            for column in connection.execute(f'PRAGMA table_info("{table}")').fetchall()
            for row in connection.execute(f'SELECT rowid FROM "{table}"').fetchall()
        ]
        table, rowid, column = cells[place % len(cells)]
        old = connection.execute(f'SELECT "{column}" FROM "{table}" WHERE rowid = ?', [rowid])
        value = _value(old.fetchone()[0], place, new)
        try:
            connection.execute(
                f'UPDATE "{table}" SET "{column}" = ? WHERE rowid = ?', [value, rowid]
            )
            connection.commit()
        except sqlite3.Error:  # a duplicate key
            connection.rollback()
        return bytes(connection.serialize())


def _value(old: Any, place: int, new: bytes) -> Any:
    if isinstance(old, bytes):  # a pickle
        return old[: place % (len(old) + 1)] + new + old[place % (len(old) + 1) + len(new) :]
    value = value_of(new.decode("utf-8", "replace"))
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return str(value)
    return json.dumps(value) if isinstance(value, list | dict) else value


def check_kind(kind: str, data: bytes) -> None:
    """Import an edited source of a kind."""
    forms = _forms(kind)
    form = forms[data[0] % len(forms) if data else 0]
    files = _edited(form, data[1:])
    row = formats.find_format(kind)
    assert row.recognize(_MemorySource(form.path, files)) in formats.Confidence
    assert row.claims(_MemorySource(form.path, files)) <= files.keys()
    module = row.module
    items: list[Item] = list(module.read(_MemorySource(form.path, files)))
    for item in items:
        _check_item(item)
    if zlib.crc32(data) % _WRITTEN == 0:
        _check_written(kind, form, files, items)


def _check_written(kind: str, form: _Form, files: dict[str, bytes], items: list[Item]) -> None:
    """Read the same source again, and render what would be written."""
    module = formats.find_format(kind).module
    size = sum(map(len, files.values()))
    again = list(module.read(_MemorySource(form.path, files)))
    assert [reader_process.encoded(one) for one in again] == [
        reader_process.encoded(one) for one in items
    ]
    made = plan(items, kind, "in", _STATE)
    grown = 0
    for item in items:
        if isinstance(item, ImportedNote) and item.key in made.notes:
            path = made.notes[item.key].path
            _check_path(path)
            text = render_note(item, kind, path, made.names, BUILTIN)
            grown += len(text)
            header = document.Document.parse(text).header
            assert header is None or header["imported_from"] == kind
    for path, _ in made.attachments.values():
        _check_path(path)
    assert grown < max(_MIN_GROWN, _MAX_GROWTH * size)


def _check_item(item: Item) -> None:
    assert all(isinstance(part, str) for part in item[: 3 if isinstance(item, ImportedNote) else 1])
    if isinstance(item, SkippedItem | ItemWarning):
        assert item.reason
        assert isinstance(item.reason, str)
    elif isinstance(item, ImportedNote):
        assert all(isinstance(key, str) for key in item.header)
        assert all(isinstance(ref, str) for ref in item.refs)
    elif isinstance(item, TypeCount):
        assert item.number > 0
    else:
        assert isinstance(item.read(), bytes)


def _check_path(path: str) -> None:
    parts = path.split("/")
    assert parts[0] == "in"
    assert all(part and not part.startswith(".") for part in parts)
    assert "\0" not in path
    assert posixpath.normpath(path) == path
    assert program_files.read_as(path) == ""
    assert names_folded(path)[-1] != "memvault.toml"
