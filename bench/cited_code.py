"""Replay the history of repositories, and compare the verdicts on cited code with a parser's.

    python bench/cited_code.py REPOSITORY... [--commits 300] [--symbols 100] [--lines 100]

Each repository is cloned to a temporary folder. At the oldest of its last commits, memories cite
random functions, methods, classes and constants, and lines. Each following commit is checked out,
and the verdict on each citation is compared with the truth: for a symbol, its syntax tree without
comments and docstrings (of a class without the bodies of its members) from ``ast``, or from
tree-sitter for JavaScript and Go; for a line, ``git blame --reverse``. After a change, the memory
cites the new code. Files that a commit does not touch are checked too, but counted separately.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

_PYTHON, _OTHERS = ".py", {".js": "javascript", ".go": "go"}
_SCOPES = ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef
_SHOWN = 10
"""Number of memories that are checked together, as in a recall."""
_MIN_WORDS = 12
"""Minimum number of letters and digits in a cited line."""


class Repository:
    """A clone of a repository in which commits are checked out."""

    def __init__(self, source: str, folder: Path) -> None:
        self.top = folder
        subprocess.run(["git", "clone", "-q", "--no-checkout", source, str(folder)], check=True)

    def git(self, *words: str) -> str:
        """Run git and return its output."""
        command = ["git", "-C", str(self.top), *words]
        return subprocess.run(command, check=True, capture_output=True).stdout.decode(
            "utf-8", "surrogateescape"
        )

    def sources(self) -> list[str]:
        """Return the tracked files that a parser reads."""
        suffixes = (_PYTHON, *_OTHERS)
        return [path for path in self.git("ls-files", "-z").split("\0") if path.endswith(suffixes)]

    def text(self, path: str) -> bytes:
        """Return a file's bytes; empty if it is missing."""
        file = self.top / path
        return file.read_bytes() if file.is_file() else b""


def definitions(path: str, data: bytes) -> dict[str, list[Any]]:
    """Return a parser's view of each definition in a file, by the name that a person would use."""
    found: dict[str, list[Any]] = {}
    read = _python if path.endswith(_PYTHON) else _other(_OTHERS[path[path.rfind(".") :]])
    for name, tree in read(data):
        found.setdefault(name, []).append(tree)
    return found


def _python(data: bytes) -> Iterator[tuple[str, Any]]:
    try:
        tree = ast.parse(data)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, _SCOPES) and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
    yield from _python_scope(tree, "")


def _python_scope(scope: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    for node in scope.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + node.name, ast.dump(node)
        elif isinstance(node, ast.ClassDef):
            yield from _python_scope(node, f"{prefix}{node.name}.")
            for member in node.body:
                if isinstance(member, _SCOPES):
                    member.body = []
            yield prefix + node.name, ast.dump(node)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and not prefix:
            yield node.targets[0].id, ast.dump(node)


def _other(language: str) -> Any:
    import importlib

    tree_sitter = importlib.import_module("tree_sitter")
    grammar = importlib.import_module(f"tree_sitter_{language}")
    parser = tree_sitter.Parser(tree_sitter.Language(grammar.language()))

    def read(data: bytes) -> Iterator[tuple[str, Any]]:
        for node in parser.parse(data).root_node.children:
            name = _name_of(node)
            if name:
                yield name, tuple(_tokens(node))

    return read


def _name_of(node: Any) -> str:
    """Return the name that a top-level declaration of JavaScript or Go defines."""
    kind = node.type
    if kind in ("function_declaration", "class_declaration"):
        return _field(node, "name")
    if kind == "method_declaration":
        receiver = _field(node, "receiver").strip("()").split()[-1]
        return f"{receiver.lstrip('*')}.{_field(node, 'name')}"
    if kind == "type_declaration":
        return str(node.named_children[-1].named_children[0].text.decode())
    if kind == "expression_statement" and node.named_children[0].type == "assignment_expression":
        left, right = node.named_children[0].named_children[:2]
        is_function = right.type in ("function_expression", "arrow_function")
        return str(left.text.decode()) if is_function and left.type == "member_expression" else ""
    return ""


def _field(node: Any, name: str) -> str:
    return str(node.child_by_field_name(name).text.decode())


def _tokens(node: Any) -> Iterator[bytes]:
    if node.type == "comment":
        return
    if not node.children or node.type in ("string", "template_string"):
        if node.text.strip() not in (b"", b";"):
            yield node.text.replace(b"'", b'"')
        return
    for child in node.children:
        yield from _tokens(child)


class Memory(NamedTuple):
    """A memory that cites a symbol or a line, the commit of its citation, and where it is now."""

    citation: Any
    commit: str
    path: str
    tree: Any = None


class Replay:
    """Checks out commits, and counts verdicts by truth."""

    def __init__(self, repository: Repository, symbols: int, lines: int, seed: int) -> None:
        from memvault.repository import approval
        from memvault.repository.code_check import CodeCitations
        from memvault.repository.location import find_repository

        self.repository = repository
        self.random = random.Random(seed)
        self.counts: Counter[tuple[str, bool, str, str]] = Counter()
        self.commits_found = Counter[bool]()
        self.seconds: list[float] = []
        self.mistakes: list[str] = []
        self.wanted = {"symbol": symbols, "line": lines}
        root = repository.top / "notes"
        root.mkdir()
        (root / "memvault.toml").write_text("version = 1\n")
        cache = repository.top.with_name(f"{repository.top.name}-cache")
        cache.mkdir()
        location = find_repository(root)
        assert location is not None
        approval.store_approval(root, location, approval.items_to_approve(location))
        self.citations = CodeCitations(root, lambda: cache)
        self.memories: list[Memory] = []

    def run(self, commits: list[str]) -> None:
        """Cite code at the first commit, and check it at each of the others."""
        git = self.repository.git
        git("checkout", "-q", "-f", commits[0])
        for before, commit in pairwise(commits):
            self._refill(before)
            git("checkout", "-q", "-f", commit)
            fields = git("diff", "--name-status", "-M", "-z", before, commit).split("\0")
            touched: dict[str, str] = {}
            while len(fields) > 1:
                status, path = fields.pop(0), fields.pop(0)
                touched[path] = fields.pop(0) if status[0] in "RC" else path
            self._check(before, commit, touched)

    def _refill(self, commit: str) -> None:
        """Add memories until there are as many as wanted."""
        kinds = Counter("symbol" if memory.citation.symbol else "line" for memory in self.memories)
        sources = self.repository.sources()
        for kind, wanted in self.wanted.items():
            for _ in range(20 * (wanted - kinds[kind])):
                if kinds[kind] >= wanted or not sources:
                    break
                path = self.random.choice(sources)
                cite = self._symbol if kind == "symbol" else self._line
                memory = cite(path, commit)
                if memory is not None:
                    self.memories.append(memory)
                    kinds[kind] += 1

    def _symbol(self, path: str, commit: str, name: str = "") -> Memory | None:
        found = definitions(path, self.repository.text(path))
        names = [name for name, trees in found.items() if len(trees) == 1]
        if not names or (name and name not in names):
            return None
        name = name or self.random.choice(names)
        anchors = self.citations.anchors(f"`{path}#{name}`", "")
        cited = [anchor for anchor in anchors if anchor.symbol]
        if len(cited) != 1 or cited[0].path != path:
            self.counts["symbol", True, "exists", "not cited"] += 1
            return None
        self.counts["symbol", True, "exists", "cited"] += 1
        return Memory(cited[0]._replace(), commit, path, (name, found[name][0]))

    def _line(self, path: str, commit: str) -> Memory | None:
        lines = self.repository.text(path).decode("utf-8", "replace").split("\n")
        long = [
            number
            for number, line in enumerate(lines, 1)
            if sum(map(str.isalnum, line)) >= _MIN_WORDS
        ]
        if not long:
            return None
        number = self.random.choice(long)
        cited = self.citations.anchors(f"{path}:{number}", "")
        if len(cited) != 1 or cited[0].line != number:
            return None
        return Memory(cited[0], commit, path)

    def _check(self, before: str, commit: str, touched: dict[str, str]) -> None:
        headers = [{"cites": [str(memory.citation)]} for memory in self.memories]
        verdicts: list[Any] = []
        for start in range(0, len(headers), _SHOWN):
            started = time.process_time()
            verdicts += self.citations.check(headers[start : start + _SHOWN])
            self.seconds.append(time.process_time() - started)
        kept = []
        for memory, states in zip(self.memories, verdicts, strict=True):
            kind = "symbol" if memory.citation.symbol else "line"
            is_touched = memory.path in touched
            path = touched.get(memory.path, memory.path)
            truth = "same"
            if path != memory.citation.path:
                truth = "moved"
            if is_touched:
                truth = self._truth(memory, path, commit)
            verdict = states[0]["state"]
            self.counts[kind, is_touched, truth, verdict] += 1
            if verdict != truth:
                self.mistakes.append(f"{commit[:9]} {memory.citation} {truth} {verdict}")
            elif truth in ("changed", "gone"):
                since = states[0].get("since", "")
                self.commits_found[self._is_in(since, before, commit)] += 1
                if not self._is_in(since, before, commit):
                    self.mistakes.append(f"{commit[:9]} {memory.citation} since {since or '?'}")
            if truth == verdict and truth in ("same", "moved"):
                kept.append(memory._replace(path=path))
            elif kind == "symbol":
                again = self._symbol(path, commit, memory.tree[0]) if self._has(path) else None
                kept += [again] if again is not None else []
        self.memories = kept

    def _is_in(self, since: str, before: str, commit: str) -> bool:
        """Return whether a commit is a new one: the given one, or one that it merges."""
        new = self.repository.git("rev-list", "--abbrev-commit", f"{before}..{commit}").split()
        return bool(since) and any(since.startswith(one) or one.startswith(since) for one in new)

    def _has(self, path: str) -> bool:
        return (self.repository.top / path).is_file()

    def _truth(self, memory: Memory, path: str, commit: str) -> str:
        """Return the state of a citation in a file that a commit has touched."""
        unchanged = "same" if path == memory.citation.path else "moved"
        if memory.citation.symbol:
            name, tree = memory.tree
            trees = definitions(path, self.repository.text(path)).get(name, [])
            if trees:
                return unchanged if tree in trees else "changed"
            for other in self.repository.sources():
                data = self.repository.text(other)
                last = name.rpartition(".")[2].encode()
                if last in data and tree in definitions(other, data).get(name, []):
                    return "moved"
            return "gone"
        if not self._has(path):
            return "gone"
        first, last = memory.citation.line, max(memory.citation.line, memory.citation.end)
        output = self.repository.git(
            "blame", "-w", "--reverse", "-s", "-l", f"{memory.commit}..{commit}",
            "-L", f"{first},{last}", "--", memory.citation.path,
        )  # fmt: skip
        is_there = all(line.lstrip("^").startswith(commit[:39]) for line in output.splitlines())
        return unchanged if is_there else "changed"


def main() -> None:
    """Print the verdicts per repository and in total."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("repositories", nargs="+")
    parser.add_argument("--commits", type=int, default=300)
    parser.add_argument("--symbols", type=int, default=100)
    parser.add_argument("--lines", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mistakes", action="store_true", help="print each wrong verdict")
    options = parser.parse_args()
    total: Counter[tuple[str, bool, str, str]] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MEMVAULT_STATE"] = f"{folder}/state"
        for number, source in enumerate(options.repositories):
            repository = Repository(source, Path(folder, f"repository{number}"))
            log = repository.git("log", "--first-parent", "--format=%H", f"-n{options.commits + 1}")
            replay = Replay(repository, options.symbols, options.lines, options.seed)
            replay.run(log.split()[::-1])
            total += replay.counts
            _report(source, replay.counts)
            worst = sorted(replay.seconds)
            print(
                f"  CPU of a check of {_SHOWN} citations without git's: median "
                f"{1000 * worst[len(worst) // 2]:.2f} ms, 99 % below "
                f"{1000 * worst[len(worst) * 99 // 100]:.2f} ms, maximum {1000 * worst[-1]:.1f} ms"
            )
            print(f"  commit of the change: {dict(replay.commits_found)}")
            for mistake in replay.mistakes if options.mistakes else ():
                print("   ", mistake)
    _report("total", total)


def _report(name: str, counts: Counter[tuple[str, bool, str, str]]) -> None:
    print(name)
    cited = counts["symbol", True, "exists", "cited"]
    print(f"  symbols found: {cited} of {cited + counts['symbol', True, 'exists', 'not cited']}")
    for kind in ("symbol", "line"):
        for touched in (True, False):
            rows = {
                key[2:]: count
                for key, count in counts.items()
                if key[:2] == (kind, touched) and key[2] != "exists"
            }
            every = sum(rows.values())
            right = sum(count for (truth, verdict), count in rows.items() if truth == verdict)
            same = sum(count for (truth, _), count in rows.items() if truth in ("same", "moved"))
            false = sum(
                count
                for (truth, verdict), count in rows.items()
                if truth in ("same", "moved") and verdict in ("changed", "gone")
            )
            print(
                f"  {kind} in {'touched' if touched else 'other'} files: {every} verdicts, "
                f"right {right / max(every, 1):.4f}, falsely outdated {false / max(same, 1):.4f}"
            )
            if touched:
                print("   ", dict(rows))


if __name__ == "__main__":
    main()
