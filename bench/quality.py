#!/usr/bin/env python3
"""Recall quality on judged sets, through the program's own recall on real vault folders.

    python bench/quality.py FOLDER [FOLDER ...] [--model NAME_OR_FOLDER] [--markdown]

Each FOLDER is a set in BEIR's form: ``corpus.jsonl`` (``_id``, ``title``,
``text``, ``metadata``), ``queries.jsonl`` (``_id``, ``text``, ``metadata``) and
``qrels.tsv`` (query-id, corpus-id, score). Where ``metadata.group`` exists a
group is a vault of its own and a query searches only its own group.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import bm25s
import ir_measures
from ir_measures import RR, R, nDCG
from py_rust_stemmers import SnowballStemmer

from memvault import open_vault
from memvault.index.analysis import stop_words
from memvault.vault.codec import encode_new

DEPTH = 10
MEASURES = [R @ 5, R @ 10, nDCG @ 10, RR @ 10]
HEADER_KEYS = ("date", "author", "keywords", "tags", "file")
WORD = re.compile(r"\w+")


class JudgedSet(NamedTuple):
    """A judged collection; ``relevant`` maps a query to its documents' grades."""

    name: str
    documents: list[dict[str, Any]]
    queries: list[dict[str, Any]]
    relevant: Mapping[str, Mapping[str, float]]


class Score(NamedTuple):
    """Means over queries, and the seconds that all of them took."""

    recall_5: float
    recall_10: float
    ndcg_10: float
    mrr_10: float
    seconds: float


Search = Callable[[str], list[str]]


def read_set(folder: Path) -> JudgedSet:
    """Read a set; queries without a judgement are left out."""
    relevant: dict[str, dict[str, float]] = defaultdict(dict)
    for line in (folder / "qrels.tsv").read_text("utf-8").splitlines()[1:]:
        query, document, grade = line.split("\t")
        if float(grade) > 0:
            relevant[query][document] = float(grade)
    queries = [entry for entry in read_lines(folder / "queries.jsonl") if entry["_id"] in relevant]
    return JudgedSet(folder.name, read_lines(folder / "corpus.jsonl"), queries, relevant)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Read a file of JSON lines."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


def group_of(entry: Mapping[str, Any]) -> str:
    """Return the collection that a document or query belongs to."""
    return str((entry.get("metadata") or {}).get("group", ""))


def by_group(judged: JudgedSet) -> dict[str, list[dict[str, Any]]]:
    """Return each group's documents."""
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for document in judged.documents:
        groups[group_of(document)].append(document)
    return groups


def make_vault(root: Path, documents: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Write documents as memories; return each file's path with its document's id."""
    root.mkdir(parents=True)
    (root / "memvault.toml").write_text("version = 1\n", "utf-8")
    ids = {}
    for number, document in enumerate(documents):
        metadata = document.get("metadata") or {}
        header: dict[str, Any] = {}
        if document.get("title"):
            header["title"] = document["title"]
        header.update({key: metadata[key] for key in HEADER_KEYS if metadata.get(key)})
        path = f"context/{number:06d}.md"
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_bytes(encode_new(header, document["text"]))
        ids[path] = document["_id"]
    return ids


def measure(judged: JudgedSet, search: Mapping[str, Search]) -> Score:
    """Run every query with its group's search and average."""
    started = time.perf_counter()
    answers = {query["_id"]: search[group_of(query)](query["text"]) for query in judged.queries}
    seconds = time.perf_counter() - started
    # places in the answer stand for scores; trec_eval wants whole grades
    ranked = {
        query: {document: float(-place) for place, document in enumerate(found)}
        for query, found in answers.items()
    }
    grades = {
        query: {document: int(grade) for document, grade in entries.items()}
        for query, entries in judged.relevant.items()
        if query in answers
    }
    found = ir_measures.calc_aggregate(MEASURES, grades, ranked)
    means = [float(found[measure]) for measure in MEASURES]
    return Score(means[0], means[1], means[2], means[3], seconds)


def grep(documents: Sequence[Mapping[str, Any]]) -> Search:
    """Rank documents by how many of the query's words they hold, as a shell loop would."""
    texts = [(entry["_id"], f"{entry['title']}\n{entry['text']}".lower()) for entry in documents]

    def search(query: str) -> list[str]:
        words = set(WORD.findall(query.lower()))
        counted = [
            (sum(word in text for word in words), number) for number, (_, text) in enumerate(texts)
        ]
        counted.sort(key=lambda pair: (-pair[0], pair[1]))
        return [texts[number][0] for held, number in counted[:DEPTH] if held]

    return search


def bm25(documents: Sequence[Mapping[str, Any]], k1: float = 1.5, b: float = 0.75) -> Search:
    """Plain BM25 over title and text, with English stemming and stop words."""
    stem = SnowballStemmer("english").stem_word
    stops = stop_words("english")

    def terms(text: str) -> list[str]:
        return [stem(word) for word in WORD.findall(text.lower()) if word not in stops]

    index = bm25s.BM25(k1=k1, b=b)
    index.index([terms(f"{d['title']}\n{d['text']}") for d in documents], show_progress=False)
    depth = min(DEPTH, len(documents))

    def search(query: str) -> list[str]:
        asked = [word for word in set(terms(query)) if word in index.vocab_dict]
        if not asked:
            return []
        places, scores = index.retrieve([asked], k=depth, show_progress=False)
        return [
            documents[place]["_id"]
            for place, score in zip(places[0], scores[0], strict=True)
            if score > 0
        ]

    return search


def recall(root: Path, ids: Mapping[str, str], mode: str, **more: Any) -> Search:
    """Search a vault with the program."""
    vault = open_vault(root)
    vault.call("memory_recall", query="warm", type=mode)

    def search(query: str) -> list[str]:
        found = vault.call("memory_recall", query=query, type=mode, limit=DEPTH, **more)
        if not found["success"]:
            raise SystemExit(f"{root.name}: {found['error']}")
        return [ids[memory["filePath"]] for memory in found["memories"]]

    return search


def evaluate(judged: JudgedSet, work: Path, model: str | None) -> dict[str, Score]:
    """Measure every way of searching on one set."""
    groups = by_group(judged)
    roots = {group: work / judged.name / (group or "all") for group in groups}
    ids = {group: make_vault(roots[group], documents) for group, documents in groups.items()}
    ways: dict[str, Callable[[str], Search]] = {
        "grep": lambda group: grep(groups[group]),
        "BM25 alone": lambda group: bm25(groups[group]),
    }
    for mode in ("keyword", "vector", "hybrid"):
        ways[mode] = lambda group, mode=mode: recall(roots[group], ids[group], mode)  # type: ignore[misc]
    scores = {
        way: measure(judged, {group: make(group) for group in groups}) for way, make in ways.items()
    }
    if model:
        for root in roots.values():
            with open_vault(root) as vault:
                used = vault.call("model_use", name=model)
                if not used["success"]:
                    raise SystemExit(str(used["error"]))
        for mode in ("vector", "hybrid"):
            search = {group: recall(roots[group], ids[group], mode) for group in groups}
            scores[f"{mode}, {Path(model).name}"] = measure(judged, search)
    return scores


def table(results: Mapping[str, Mapping[str, Score]], markdown: bool) -> str:
    """Return all scores as aligned columns or as a markdown table."""
    head = ["set", "search", "R@5", "R@10", "nDCG@10", "MRR@10", "s"]
    rows = [
        [name, way, *(f"{value:.3f}" for value in score[:4]), f"{score.seconds:.1f}"]
        for name, scores in results.items()
        for way, score in scores.items()
    ]
    if markdown:
        lines = [head, ["---"] * len(head), *rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)
    widths = [max(len(line[place]) for line in [head, *rows]) for place in range(len(head))]
    return "\n".join(
        "  ".join(part.ljust(width) for part, width in zip(line, widths, strict=True)).rstrip()
        for line in [head, *rows]
    )


def main() -> None:
    """Measure the sets named on the command line and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--model", help="also measure with this fastembed model or folder")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    results: dict[str, dict[str, Score]] = {}
    with tempfile.TemporaryDirectory() as work, tempfile.TemporaryDirectory() as cache:
        os.environ["MEMVAULT_CACHE"] = os.environ["MEMVAULT_STATE"] = cache
        for folder in options.folders:
            judged = read_set(folder)
            results[judged.name] = evaluate(judged, Path(work), options.model)
            print(table({judged.name: results[judged.name]}, markdown=False), flush=True)
    print()
    print(table(results, options.markdown))


if __name__ == "__main__":
    main()
