"""What programs read unasked from the folder that they run in: a Makefile, a module, settings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import NamedTuple

PYTHON = re.compile(r"(?:python|pypy)[\d.]*(?:\.exe)?", re.IGNORECASE)
_INTERPRETER = re.compile(
    r"(?:python|pypy|ipython|node|nodejs|deno|bun|tsx|ts-node|ruby|jruby|irb|perl|raku|php|lua|luajit"
    r"|rscript|julia|tclsh|wish|guile|racket|java|jshell|groovy|scala|elixir|erl|escript|osascript"
    r"|sh|bash|dash|ash|zsh|ksh|mksh|fish|csh|tcsh|busybox|pwsh|powershell|nu|xonsh|awk|gawk|mawk)"
    r"[\d.]*(?:\.exe)?",
    re.IGNORECASE,
)
_NODE = ("package.json", "package-lock.json", ".npmrc")
_PACKAGE = ("pyproject.toml", "setup.cfg", "setup.py")
_COMPOSE = tuple(
    f"{name}{more}.{end}"
    for name in ("compose", "docker-compose")
    for more in ("", ".override")
    for end in ("yaml", "yml")
)
_READ = {
    "make": ("GNUmakefile", "makefile", "Makefile"),
    "just": ("justfile", "Justfile", ".justfile", ".env"),
    "npm": _NODE,
    "npx": _NODE,
    "pnpm": (*_NODE, "pnpm-lock.yaml", "pnpm-workspace.yaml", ".pnpmfile.cjs"),
    "yarn": (*_NODE, "yarn.lock", ".yarnrc", ".yarnrc.yml"),
    "cargo": (
        *("Cargo.toml", "Cargo.lock", "build.rs", ".cargo/config.toml", ".cargo/config"),
        *("rust-toolchain", "rust-toolchain.toml"),
    ),
    "go": ("go.mod", "go.sum", "go.work"),
    "docker": (*_COMPOSE, "Dockerfile", ".dockerignore", ".env"),
    "podman": (*_COMPOSE, "Containerfile", "Dockerfile", ".dockerignore", ".env"),
    "rake": ("rakefile", "Rakefile", "rakefile.rb", "Rakefile.rb"),
    "tox": ("tox.ini", "tox.toml", *_PACKAGE),
    "nox": ("noxfile.py",),
    "pytest": ("pytest.toml", "pytest.ini", ".pytest.ini", "tox.ini", "conftest.py", *_PACKAGE),
    "uv": ("uv.toml", "uv.lock", ".python-version", ".env", *_PACKAGE),
    "poetry": ("poetry.toml", "poetry.lock", *_PACKAGE),
    "git": (".git/config", ".git/config.worktree", ".git/hooks", ".gitattributes", ".gitmodules"),
    "ninja": ("build.ninja",),
    "pre-commit": (".pre-commit-config.yaml", ".pre-commit-hooks.yaml"),
    "cmake": ("CMakeLists.txt", "CMakePresets.json", "CMakeUserPresets.json"),
}
_READ.update(
    {
        "gmake": _READ["make"],
        "docker-compose": _READ["docker"],
        "podman-compose": _READ["podman"],
        "py.test": _READ["pytest"],
        "uvx": _READ["uv"],
    }
)
_DIVIDED = re.compile(r"""[\s;|&<>(){}`"'\\=]+""")
_SHELL_QUOTES = re.compile(r"""["'\\]""")
_MODULE = re.compile(r"-[bBdEiIOPqsSuvx]*m(.*)")
_WITH_MORE = ("-W", "-X", "--check-hash-based-pycs")
"""Options of Python behind which another word belongs to them."""


class ImplicitInputs(NamedTuple):
    """What a command's programs read: files in their folder, modules, and who reads them."""

    files: list[str]
    modules: list[str]
    programs: list[str]


def implicit_inputs(command: Sequence[str]) -> ImplicitInputs:
    """Return what the programs that a command runs are known to read by themselves.

    A word that may be a shell's text is looked through too; that finds too
    many programs rather than too few. A module is named by its first part,
    which is a file or a folder.
    """
    files: dict[str, None] = {}
    modules: dict[str, None] = {}
    programs: dict[str, None] = {}
    texts = [text for word in command for text in (word, _SHELL_QUOTES.sub("", word))]
    for words in (command, *map(_DIVIDED.split, texts)):
        for place, word in enumerate(words):
            name = PurePath(word).name
            for spelled in (name, name[2:] if name.startswith("-") else name):  # -cmake
                known = spelled.lower().removesuffix(".exe")
                if known in _READ:
                    files.update(dict.fromkeys(_READ[known]))
                    programs[known] = None
            if PYTHON.fullmatch(name):
                for module in _modules(words[place + 1 :]):
                    modules[module.split(".")[0]] = None
                    if module not in _READ:  # else it was found by its own name
                        programs[f"{name} -m {module}"] = None
    return ImplicitInputs(list(files), list(modules), list(programs))


def interpreters(command: Sequence[str]) -> list[str]:
    """Return the interpreters among a command's words; too many rather than too few."""
    texts = (text for word in command for text in (word, _SHELL_QUOTES.sub("", word)))
    words = (*command, *(part for text in texts for part in _DIVIDED.split(text)))
    names = (PurePath(word).name for word in words)
    return list(dict.fromkeys(filter(_INTERPRETER.fullmatch, names)))


def _modules(words: Sequence[str]) -> Iterator[str]:
    """Yield the module that Python is told to run, if it is told so."""
    rest = iter(words)
    for word in rest:
        named = _MODULE.fullmatch(word)
        if named:
            yield from filter(None, [named[1] or next(rest, "")])
            return
        if not word.startswith("-") or word in ("-c", "-"):
            return
        if word in _WITH_MORE:
            next(rest, None)
