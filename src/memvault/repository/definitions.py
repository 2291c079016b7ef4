"""Find the definition of a symbol in source text of any language, and compute digests of code.

Definitions are recognized by a keyword or by their form, and end where the indentation ends. A
digest ignores whitespace, comments and docstrings, so formatting does not change it.
"""

from __future__ import annotations

import codecs
import math
import re
import time
from collections.abc import Sequence
from itertools import chain, pairwise

from memvault.errors import TimedOut
from memvault.files.plain_files import digest_of
from memvault.lazy_pattern import lazy_pattern
from memvault.named_tuple import NamedTuple

_MODIFIERS = (
    r"(?:(?:export|default|declare|pub(?:\([\w:]+\))?|public|private|protected|internal|static|"
    r"final|abstract|async|virtual|override|inline|extern|unsafe|sealed|open|data|partial|"
    r"readonly|local|global|const|suspend|template|typedef)\s++){0,8}"
)
_NAME = r"(?P<name>[\w$]+[?!]?)(?![\w$])"
_TYPE = r"(?:[A-Za-z_][\w:<>,\[\]]*+[\s*&]++)"
_KEYWORD = lazy_pattern(
    rf"\s*{_MODIFIERS}(?:def|class|function\*?|func|fn|fun|type|struct|enum|union|trait|interface|"
    r"impl|module|namespace|record|object|protocol|sub|proc|macro_rules!|\#define)\s+"
    rf"(?:\([^()]*\)\s*)?(?:[\w$:<>*&]+[.:])?{_NAME}"
)
_FUNCTION = lazy_pattern(
    rf"\s*{_MODIFIERS}{_TYPE}{{0,8}}(?:get\s+|set\s+|\*)?(?:\w+::){{0,8}}{_NAME}\s*\("
)
_ASSIGNED_FUNCTION = lazy_pattern(
    rf"\s*{_MODIFIERS}(?:(?:const|let|var|val)\s+)?(?:[\w$]+\.){{0,8}}{_NAME}\s*[:=]\s*"
    r"(?:async\s+)?(?:function\b|func\b|\([^()]*\)\s*(?::[^=]+)?=>|[\w$]+\s*=>)"
)
_VALUE = lazy_pattern(
    rf"\s*{_MODIFIERS}(?P<variable>(?:let|var|val)\s+)?{_TYPE}?(?:[\w$]+\.){{0,8}}[\"']?{_NAME}[\"']?"
    r"(?:\[[^\]]*\])?\s*(?P<sign>:(?!:)|=(?![=>])|:=)(?!\s*require\()"
)
_CONTAINER = lazy_pattern(
    rf"\s*{_MODIFIERS}(?:class|struct|trait|interface|impl|module|namespace|object|protocol)\s"
)
"""Matches the first line of a definition that is compared by its members, not their bodies."""
_STATEMENT = lazy_pattern(
    r"\s*(?:return|new|else|if|elif|while|for|switch|case|throw|raise|await|yield|assert|delete|"
    r"typeof|import|from|print|echo|not|and|or|in|with|using|goto|do|except|catch)\b"
)
"""Matches a line that begins with a word that no definition begins with."""
_COMMENT_START = r"(?:#(?=[\s!]|$)|//|--(?=\s|$)|;;)"
_COMMENT = lazy_pattern(rf"\s*(?:{_COMMENT_START}|/\*|\"\"\"|''')")
_NOISE = lazy_pattern(
    r"(?<=:)[ \t]*\n\s*[rRuUbB]{0,2}(\"\"\"|''').*?\1"  # docstrings
    r"|(?P<string>\"\"\"(?:.*?\"\"\"|.*)|'''(?:.*?'''|.*)"
    r"|\"(?:\\.|[^\"\\\n])*+\"?|'(?:\\.|[^'\\\n])*+'?)"
    r"|/\*(?:.*?\*/|.*)"
    rf"|^[ \t]*{_COMMENT_START}[^\n]*"  # lines of comments
    r"|(?<![ \t])[ \t]+(?://|#)[ \t][^\n]*$",  # comments after code
    re.DOTALL | re.MULTILINE,
)
_LINE_COMMENT = lazy_pattern(_COMMENT_START)
_QUOTES = lazy_pattern(r"\"\"\"|'''")
_WORD = lazy_pattern(r"[\w$]+")
_TRAILING_COMMA = lazy_pattern(r",(?=[)\]}])")
_CLOSING = lazy_pattern(r"[)\]}>]|end\b|\{|else\b|elif\b|except\b|finally\b|catch\b|rescue\b")
"""Matches the start of a line that belongs to a definition although it is not indented further."""
_LABEL = lazy_pattern(r"#\s*(?:if|ifdef|ifndef|else|elif|endif)\b|\w+:\s*$")
_BODY = lazy_pattern(r"[^;{}()=,]*\{\s*(?:$|[^}])")
_MAX_DEFINITIONS = 20
_MAX_DEPTH = 5
"""Maximum number of dots in a symbol."""
_MAX_LINE = 1_000
"""Maximum number of characters of a line that can define a symbol."""
_SIGNATURE_LINES = 12
"""Maximum number of lines from the name of a C-like function to its opening brace."""
DIGEST_LENGTH = 12
"""Number of hexadecimal digits of a digest."""


def lines_of(data: bytes) -> list[str] | None:
    """Return the lines of a source file; None if it is binary."""
    if b"\0" in data:
        return None
    text = data.removeprefix(codecs.BOM_UTF8).decode("utf-8", "surrogateescape")
    return text.replace("\r\n", "\n").split("\n")


def digest(lines: Sequence[str]) -> str:
    """Return the digest of code; empty if nothing but comments and punctuation remains."""
    return _digest(_without_noise(lines))


def _without_noise(lines: Sequence[str]) -> str:
    """Return code without comments and docstrings."""
    return _NOISE.sub(lambda match: match["string"] or "", "\n".join(lines))


def line_digest(lines: Sequence[str]) -> str:
    """Return the digest of cited lines, including their comments; empty if they have no words."""
    return _digest("\n".join(lines))


def _digest(text: str) -> str:
    return _packed_digest(_packed(text))


def _packed(text: str) -> str:
    return "".join(text.split()).replace("'", '"')


def _packed_digest(packed: str) -> str:
    if not any(map(str.isalnum, packed)):
        return ""
    packed = _TRAILING_COMMA.sub("", packed)
    return digest_of(packed.encode("utf-8", "surrogateescape"), DIGEST_LENGTH // 2).hex()


def places_of(
    lines: Sequence[str], expected: str, count: int, until: float = math.inf
) -> list[int]:
    """Return the line numbers at which ``count`` lines with a digest begin.

    Raises:
        TimedOut: the monotonic time ``until`` has passed.
    """
    packed = list(map(_packed, lines))
    places = []
    for start in range(len(lines) - count + 1):
        require_time(until)
        if _packed_digest("".join(packed[start : start + count])) == expected:
            places.append(start + 1)
    return places


def is_repeated(lines: Sequence[str], start: int, end: int) -> bool:
    """Return whether the lines from ``start`` to before ``end`` occur elsewhere in a file.

    Both are counted from 0; whitespace does not matter.
    """
    packed = list(map(_packed, lines))
    wanted = packed[start:end]
    return any(
        number != start and line == wanted[0] and packed[number : number + end - start] == wanted
        for number, line in enumerate(packed)
    )


def require_time(until: float) -> None:
    """Raise ``TimedOut`` if a monotonic time has passed."""
    if time.monotonic() > until:
        raise TimedOut("The code was not compared in time", "try again")


class CodeDefinition(NamedTuple):
    """A definition of a symbol: its line number and the digest of its code."""

    line: int
    digest: str


def definitions(lines: Sequence[str], symbol: str) -> list[CodeDefinition]:
    """Return the definitions of a symbol, such as ``parse`` or ``Parser.parse``.

    Only the outermost definitions count, and adjacent ones, such as overloads, as one.
    """
    blocks = _blocks(lines, symbol)
    codes = [_compared(lines[block.first : block.end]) for block in blocks]
    if len(blocks) > 1 and all(_is_adjacent(lines, *pair) for pair in pairwise(blocks)):
        return [CodeDefinition(blocks[0].line + 1, digest(list(chain(*codes))))]
    return [
        CodeDefinition(block.line + 1, digest(code))
        for block, code in zip(blocks, codes, strict=True)
    ]


class _Block(NamedTuple):
    """The lines of a definition, from 0: ``line`` contains the name, ``end`` is the line after."""

    first: int
    line: int
    end: int


def _is_adjacent(lines: Sequence[str], block: _Block, following: _Block) -> bool:
    """Return whether there are only comments and preprocessor lines between two definitions."""
    between = [line for line in lines[block.end : following.first] if line.strip()]
    return all(_COMMENT.match(line) or _LABEL.match(line) for line in between)


def _blocks(lines: Sequence[str], symbol: str) -> list[_Block]:
    """Return the outermost definitions of a symbol."""
    outer, _, name = symbol.rpartition(".")
    if symbol.count(".") > _MAX_DEPTH:
        return []
    if not outer:
        return _named_blocks(lines, name, 0, len(lines))
    inner = [
        block
        for scope in _blocks(lines, outer)
        for block in _named_blocks(lines, name, scope.line + 1, scope.end)
    ]
    # The methods of Go and the functions of JavaScript objects are outside of their type.
    return inner or _named_blocks(lines, name, 0, len(lines), outer.rpartition(".")[2])


def _named_blocks(
    lines: Sequence[str], name: str, start: int, end: int, owner: str = ""
) -> list[_Block]:
    """Return the outermost definitions of a name between two lines.

    ``owner`` must occur before the name.
    """
    candidates = [
        number
        for number in range(start, end)
        if name in (line := lines[number])
        and len(line) <= _MAX_LINE
        and not _COMMENT.match(line)
        and not _STATEMENT.match(line)
    ]
    if owner:
        words = {number: _WORD.findall(lines[number]) for number in candidates}
        candidates = [
            number
            for number in candidates
            if owner in words[number] and name in words[number][words[number].index(owner) + 1 :]
        ]
    for is_definition in (_is_keyword, _is_function, _is_value):
        matches = [number for number in candidates if is_definition(lines, number, name)]
        if matches:
            outermost = min(_indentation(lines[number]) for number in matches)
            return [
                _Block(_first_line(lines, number), number, _end(lines, number))
                for number in matches[:_MAX_DEFINITIONS]
                if _indentation(lines[number]) == outermost
            ]
    return []


def _is_keyword(lines: Sequence[str], number: int, name: str) -> bool:
    """Return whether a line has a keyword such as ``def`` before the name."""
    match = _KEYWORD.match(lines[number])
    return match is not None and match["name"] == name


def _is_function(lines: Sequence[str], number: int, name: str) -> bool:
    """Return whether a function without a keyword is defined, as in C, Java and JavaScript."""
    assigned = _ASSIGNED_FUNCTION.match(lines[number])
    if assigned is not None and assigned["name"] == name:
        return True
    match = _FUNCTION.match(lines[number])
    if match is None or match["name"] != name:
        return False
    rest = "\n".join([lines[number][match.end() :], *lines[number + 1 : number + _SIGNATURE_LINES]])
    rest = rest[:_MAX_LINE]
    # A call has a semicolon or another statement before the next brace.
    closing = _parameters_end(rest)
    return closing >= 0 and _BODY.match(rest, closing + 1) is not None


def _is_value(lines: Sequence[str], number: int, name: str) -> bool:
    """Return whether a constant, a field or a key is defined, but not a local variable."""
    match = _VALUE.match(lines[number])
    if match is None or match["name"] != name:
        return False
    is_outermost = not lines[number][:1].isspace()
    return is_outermost or (not match["variable"] and (match["sign"] == ":" or name[0].isupper()))


def _parameters_end(text: str) -> int:
    """Return the position of the parenthesis that closes a list of parameters; -1 if none does."""
    depth = 1
    for position, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if not depth:
            return position
    return -1


def _first_line(lines: Sequence[str], number: int) -> int:
    """Return the line of the first decorator or attribute above a definition."""
    indentation = _indentation(lines[number])
    while number and lines[number - 1].lstrip().startswith(("@", "#[")):
        if _indentation(lines[number - 1]) != indentation:
            break
        number -= 1
    return number


def _end(lines: Sequence[str], first: int) -> int:
    """Return the line after a definition: the first one that is not indented further."""
    indentation = _indentation(lines[first])
    is_braced = lines[first].rstrip().endswith(("{", "("))
    end = first + 1
    string = _open_string(lines[first], "")
    for number in range(first + 1, len(lines)):
        line = lines[number]
        text = line.lstrip()
        in_string, string = string, _open_string(line, string)
        if in_string:
            end = number + 1
            continue
        if _LINE_COMMENT.match(text) and _indentation(line) <= indentation:
            continue
        if not text or _indentation(line) > indentation:
            end = number + 1 if text else end
            continue
        if _indentation(line) < indentation and not _LABEL.match(text):
            break
        if _CLOSING.match(text):
            is_braced = is_braced or text.rstrip().endswith("{")
            end = number + 1
            if text.startswith("}") and not text.rstrip().endswith(("{", ",", "(")):
                break
        elif not (is_braced and _LABEL.match(text)):
            break
    return end


def _open_string(line: str, string: str) -> str:
    """Return the quotes of a multi-line string that is open after a line, or an empty string.

    ``string`` contains those open before the line.
    """
    if string or not _LINE_COMMENT.match(line.lstrip()):
        for match in _QUOTES.finditer(line):
            string = "" if match[0] == string else string or match[0]
    return string


def _compared(block: Sequence[str]) -> Sequence[str]:
    """Return the lines of a definition that are compared: of a class, without members' bodies."""
    header = next((line for line in block if not line.lstrip().startswith(("@", "#["))), "")
    if not _CONTAINER.match(header):
        return block
    code = [line for line in _without_noise(block).split("\n") if line.strip()]
    level = min(
        (_indentation(line) for line in code if _indentation(line) > _indentation(header)),
        default=0,
    )
    compared, depth = [], 0
    for line in code:
        if _indentation(line) <= level or depth > 0:  # Parameters may be on several lines.
            compared.append(line)
            opened = line.count("(") + line.count("[") - line.count(")") - line.count("]")
            depth = max(0, depth + opened)
    return compared


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())
