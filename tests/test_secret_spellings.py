"""Secrets that markup and encodings spell differently are detected as a reader sees them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import sampled
from growth import seconds
from made_secrets import MADE, made
from memvault.secrets.detector import BUILTIN

find_secrets, masked, masked_part = BUILTIN.find, BUILTIN.masked, BUILTIN.masked_part
SIZES = (30_000, 120_000)
"""String lengths; the second takes four times as long if the time is linear."""


def _halves(between: str, front: str = "", back: str = "") -> Callable[[str], str]:
    """Return a spelling with a text in the middle of a secret, before it and after it."""

    def spelled(value: str) -> str:
        middle = len(value) // 2
        return f"{front}{value[:middle]}{between}{value[middle:]}{back}"

    return spelled


def _each(spell: Callable[[str], str]) -> Callable[[str], str]:
    """Return a spelling of each character of a secret except line breaks."""
    return lambda value: "".join(char if char == "\n" else spell(char) for char in value)


SPELLINGS: dict[str, Callable[[str], str]] = {
    "escaped signs": _each(lambda char: char if char.isalnum() or char == " " else f"\\{char}"),
    "decimal references": _each(lambda char: f"&#{ord(char)};"),
    "references without semicolons": _each(lambda char: f"&#x{ord(char):x}"),
    "a named reference": lambda value: _halves("&shy;")(value).replace("_", "&lowbar;"),
    "an invisible reference": _halves("&#8203;"),
    "bold": _halves("**"),
    "the first half in bold": _halves("**", "**"),
    "emphasis": _halves("*", "*"),
    "struck through": _halves("~~", "~~"),
    "highlighted": _halves("==", "=="),
    "inline code": _halves("`", "`"),
    "a tag": _halves("</b>", "<b>"),
    "a tag with attributes": _halves('<i class="x y"></i>'),
    "a word break": _halves("<wbr>"),
    "a line of HTML": _halves("<br/>"),
    "a comment": _halves("<!-- two\n\nlines -->"),
    "a comment of Obsidian": _halves("%%two words%%"),
    "a link": _halves("](https://example.com)", "["),
    "a link with a title": _halves("](<a b.md> 'its title')", "["),
    "a reference link": _halves("][1]", "["),
    "a short reference link": _halves("]", "["),
    "a wikilink with a label": _halves("]]", "[[notes/x|"),
    "a wikilink": _halves("[[", "", "]]"),
    "a footnote": _halves("[^1]"),
    "a zero-width space": _halves("\u200b"),
    "a soft hyphen": _halves("\xad"),
    "a variation selector": _halves("\ufe0f"),
    "marks of direction": _halves("\u202e\u202c"),
    "a character of a tag": _halves("\U000e0041"),
    "a null character": _halves("\0"),
    "joiners everywhere": "\u034f".join,
    "struck out by a combining mark": _halves("\u0336"),
    "colors of a terminal": _halves("\x1b[1;31m", "", "\x1b[0m"),
    "an image's text": _halves("](a.png)", "!["),
    "a comment of lines": _halves("%%\n\nnot seen\n%%"),
    "fullwidth": _each(lambda char: chr(ord(char) + 0xFEE0) if char > " " else char),
    "percent-encoding": _each(lambda char: f"%{ord(char):02X}"),
    "escapes of YAML": _each(lambda char: f"\\x{ord(char):02x}"),
    "escapes of JSON": _each(lambda char: f"\\u{ord(char):04x}"),
    "a continued line": _halves("\\\n    "),
    "several together": _halves("**\\_**<b></b>".replace("\\_", "\u200b")),
}
"""Spellings of a secret that readers or parsers undo."""


@pytest.mark.promise("S86")
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_secret_detector_finds_secrets_with_markup(
    spelling: str, subtests: pytest.Subtests
) -> None:
    """A secret with escapes or markup in it is found with its line and masked completely."""
    for kind in MADE:
        with subtests.test(kind=kind):
            value, said = made(kind)
            spelled = SPELLINGS[spelling](value)
            text = f"# Deploy\n\nUse\n{said.replace(value, spelled)}\nfrom now on.\n"
            (secret,) = find_secrets(text)
            assert (secret.kind, secret.line) == (kind, 4)
            hidden = masked(text)
            assert f"[masked: {kind}]" in hidden
            assert hidden.startswith("# Deploy\n\nUse\n")
            assert hidden.endswith("\nfrom now on.\n")
            assert not any(value[at : at + 8] in hidden for at in range(len(value) - 7))
            assert find_secrets(hidden) == []


@pytest.mark.promise("S86")
@given(
    kind=st.sampled_from(sorted(MADE)),
    spelling=st.sampled_from(sorted(SPELLINGS)),
    start=st.integers(0, 300),
    length=st.integers(0, 300),
)
def test_secret_excerpt_hides_pieces_with_markup(
    kind: str, spelling: str, start: int, length: int
) -> None:
    """An excerpt, with or without markup, shows few characters of the text's secrets."""
    value, said = made(kind)
    spelled = SPELLINGS[spelling](value)
    texts = [f"The job reads:\n\n{said.replace(value, one)}\n\nOK." for one in (spelled, value)]
    known = BUILTIN.values(texts[0])
    for text in texts:
        part = masked_part(text[start : start + length], known)
        assert not any(value[at : at + 8] in part for at in range(len(value) - 7))


@pytest.mark.promise("S86")
@pytest.mark.parametrize(
    "written", ["**_gh_**p_{}", "__ghp__**_{}**", "gh<b>p</b>_{}", "***gh***p_{}"]
)
def test_secret_detector_parses_underscores_like_markdown(written: str) -> None:
    """An underscore that ends emphasis is not part of a token; one inside a word is."""
    rest = made("GitHub token")[0].removeprefix("ghp_")
    assert rest[4:-4] not in masked(f"Use {written.format(rest)} now.")


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer $MY_OWN_ACCESS_TOKEN_1 and $OTHER",
        "Authorization: Bearer [MY_OWN_ACCESS_TOKEN_1]",
        "`curl -H 'Authorization: Bearer <MY_OWN_ACCESS_TOKEN_1>'`",
        "postgres://user:**password**@localhost/db",
        "**ghp_** is the prefix of tokens of [GitHub](https://docs.github.com/ghp_x), `gho_` too",
        "snake\\_case\\_name\\_of\\_a\\_function\\_with\\_numbers\\_123456789012345678901",
        "AKIA" + "<b>IOSFODNN7</b>" + "EXAMPLE",
    ],
)
@pytest.mark.promise("S79")
def test_secret_detector_ignores_ordinary_text_with_markup(text: str) -> None:
    """Names, placeholders and examples with markup are not reported."""
    assert find_secrets(text) == []


@sampled(4)
@pytest.mark.promise("S51")
@pytest.mark.parametrize(
    "unit",
    [
        "[a",
        "a[^b]",
        "](a](b ",
        "a](b(c",
        "<a ",
        "a<!--",
        "a%%b",
        "&a&#9",
        "\\_a",
        "*_a",
        "a==b",
        "%4",
    ],
)
def test_secret_detector_strips_markup_in_linear_time(unit: str) -> None:
    """Scanning four times as much markup takes about four times as long."""

    def looked(size: int) -> float:
        text = unit * (size // len(unit)) + "-->"
        return seconds(lambda: masked_part(text, {"abcdefghijklmnop": "API key"}))

    short, long = SIZES
    assert any(looked(long) < 10 * max(looked(short), 0.01) for _ in range(3))
