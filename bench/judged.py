"""Read judged collections, create vaults from them, and run baseline searches."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import bm25s
from py_rust_stemmers import SnowballStemmer

from memvault.index.text.analyzer import stop_words
from memvault.vault.document import encode_new

DEPTH = 10
HEADER_KEYS = ("memory_type", "date", "author", "keywords", "tags", "file")
WORD = re.compile(r"\w+")
UNANSWERABLE = Path(__file__).with_name("everyday") / "unanswerable.jsonl"


class JudgedSet(NamedTuple):
    """A judged collection; ``relevant`` maps a query to its documents' grades.

    ``unanswerable`` are queries that no document answers. ``relevant`` also contains the grades of
    omitted queries from other parts.
    """

    name: str
    documents: list[dict[str, Any]]
    queries: list[dict[str, Any]]
    relevant: Mapping[str, Mapping[str, int]]
    unanswerable: list[dict[str, Any]]

    @property
    def answering(self) -> int:
        """Return the grade of documents that answer a query: the highest grade in the set."""
        return max(grade for grades in self.relevant.values() for grade in grades.values())


class Hit(NamedTuple):
    """A document found by a search, with its strength if it was found by recall."""

    document: str
    strength: str = ""


Search = Callable[[str], list[Hit]]


def read_set(folder: Path, part: str = "") -> JudgedSet:
    """Read a set, or only the queries of its part ``fit`` or ``test``.

    A query without a judgment is ignored unless it is unanswerable; queries in
    ``everyday/unanswerable.jsonl`` are added to their set. ``corpus.json`` refers to the folder
    with the documents if they are in another folder.
    """
    relevant: dict[str, dict[str, int]] = defaultdict(dict)
    for line in (folder / "qrels.tsv").read_text("utf-8").splitlines()[1:]:
        query, document, grade = line.split("\t")
        if float(grade) > 0:
            relevant[query][document] = int(float(grade))
    more = [entry for entry in read_lines(UNANSWERABLE) if entry["metadata"]["set"] == folder.name]
    asked = [*read_lines(folder / "queries.jsonl"), *more]
    asked = [entry for entry in asked if part in ("", part_of(entry))]
    other = folder / "corpus.json"
    holder = folder / json.loads(other.read_text("utf-8"))["corpus"] if other.exists() else folder
    return JudgedSet(
        folder.name,
        read_lines(holder / "corpus.jsonl"),
        [entry for entry in asked if entry["_id"] in relevant],
        relevant,
        [entry for entry in asked if "none" in (category_of(entry), kind_of(entry))],
    )


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Read a file of JSON lines."""
    lines = path.read_text("utf-8").split(
        "\n"
    )  # passages may contain U+2028, at which splitlines would split
    return [json.loads(line) for line in lines if line.strip()]


def group_of(entry: Mapping[str, Any]) -> str:
    """Return the collection that a document or query belongs to."""
    return str((entry.get("metadata") or {}).get("group", ""))


def category_of(query: Mapping[str, Any]) -> str:
    """Return the category under which a query is reported; in multilingual sets, its language."""
    return str((query.get("metadata") or {}).get("category", ""))


def kind_of(query: Mapping[str, Any]) -> str:
    """Return a query's kind, such as ``update``; ``none`` marks unanswerable queries."""
    return str((query.get("metadata") or {}).get("kind") or category_of(query))


def part_of(query: Mapping[str, Any]) -> str:
    """Return ``fit`` or ``test``; queries without a part were used in development, so ``fit``."""
    return str((query.get("metadata") or {}).get("part", "fit"))


def by_group(judged: JudgedSet) -> dict[str, list[dict[str, Any]]]:
    """Return each group's documents."""
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for document in judged.documents:
        groups[group_of(document)].append(document)
    return groups


def split_projects(judged: JudgedSet) -> JudgedSet:
    """Make each ``metadata.project`` a group; omit queries about several projects."""

    def grouped(entries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        return [
            {**entry, "metadata": {**entry["metadata"], "group": entry["metadata"]["project"]}}
            for entry in entries
            if entry["metadata"].get("project")
        ]

    parts = (judged.documents, judged.queries, judged.unanswerable)
    documents, queries, unanswerable = map(grouped, parts)
    return judged._replace(documents=documents, queries=queries, unanswerable=unanswerable)


def other_questions(judged: JudgedSet, sets: Sequence[JudgedSet], count: int) -> list[str]:
    """Return ``count`` questions from other sets, excluding sets with the same documents."""
    texts = [
        query["text"]
        for other in sets
        if other.documents != judged.documents
        for query in other.queries[:: max(1, len(other.queries) // 10)]
    ]
    return texts[:: max(1, len(texts) // max(count, 1))][:count]


def make_vault(root: Path, documents: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Write documents as memories; map each file's path to its document's id.

    A document is written to the folder in its metadata, by default to ``context``.
    """
    root.mkdir(parents=True)
    (root / "memvault.toml").write_text("version = 1\n", "utf-8")
    ids = {}
    for number, document in enumerate(documents):
        metadata = document.get("metadata") or {}
        header: dict[str, Any] = {}
        if document.get("title"):
            header["title"] = document["title"]
        header.update({key: metadata[key] for key in HEADER_KEYS if metadata.get(key)})
        path = f"{metadata.get('folder', 'context')}/{number:06d}.md"
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(encode_new(header, document["text"]))
        ids[path] = document["_id"]
    return ids


def grep(documents: Sequence[Mapping[str, Any]]) -> Search:
    """Rank documents by how many of the query's words they contain, as a shell loop would."""
    texts = [(entry["_id"], f"{entry['title']}\n{entry['text']}".lower()) for entry in documents]

    def search(query: str) -> list[Hit]:
        words = set(WORD.findall(query.lower()))
        counted = [
            (sum(word in text for word in words), number) for number, (_, text) in enumerate(texts)
        ]
        counted.sort(key=lambda pair: (-pair[0], pair[1]))
        return [Hit(texts[number][0]) for held, number in counted[:DEPTH] if held]

    return search


def bm25(documents: Sequence[Mapping[str, Any]], k1: float = 1.5, b: float = 0.75) -> Search:
    """Rank documents with plain BM25 over title and text, with English stemming and stop words."""
    stem = SnowballStemmer("english").stem_word
    stops = stop_words("english")

    def terms(text: str) -> list[str]:
        return [stem(word) for word in WORD.findall(text.lower()) if word not in stops]

    index = bm25s.BM25(k1=k1, b=b)
    index.index([terms(f"{d['title']}\n{d['text']}") for d in documents], show_progress=False)
    depth = min(DEPTH, len(documents))

    def search(query: str) -> list[Hit]:
        asked = [word for word in set(terms(query)) if word in index.vocab_dict]
        if not asked:
            return []
        places, scores = index.retrieve([asked], k=depth, show_progress=False)
        return [
            Hit(documents[place]["_id"])
            for place, score in zip(places[0], scores[0], strict=True)
            if score > 0
        ]

    return search
