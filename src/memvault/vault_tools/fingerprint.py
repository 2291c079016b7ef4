"""Fingerprints of a vault's tools: digests of what a tool runs and may read."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePath
from typing import NamedTuple

from memvault import process
from memvault.errors import Refused, StorageError, UsageError
from memvault.files.walk import is_link, walk
from memvault.vault.program_files import FILES_OF_PROGRAMS
from memvault.vault_tools.definition import FOLDER
from memvault.vault_tools.tool_files import ToolFile

PYTHON = re.compile(r"(?:python|pypy)[\d.]*(?:\.exe)?", re.IGNORECASE)
_INTERPRETER = re.compile(
    r"(?:python|pypy|ipython|node|nodejs|deno|bun|tsx|ts-node|ruby|jruby|irb|perl|raku|php|lua|luajit"
    r"|rscript|julia|tclsh|wish|guile|racket|java|jshell|groovy|scala|elixir|erl|escript|osascript"
    r"|sh|bash|dash|ash|zsh|ksh|mksh|fish|csh|tcsh|busybox|pwsh|powershell|nu|xonsh|awk|gawk|mawk)"
    r"[\d.]*(?:\.exe)?",
    re.IGNORECASE,
)
_WORD_BREAKS = re.compile(r"""[\s;|&<>(){}`"'\\=]+""")
_SHELL_QUOTES = re.compile(r"""["'\\]""")
_MODULE = re.compile(r"-[bBdEiIOPqsSuvx]*m(.*)")
_OPTIONS_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")
"""Options of Python that take the next word as their value."""


class ImplicitInputs(NamedTuple):
    """The files and modules that a command's programs read by themselves, and those programs."""

    files: list[str]
    modules: list[str]
    programs: list[str]


def implicit_inputs(command: Sequence[str]) -> ImplicitInputs:
    """Return the files that the programs of a command are known to read by themselves.

    A word that may be shell code is searched too, which finds too many programs rather than too
    few. A module is given by its first part, which is a file or a folder.
    """
    files: dict[str, None] = {}
    modules: dict[str, None] = {}
    programs: dict[str, None] = {}
    texts = [text for word in command for text in (word, _SHELL_QUOTES.sub("", word))]
    for words in (command, *map(_WORD_BREAKS.split, texts)):
        for place, word in enumerate(words):
            name = PurePath(word).name
            for spelled in (name, name[2:] if name.startswith("-") else name):  # -cmake
                known = spelled.lower().removesuffix(".exe")
                if known in FILES_OF_PROGRAMS:
                    files.update(dict.fromkeys(FILES_OF_PROGRAMS[known]))
                    programs[known] = None
            if PYTHON.fullmatch(name):
                for module in _modules(words[place + 1 :]):
                    modules[module.split(".")[0]] = None
                    if module not in FILES_OF_PROGRAMS:  # otherwise it was found by its own name
                        programs[f"{name} -m {module}"] = None
    return ImplicitInputs(list(files), list(modules), list(programs))


def interpreters(command: Sequence[str]) -> list[str]:
    """Return the interpreters among a command's words; rather too many than too few."""
    texts = (text for word in command for text in (word, _SHELL_QUOTES.sub("", word)))
    words = (*command, *(part for text in texts for part in _WORD_BREAKS.split(text)))
    names = (PurePath(word).name for word in words)
    return list(dict.fromkeys(filter(_INTERPRETER.fullmatch, names)))


def _modules(words: Sequence[str]) -> Iterator[str]:
    """Yield the module that Python's arguments run with ``-m``, if any."""
    rest = iter(words)
    for word in rest:
        named = _MODULE.fullmatch(word)
        if named:
            yield from filter(None, [named[1] or next(rest, "")])
            return
        if not word.startswith("-") or word in ("-c", "-"):
            return
        if word in _OPTIONS_WITH_VALUE:
            next(rest, None)


DigestCache = dict[str, tuple[str, int]]
"""The digests and sizes of files already read, by path in the vault."""

_MAX_BYTES = 50_000_000
_MAX_FILES = 10_000
_CHUNK_BYTES = 1024 * 1024
_OPEN_FLAGS = os.O_RDONLY
for _flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"):
    _OPEN_FLAGS |= getattr(os, _flag, 0)
_VAULT = re.compile(r"\$(?:MEMVAULT_VAULT|PWD)\b|\$\{(?:MEMVAULT_VAULT|PWD)\b[^}]*\}")
_QUOTES = re.compile(r"""["'\\]""")
_SHELL = re.compile(r"[\s;|&<>()`{}]+")
_MARKS = re.compile(r"""[\s;|&<>()`{}\[\]"'\\=,:@+!#%$]+""")
_QUOTED = re.compile(r""""([^"]*)"|'([^']*)'|`([^`]*)`""")


class ToolFingerprint(NamedTuple):
    """The scope of trust in a tool: a digest of everything covered, and the covered files.

    ``folders`` are named by the command too, but their contents are not covered. ``program`` is the
    resolved first word of the command. ``readers`` are programs that may read more files in the
    vault's folder, and ``outside`` are files elsewhere that the command names.
    """

    digest: str
    files: list[str]
    folders: list[str]
    program: str
    readers: list[str]
    outside: list[str]


def fingerprint_of(root: Path, kept: ToolFile, known: DigestCache | None = None) -> ToolFingerprint:
    """Return the fingerprint of a tool, with the program that may then be run.

    To check several tools, pass the same ``known`` so that each file is read once; to run one, omit
    it so that the files are read again.

    Raises:
        Refused: its command goes through a link in the vault, ``tools/`` contains a link, or there
            is too much to cover.
        StorageError: a file cannot be read.
    """
    base = os.path.realpath(root)
    program, *rest = kept.definition.command
    with contextlib.suppress(UsageError):  # reported when it is run
        program = process.find_program(program, Path(base), process.environment(root))
    reading = implicit_inputs(kept.definition.command)
    modules = [name for name in reading.modules if _is_folder(base, name)]
    files = (*reading.files, *(f"{name}.py" for name in reading.modules))
    named = _vault_paths(base, (program, *rest, *files))
    whole = _resolve(base, program)
    if whole is not None and process.is_below(whole, base):
        program = whole
    folders = sorted(path for path in named if os.path.isdir(os.path.join(base, path)))
    whole_folders = (path for name in modules for path in _files_below(base, name))
    covered_files = sorted({*named.difference(folders), *_tool_folder_files(base), *whole_folders})
    if len(covered_files) > _MAX_FILES:
        raise Refused(
            f"{FOLDER}/ holds more than {_MAX_FILES:,} files",
            f"move what no tool runs out of {FOLDER}/",
        )
    digests = list(_digests(base, covered_files, {} if known is None else known))
    text = hashlib.sha256(kept.data).hexdigest()
    digest = hashlib.sha256(json.dumps([text, digests]).encode()).hexdigest()
    open_folders = [path for path in folders if path not in (FOLDER, *modules)]
    outside = _outside_paths(base, kept.definition.command[1:])
    return ToolFingerprint(digest, covered_files, open_folders, program, reading.programs, outside)


def interpreters_of(root: Path, kept: ToolFile) -> list[str]:
    """Return the interpreters that a command runs, including those of scripts that it names.

    A script's interpreter is read from its first line. Interpreters load modules and files that
    trust does not cover.
    """
    base = os.path.realpath(root)
    words = list(kept.definition.command)
    for path in sorted(_vault_paths(base, words)):
        with contextlib.suppress(OSError):
            words += _first_line(os.path.join(base, path))
    return interpreters(words)


def _first_line(path: str) -> list[str]:
    """Return the words after ``#!`` in a script's first line."""
    with open(os.open(path, _OPEN_FLAGS), "rb") as file:
        line = file.read(256).partition(b"\n")[0]
    return line[2:].decode("utf-8", "replace").split() if line.startswith(b"#!") else []


def _vault_paths(base: str, words: Iterable[str]) -> set[str]:
    """Return the paths in the vault that words refer to, relative to it."""
    found = set()
    for part in dict.fromkeys(part for word in words for part in _possible_paths(base, word)):
        whole = _resolve(base, part)
        if whole is not None and process.is_below(whole, base):
            found.add(os.path.relpath(whole, base).replace(os.sep, "/"))
    return found


def _outside_paths(base: str, words: Iterable[str]) -> list[str]:
    """Return the files outside the vault that words refer to, and paths that may become such."""
    found = []
    for part in dict.fromkeys(part for word in words for part in _possible_paths(base, word)):
        whole = os.path.normpath(os.path.join(base, part)) if "\0" not in part else base
        climbs = part.startswith("../") and len(part) > len("../")
        if not process.is_below(whole, base) and (climbs or Path(whole).is_file()):
            found.append(part)
    return found


def _possible_paths(base: str, word: str) -> Iterator[str]:
    """Yield every part of a word that may be a path."""
    yield word
    word = _VAULT.sub(".", word.replace(base, "."))
    candidates = [word, *("".join(groups) for groups in _QUOTED.findall(word))]
    for text in (word, _QUOTES.sub("", word)):
        for divided in (_SHELL, _MARKS):
            candidates += divided.split(text)
    for piece in dict.fromkeys(candidates):
        yield piece
        if piece.startswith("-"):  # an option, which a path may follow without a space
            yield from (piece[start:] for start in range(1, len(piece)))


def _resolve(base: str, path: str) -> str | None:
    """Return a path with links resolved as by the system; None if it does not exist.

    Raises:
        Refused: it goes through a link inside the vault.
    """
    if not path or "\0" in path:
        return None
    here = "/" if Path(path).is_absolute() else base
    if sys.platform == "win32":
        here, path = base, os.path.realpath(os.path.join(base, path))
        return path if os.path.lexists(path) else None
    link = ""
    for part in path.split("/"):
        if part in ("", "."):
            continue
        here = str(Path(here).parent) if part == ".." else os.path.join(here, part)
        try:
            if not stat.S_ISLNK(os.lstat(here).st_mode):
                continue
            link = link or (here if process.is_below(here, base) else "")
            here = os.path.realpath(here, strict=True)
        except OSError:  # missing or inaccessible
            if not link:
                return None
            break
    if link:
        shown = os.path.relpath(link, base)
        raise Refused(
            f"{shown} is a link, and memvault does not follow links here", "put a copy in its place"
        )
    return here


def _is_folder(base: str, name: str) -> bool:
    """Return whether a module's name is that of a folder in the vault, and not of a link."""
    whole = _resolve(base, name)
    return whole is not None and "/" not in name and Path(whole).is_dir()


def _tool_folder_files(base: str) -> Iterator[str]:
    """Yield every file below ``tools/``, except the files that define tools."""
    for path in _files_below(base, FOLDER):
        if path.count("/") > 1 or not path.lower().endswith(".md"):
            yield path


def _files_below(base: str, top: str) -> Iterator[str]:
    """Yield every file below a folder of the vault.

    Raises:
        Refused: one is a link, whose target could change without notice.
        StorageError: a folder cannot be read.
    """

    def refuse(error: OSError) -> None:
        raise StorageError(
            f"{top}/ cannot be read: {error.strerror}", "check its permissions"
        ) from error

    for folder, folders, files in walk(os.path.join(base, top), refuse):
        inside = os.path.relpath(folder, base).replace(os.sep, "/")
        for name in (*files, *folders):
            if is_link(os.path.join(folder, name)):
                raise Refused(
                    f"{inside}/{name} is a link, and trust does not cover what lies behind it",
                    "put a copy in its place",
                )
        yield from (f"{inside}/{name}" for name in files)


def _digests(base: str, paths: Iterable[str], known: DigestCache) -> Iterator[tuple[str, str]]:
    """Yield each path with the digest of its bytes.

    Raises:
        Refused: the files are too large.
        StorageError: one cannot be read.
    """
    left = _MAX_BYTES
    for path in paths:
        if path not in known:
            try:
                known[path] = _digest_file(base, path, left)
            except OSError as error:
                raise StorageError(
                    f"{path} cannot be read: {error.strerror}", "check its permissions"
                ) from error
        digest, size = known[path]
        left -= size
        if left < 0:
            raise _too_much(path)
        yield path, digest


def _digest_file(base: str, path: str, max_bytes: int) -> tuple[str, int]:
    """Return the digest and the size of a plain file of at most ``max_bytes`` bytes."""
    whole = os.path.join(base, path)
    mode = os.lstat(whole)
    if not stat.S_ISREG(mode.st_mode):
        raise Refused(f"{path} is not a plain file", "remove it, or name another")
    if mode.st_size > max_bytes:
        raise _too_much(path)
    return _digest(whole, max_bytes)


def _too_much(path: str) -> Refused:
    return Refused(
        f"The tool's files and {FOLDER}/ hold more than {_MAX_BYTES // 10**6} MB",
        f"{path} is too much; let the tool find it by itself, outside of {FOLDER}/",
    )


def _digest(path: str, max_bytes: int) -> tuple[str, int]:
    """Return the digest of a plain file and the bytes read, which stop soon after ``max_bytes``."""
    digest = hashlib.sha256()
    size = 0
    with open(os.open(path, _OPEN_FLAGS), "rb") as file:
        while size <= max_bytes and (piece := file.read(_CHUNK_BYTES)):
            digest.update(piece)
            size += len(piece)
    return digest.hexdigest(), size
