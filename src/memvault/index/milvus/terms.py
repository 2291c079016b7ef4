"""Our own terms as tokens that every analyser of Milvus leaves as they are.

A token is a letter for the field and the term in base 32, letters and digits alone. So a word
is the same word in both engines, whatever the script.
"""

from __future__ import annotations

from base64 import b32encode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b

from memvault.index.bm25f import EXACT_FIELD, FIELDS, WHOLE_WEIGHT

_LETTERS = {"title": "t", "headings": "h", "body": "b", "tags": "g", EXACT_FIELD: "w"}
_WEIGHTS: Mapping[str, float] = {**FIELDS, EXACT_FIELD: WHOLE_WEIGHT}
_LONGEST = 120
"""Bytes of a term that are spelled; of a longer one the end is a hash of it."""
_HASH = 16


def encode_term(field: str, term: str) -> str:
    """Spell a term of a field."""
    data = term.encode("utf-8", "surrogatepass")
    if len(data) > _LONGEST:
        data = data[: _LONGEST - _HASH] + blake2b(data, digest_size=_HASH).digest()
    return f"{_LETTERS[field]}{b32encode(data).decode().rstrip('=').lower()}"


def encode_document(fields: Mapping[str, Counter[str]]) -> Iterator[str]:
    """Yield the tokens of a document, each as often as its term is there."""
    for name, terms in fields.items():
        for term, count in terms.items():
            yield from [encode_term(name, term)] * count


def encode_group(group: Iterable[str], is_whole: bool) -> list[str]:
    """Return the tokens of which a memory may hold any, for a word or for a whole."""
    names = (EXACT_FIELD,) if is_whole else tuple(FIELDS)
    return [encode_term(name, term) for term in group for name in names]


def encode_query(groups: Iterable[Iterable[str]], wholes: Iterable[str]) -> str:
    """Write a query, each token as often as twice its field's weight, so that it counts so."""
    found: list[str] = []
    for terms, names in ((groups, tuple(FIELDS)), (((whole,) for whole in wholes), (EXACT_FIELD,))):
        for group in terms:
            for term in group:
                for name in names:
                    found += [encode_term(name, term)] * round(2 * _WEIGHTS[name])
    return " ".join(found)
