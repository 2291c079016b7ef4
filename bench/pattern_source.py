"""Collect every regular expression in the package's source, with its uses."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import memvault
from memvault.lazy_pattern import LazyPattern

__all__ = ["BOUNDS", "METHODS", "Unresolved", "Used", "patterns"]

METHODS = frozenset(("match", "search", "fullmatch", "sub", "subn", "split", "findall", "finditer"))
_LAZY = "lazy_pattern"
_FLAGS = {"compile": 1, "split": 3, "sub": 4, "subn": 4}
"""Positions of the flags in functions of ``re``; in other functions they are the third argument."""


BOUNDS = {
    "memvault.consolidation.rules._VALUE": 300,  # the maximum length of a statement
    "memvault.vault_tools.fingerprint._VAULT": 4_000,  # the maximum length of a tool's command
}
"""Maximum lengths of the strings that a pattern is applied to, for patterns that may take
superlinear time.
"""


class Unresolved(Exception):
    """A pattern in the source that this check cannot evaluate."""


class Used(NamedTuple):
    """A pattern, its location, and the methods that are called on it."""

    where: str
    pattern: re.Pattern[str]
    methods: frozenset[str]


def _hints() -> list[re.Pattern[str]]:
    from memvault.index.text.analyzer import query_analyzer
    from memvault.recall.query import parse

    texts = ("which database do we use", "src/app.py getUserName 数据库", " ".join(_LONG_WORDS))
    return [parse(text, query_analyzer(("english",))).hint() for text in texts]


_GLOBS = ("drafts/**", "*a*a*a*a*a*a*b", "**/**/**/x", "[!a-c]*?*[]-]", "?*" * 50)


def _ignored() -> list[re.Pattern[str]]:
    from memvault.settings.exclusions import _settings_pattern

    return [pattern for glob in _GLOBS if (pattern := _settings_pattern((glob,)))]


def _ignore_files() -> list[re.Pattern[str]]:
    from memvault.settings.exclusions import IgnoreFile

    hostile = ("**/a*a*a/**/b*b*b/**/c*c*c", "*/*/*/*a*", "/**/**/**/**")
    files = (IgnoreFile(glob) for glob in (*_GLOBS, *hostile))
    return [pattern for file in files for pattern, _ in file.folder_patterns]


def _dates() -> list[re.Pattern[str]]:
    from memvault.recall.dates import _ABSOLUTE, _RELATIVE, _compiled

    return [_compiled(source) for source in (*_ABSOLUTE, _RELATIVE)]


def _parts_of_spans() -> list[re.Pattern[str]]:
    from memvault.recall.dates import _PARTS, _pattern

    return [_pattern(words) for words, _, _ in _PARTS]


def _secrets() -> list[re.Pattern[str]]:
    from memvault.secrets.patterns import FORMS, pattern

    return [pattern(form) for form in FORMS]


def _secret_words() -> list[re.Pattern[str]]:
    from memvault.secrets.patterns import FORMS, unbounded

    return [unbounded(form) for form in FORMS if form.is_word]


def _folders() -> list[re.Pattern[str]]:
    from memvault.path_redaction import _any_of

    return [_any_of(["/home/me/notes", "/home/me", "/tmp"]), _any_of(["/a" * 60, "/a" * 59])]


def _scalars() -> list[re.Pattern[str]]:
    from memvault.vault.header_yaml import loader

    resolvers = loader().yaml_implicit_resolvers
    return [pattern for entries in resolvers.values() for _, pattern in entries]


_LONG_WORDS = ("a" * 60, "ab" * 30, "a" * 59 + "b")
_MADE: Mapping[str, tuple[Callable[[], list[re.Pattern[str]]], tuple[str, ...]]] = {
    # These patterns are found at their definitions.
    "memvault.lazy_pattern.LazyPattern.__getattr__": (list, ()),
    "memvault.recall.query.Query.hint": (_hints, ("search", "findall")),
    "memvault.settings.exclusions._settings_pattern": (_ignored, ("match",)),
    "memvault.settings.exclusions._combined": (_ignore_files, ("match",)),
    "memvault.recall.dates._compiled": (_dates, ("finditer", "sub", "search")),
    "memvault.recall.dates._pattern": (_parts_of_spans, ("search",)),
    "memvault.secrets.patterns.pattern": (_secrets, ("finditer",)),
    "memvault.secrets.patterns.unbounded": (_secret_words, ("search",)),
    "memvault.path_redaction._any_of": (_folders, ("sub",)),
    "memvault.vault.header_yaml.loader": (_scalars, ("match",)),
}
"""Functions that return examples of patterns assembled at run time, and the methods used."""


def patterns() -> list[Used]:
    """Return every pattern of the package.

    Raises:
        Unresolved: if this check cannot evaluate one.
    """
    found: dict[tuple[str, str, int], Used] = {}
    made = set()
    package = Path(str(memvault.__file__)).parent
    for file in sorted(package.rglob("*.py")):
        inside = file.relative_to(package).with_suffix("").parts
        name = ".".join(("memvault", *(part for part in inside if part != "__init__")))
        source = _Source(name, ast.parse(file.read_text("utf-8")))
        for used in source.patterns():
            found[used.where, used.pattern.pattern, used.pattern.flags] = used
        made |= source.made
        _check_module(source, {used.pattern for used in found.values()})
    if unused := _MADE.keys() - made:
        raise Unresolved(f"nothing is made any more in {', '.join(sorted(unused))}")
    return list(found.values())


class _Source:
    """A module's source, and the module itself, imported only if it contains patterns."""

    def __init__(self, name: str, tree: ast.Module) -> None:
        self.name = name
        self.made: set[str] = set()
        self._tree = tree
        self._parents = {
            child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)
        }
        self._module: ModuleType | None = None

    @property
    def module(self) -> ModuleType:
        """The imported module."""
        if self._module is None:
            self._module = importlib.import_module(self.name)
        return self._module

    @property
    def has_patterns(self) -> bool:
        """Return whether the module imports ``re`` or ``lazy_pattern``."""
        return any(
            isinstance(node, ast.Import | ast.ImportFrom)
            and any(alias.name in ("re", _LAZY) for alias in node.names)
            for node in ast.walk(self._tree)
        )

    def patterns(self) -> Iterator[Used]:
        """Yield the patterns in the source text."""
        for node in ast.walk(self._tree):
            if isinstance(node, ast.ImportFrom) and node.module in ("re", "regex"):
                raise Unresolved(f"{self._place(node)}: write import re")
            if isinstance(node, ast.ImportFrom) and any(
                alias.name == _LAZY and alias.asname for alias in node.names
            ):
                raise Unresolved(f"{self._place(node)}: write import {_LAZY}")
            if isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.name == "regex" or (alias.name == "re" and alias.asname):
                        raise Unresolved(f"{self._place(node)}: write import re")
            if isinstance(node, ast.Name) and node.id == "re":
                yield from self._mentioned(node)
            if isinstance(node, ast.Name) and node.id == _LAZY:
                yield self._lazy(node)

    def _lazy(self, name: ast.Name) -> Used:
        """Return the pattern that a call of ``lazy_pattern`` returns."""
        call = self._parents[name]
        if not isinstance(call, ast.Call) or call.func is not name:
            raise Unresolved(f"{self._place(name)}: {_LAZY} itself is passed as a value")
        pattern = self._compiled(call, "compile")
        where, methods = self._use(call, "compile")
        return Used(where, pattern, methods)

    def _mentioned(self, name: ast.Name) -> Iterator[Used]:
        attribute = self._parents[name]
        if not isinstance(attribute, ast.Attribute):
            raise Unresolved(f"{self._place(name)}: re itself is passed as a value")
        if attribute.attr != "compile" and attribute.attr not in METHODS:
            return
        call = self._parents[attribute]
        if not isinstance(call, ast.Call) or call.func is not attribute:
            raise Unresolved(f"{self._place(name)}: re.{attribute.attr} is passed as a value")
        function = self._function(call)
        if function in _MADE:
            self.made.add(function)
            make, methods = _MADE[function]
            for pattern in make():
                yield Used(function, pattern, frozenset(methods))
            return
        pattern = self._compiled(call, attribute.attr)
        where, methods_used = self._use(call, attribute.attr)
        yield Used(where, pattern, methods_used)

    def _compiled(self, call: ast.Call, function: str) -> re.Pattern[str]:
        given = {word.arg: word.value for word in call.keywords}
        place = _FLAGS.get(function, 2)
        text = call.args[0] if call.args else given["pattern"]
        flags = call.args[place] if len(call.args) > place else given.get("flags")
        try:
            return re.compile(self._value(text), self._value(flags) if flags else 0)
        except Exception as error:  # looking up a missing name may raise anything
            raise Unresolved(f"{self._place(call)}: {type(error).__name__}: {error}") from error

    def _value(self, node: ast.expr) -> Any:
        code = compile(ast.Expression(node), self.name, "eval")
        return eval(code, dict(vars(self.module)))

    def _use(self, call: ast.Call, function: str) -> tuple[str, frozenset[str]]:
        """Return a pattern's location and the methods called on it."""
        if function != "compile":
            return self._place(call), frozenset((function,))
        parent = self._parents[call]
        if isinstance(parent, ast.Attribute):
            return self._place(call), frozenset((parent.attr,))
        if isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Name):
            name = parent.targets[0].id
            return f"{self.name}.{name}", self._methods(name)
        return self._place(call), METHODS

    def _methods(self, name: str) -> frozenset[str]:
        """Return the methods called on a name; all of them if it is passed on."""
        used = set()
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
                parent = self._parents[node]
                if not isinstance(parent, ast.Attribute):
                    return METHODS
                used.add(parent.attr)
        return METHODS & used or METHODS

    def _function(self, node: ast.AST) -> str:
        names: list[str] = []
        while node in self._parents:
            node = self._parents[node]
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names.append(node.name)
        return ".".join((self.name, *reversed(names)))

    def _place(self, node: ast.AST) -> str:
        return f"{self.name}:{getattr(node, 'lineno', 0)}"


def _check_module(source: _Source, known: set[re.Pattern[str]]) -> None:
    """Check that every pattern in an imported module was found in its source."""
    if not source.has_patterns:
        return
    for name, value in vars(source.module).items():
        held = value if isinstance(value, list | tuple | set | frozenset) else [value]
        held = list(value.values()) if isinstance(value, dict) else held
        for entry in held:
            if isinstance(entry, LazyPattern):
                entry = re.compile(entry.pattern, entry.flags)
            if isinstance(entry, re.Pattern) and entry not in known:
                raise Unresolved(f"{source.name}.{name} was not found in the source")
