"""Front matter from anyone: one value never costs more than the file that it stands in."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from conftest import write
from growth import said, seconds
from memvault.index.local.refresh import header_problem
from memvault.model import FileState
from memvault.vault.document import read_memory
from memvault.vault.front_matter import parse_header, patch_header, patch_mapping

_AS_WRITTEN = {
    "!!int 5": "5",
    '!!int "0x1f"': "0x1f",
    '!!int "1:30"': "1:30",
    '!!float ".inf"': ".inf",
    "!!float 1.5": "1.5",
    "!!bool yes": "yes",
    "!!bool true": "true",
    "!!null ~": "~",
    "!!null": "",
    "!!str 5": "5",
    "!!binary aGk=": "aGk=",
    "!!timestamp 2026-13-99": "2026-13-99",
    "!!python/name:os.system x": "x",
    "!!python/object/apply:os.system 'touch pwned'": "touch pwned",
    "!foo bar": "bar",
    "!foo 5": "5",
    "!<tag:example.org,2026:x> 5": "5",
    "!<int> 5": "5",
    "!!merge <<": "<<",
    "!!map text": "text",
    "9223372036854775808": "9223372036854775808",
    "-9223372036854775809": "-9223372036854775809",
    "1.0e+999": "1.0e+999",
    "-1.5e999": "-1.5e999",
    ".nan": ".nan",
}
_AS_MEANT = {
    "9223372036854775807": 2**63 - 1,
    "-9223372036854775808": -(2**63),
    "1.5e300": 1.5e300,
    "!!seq [1, b]": [1, "b"],
    "!!set {a, b}": {"a": None, "b": None},
    "!!omap [a: 1, b: 2]": [{"a": 1}, {"b": 2}],
    "!!pairs [a: 1]": [{"a": 1}],
    "!!map {a: 1}": {"a": 1},
    "!!str [a]": ["a"],
    "!!int {a: !!int 1}": {"a": "1"},
    "!foo [1]": [1],
    "!foo {a: !bar [1]}": {"a": [1]},
    "!!python/tuple [1, 2]": [1, 2],
    "!!python/object:os.PathLike {a: 1}": {"a": 1},
    "!!timestamp [x]": ["x"],
}


@pytest.mark.parametrize(("written", "read"), [*_AS_WRITTEN.items(), *_AS_MEANT.items()])
def test_a_tag_makes_nothing_but_plain_values(written: str, read: object) -> None:
    """A scalar with a tag is the text that was written, a list or a mapping with one is plain."""
    header = f"a: 1\nx: {written}\nz: last\n"
    found = parse_header(header)
    assert found == {"a": 1, "x": read, "z": "last"}
    assert type(found["x"]) is type(read)
    assert json.loads(json.dumps(found)) == found
    changed = patch_header(header, {"a": 2, "x": "new", "z": None})
    assert changed == "a: 2\nx: new\n"
    assert patch_header(header, {"n": 3}) == f"{header}n: 3\n"
    inside = f"k: {{x: {written}, b: 1}}\nz: last\n"
    if "[" not in written and "{" not in written and written != "!!null":
        assert patch_mapping(inside, "k", "b", 2) == inside.replace("b: 1", "b: 2")


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**400])
def test_a_number_too_large_for_an_index_is_kept_as_text(number: int) -> None:
    """Setting an integer past 64 bits writes its digits, and they read back as text."""
    assert parse_header(patch_header("a: 1\n", {"x": number})) == {"a": 1, "x": str(number)}


_DIGITS = 240_000
HEADERS = {
    "a hexadecimal number": f'x: !!int "0x{"f" * _DIGITS}"\n',
    "a number to the base of sixty": f'x: !!int "{"1:" * (_DIGITS // 2)}1"\n',
    "a long title": f'title: !!int "{"9" * 9_000}"\n',
    "a long hexadecimal title": f'title: !!int "0x{"9" * 9_000}"\n',
    "a long number": f"x: {'9' * _DIGITS}\n",
    "a long fraction": f"x: 0.{'9' * _DIGITS}\n",
    "a long whole part": f"x: {'9' * _DIGITS}.5\n",
    "an exponent": "importance: 1.0e+999\nconfidence: -1.0e+999\n",
    "an importance": f'importance: {"9" * 300}\nconfidence: !!int "{"9" * 5_000}"\n',
    "not a number": "importance: !!float .nan\n",
    "a date": "created: !!timestamp 2026-99-99\nmodified: !!timestamp [x]\n",
    "bytes": "tags: !!binary '*'\n",
    "an object": "tags: !!python/object/apply:os.system ['touch pwned']\n",
    "odd keys": "? !!int '0xff'\n: 1\n? !!timestamp x\n: 2\n",
    "one text many times": f"a: &a {'b' * 200_000}\nx: [{'*a,' * 4_900}]\n",
    "one key many times": f"a: &a {'b' * 200_000}\nx: [{'{*a : 1},' * 2_000}]\n",
    "a tag of many letters": f"x: !{'a' * _DIGITS} 1\n",
    "a memory's type": f"memory_type: !!int '{'9' * 5_000}'\nid: !!int '{'9' * 5_000}'\n",
}


def _answered(root: Path, texts: Iterable[str]) -> list[Any]:
    """Ask a vault of such texts; return the answers."""
    for number, text in enumerate(texts):
        write(root, f"bomb{number}.md", f"{text}heliotrope{number}\n")
        write(root, f"episode/bomb{number}.md", f"{text}text\n")
    write(root, "memvault.toml", "version = 1\n")
    write(root, "fine.md", "---\nx: 1\n---\n# Fine\n\nperiwinkle\n")
    return [
        json.loads(said(root, *words, "--json"))
        for words in (
            ["recall", "periwinkle", "--mode", "keyword"],
            ["recall", "periwinkle", "--filter", "x == 1"],
            ["recall", "heliotrope7"],
            ["status"],
            ["consolidate"],
            ["list", "--limit", "100"],
        )
    ]


def test_no_header_costs_more_than_its_own_file(folder: Path, tmp_path: Path) -> None:
    """Whatever headers a vault holds, each text is found, as soon as if they were plain texts."""
    plain = [f"---\nx: 2\n---\n{'so a word. ' * (len(text) // 44)}" for text in HEADERS.values()]
    answers: list[Any] = []
    _answered(tmp_path / "warm", plain[:1])
    quarter = seconds(lambda: _answered(tmp_path / "plain", plain))
    odd = [f"---\n{header}---\n" for header in HEADERS.values()]
    whole = seconds(lambda: answers.extend(_answered(folder, odd)))
    assert whole < 3 * 4 * quarter
    assert "damaged" not in str(answers)
    assert [found["memories"][0]["filePath"] for found in answers[:3]] == [
        *["fine.md"] * 2,
        "bomb7.md",
    ]
    assert len(answers[-1]["memories"]) == 2 * len(HEADERS) + 1
    assert not list(folder.rglob("pwned"))


def test_a_header_that_no_index_can_keep_is_a_problem_of_its_file() -> None:
    """What JSON or UTF-8 cannot spell is named, and is no reason to call the index damaged."""
    state = FileState("notes/a.md", 1, 0, 0, 0)
    memory = read_memory(b"---\nx: 1\n---\ntext\n", state, frozenset())
    assert header_problem(memory, state) == ""
    for odd in (
        {"metadata": {"x": object()}},
        {"metadata": {"x": float("inf")}},
        {"title": "\ud800"},
    ):
        assert "cannot be indexed" in header_problem(memory._replace(**odd), state)
