"""Definitions of symbols are found and compared in source text of many languages."""

from __future__ import annotations

import re
import time

import pytest

from code_project import PARSER
from memvault.repository import definitions
from memvault.repository.citations import parse


def same(language: str, symbol: str, before: str, after: str) -> bool:
    """Return whether a symbol's definition has the same digest in two texts."""
    digests = [definitions.definitions(text.split("\n"), symbol) for text in (before, after)]
    assert all(len(found) == 1 for found in digests), (language, digests)
    return digests[0][0].digest == digests[1][0].digest


SOURCES = {
    "python": ("limit", "def limit(\n    a,\n) -> int:\n    # why\n    return {}\n\nx = 1\n"),
    "method": ("A.run", "class A:\n    def run(self):\n        return {}\n\n    y = 2\n"),
    "constant": ("LIMIT", "import os\nLIMIT = {}\nOTHER = 1\n"),
    "go": ("Router.Match", "func (r *Router) Match(a int) bool {{\n\treturn {}\n}}\n\nvar x = 1\n"),
    "c": ("match", "static int\nmatch(const char *s)\n{{\nagain:\n\treturn {};\n}}\n\nint x;\n"),
    "macro": ("LIMIT", "#include <a.h>\n#define LIMIT \\\n\t({})\nint x;\n"),
    "javascript": ("res.send", "res.send = function send(body) {{\n  return {};\n}};\nvar x;\n"),
    "arrow": ("send", "export const send = async (a, b) => {{\n  return {};\n}};\nlet x = 1;\n"),
    "class": ("App.get", "class App {{\n  get(name) {{\n    return {};\n  }}\n\n  x() {{}}\n}}\n"),
    "java": ("A.get", "public class A {{\n  private int get(int a) {{\n    return {};\n  }}\n}}\n"),
    "rust": (
        "Lexer.next",
        "impl Lexer {{\n    pub fn next(&self) -> u8 {{\n        {}\n    }}\n}}\n",
    ),
    "ruby": ("A.valid?", "class A\n  def valid?(x)\n    x == {}\n  end\n\n  def y\n  end\nend\n"),
    "shell": ("build", "build() {{\n  echo {}\n}}\nrun() {{\n  build\n}}\n"),
    "yaml": ("retries", "service:\n  retries: {}\n  delay: 1\n"),
    "sql": ("total", "create table a (x int);\n-- why\nfunction total() {{\n  return {};\n}}\n"),
}


@pytest.mark.parametrize("language", SOURCES)
def test_definitions_are_compared_in_many_languages(language: str) -> None:
    """A change inside a definition counts; comments, layout and other code do not."""
    symbol, source = SOURCES[language]
    before = source.format("10")
    assert not same(language, symbol, before, source.format("20"))
    assert same(language, symbol, before, f"{before}\n\nunrelated = 3\n")
    wider = re.sub(r"^[ \t]+", lambda match: match[0] * 2, before, flags=re.MULTILINE)
    assert same(language, symbol, before, f"\n\n\n{wider}\n")
    assert same(language, symbol, before, before.replace("\n", "  \n\n"))


def test_adjacent_overloads_are_one_definition() -> None:
    """Adjacent definitions are one; methods of several types are told apart by their type."""
    overloads = "@overload\ndef f(a: int): ...\n\n\n@overload\ndef f(a: str): ...\n"
    assert len(definitions.definitions(overloads.split("\n"), "f")) == 1
    go = "func (a *pathMatch) Match() {\n}\n\nvar x = 1\n\nfunc (b *B) Match(c pathMatch) {\n}\n"
    methods = go.split("\n")
    assert len(definitions.definitions(methods, "Match")) == 2
    assert [found.line for found in definitions.definitions(methods, "pathMatch.Match")] == [1]


def test_class_is_compared_by_its_members() -> None:
    """The body of a method does not change its class; fields and signatures do."""
    assert same("class", "Parser", PARSER, PARSER.replace("for line", "for row"))
    assert not same("class", "Parser", PARSER, PARSER.replace("strict = True", "strict = False"))
    assert not same("class", "Parser", PARSER, PARSER.replace("self, text", "self, lines"))


@pytest.mark.parametrize(
    "line",
    [
        "/*" * 50_000,
        " " * 200_000,
        'f = """' * 30_000,
        "def " * 50_000 + "f",
        "f(" * 99_000,
        "a." * 99_000 + "f = 1",
        ":\n'''" * 30_000,
        "f " * 99_000 + "{",
        "\n".join(["f("] * 9_000),
        "\n".join(["f(a, {"] * 9_000),
        "\n".join(["@f"] * 9_000),
        "\n".join(["def f():"] * 9_000),
    ],
    ids=range(12),
)
def test_hostile_source_does_not_slow_definition_lookup(line: str) -> None:
    """No text makes finding or comparing a definition slow."""
    source = f"def f():\n    {line}\nf = 1\n{line}\ndef g():\n    return 1\n".split("\n")
    started = time.process_time()
    definitions.definitions(source, "f")
    definitions.definitions(source, "x.f")
    definitions.definitions(source, "f." * 9_000 + "f")
    assert time.process_time() - started < 2


def test_citation_round_trips() -> None:
    """A citation written to a header is read back unchanged."""
    for text in (
        "src/a.py", "src/a.py@0123456789ab", "a.py#B.c@0123456789ab", "a b/c@d.py:7@0123456789ab",
        "a.py:7-9@0123456789ab", "a.py#x", "a#b.py:7", ".github/a.yml",
    ):  # fmt: skip
        assert str(parse(text)) == text
    assert str(parse("a.py#L7-L9")) == "a.py:7-9"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('glob("src/*.py")\n    return 1', 'glob("src/*.py")\n    return 2'),
        ("glob('all://*')\n    return 1", "glob('all://*')\n    return 2"),
        ("#\n    return 1", "#\n    return 2"),
        ('sql = """\nSELECT a\n"""\n    return 1', 'sql = """\nSELECT b\n"""\n    return 1'),
        ('sql = """\nSELECT a\n"""\n    return 1', 'sql = """\nSELECT a\n"""\n    return 2'),
    ],
)
def test_text_in_strings_is_code(before: str, after: str) -> None:
    """Comment markers in a string, its unindented lines, and empty comments do not hide changes."""
    digests = [
        definitions.definitions(f"def f():\n    {body}\n".split("\n"), "f")
        for body in (before, after)
    ]
    assert digests[0] != digests[1]


@pytest.mark.parametrize(
    "body",
    ["    return 1  # don't", "# Why one:\n    return 1", "    # 'one'\n    return 1  # \"1\""],
)
def test_comments_are_not_compared(body: str) -> None:
    """Comments with quotes, and comments that are not indented, can change."""
    plain = definitions.definitions("def f():\n    return 1\nx = 2".split("\n"), "f")
    assert definitions.definitions(f"def f():\n{body}\nx = 2".split("\n"), "f") == plain
