#!/usr/bin/env python3
"""Measure recall quality on judged sets, using the program's recall on real vault folders.

    python bench/quality.py [FOLDER ...] [--part fit|test] [--ways hybrid,vector] [--by-category]
        [--by-project] [--model NAME_OR_FOLDER] [--engine milvus] [--markdown] [--save FILE]
        [--against FILE] [--check]

Each FOLDER is a set in BEIR's form: ``corpus.jsonl`` (``_id``, ``title``, ``text``, ``metadata``),
``queries.jsonl`` (``_id``, ``text``, ``metadata``) and ``qrels.tsv`` (query-id, corpus-id, score).
If ``metadata.group`` exists, each group is a separate vault and a query searches only its group.
Without a FOLDER the everyday sets next to this file are measured. ``--part`` selects the queries of
one ``metadata.part``; queries without a part belong to ``fit``. ``--by-project`` creates a vault
for each ``metadata.project`` in sets with projects.

With ``--engine milvus``, words and vectors are stored in a milvus-lite file.

Transformer vectors are computed before the first query, unless ``MEMVAULT_DEEP`` is set.

``--save`` stores each query's values; ``--against`` compares with stored values, with confidence
intervals.

``--check`` measures keyword, vector and hybrid search with transformer vectors, prints the table of
docs/development/quality.md, and exits with 1 if hybrid search of a set is below the better of the
two by more than 0.02 in hit@1 or R@5.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from judged import (
    DEPTH,
    Hit,
    JudgedSet,
    Search,
    bm25,
    by_group,
    category_of,
    grep,
    group_of,
    make_vault,
    read_set,
    split_projects,
)
from measures import Difference, Values, differences, mean, shortfalls, values
from memvault import open_vault
from memvault.publishing import publish
from memvault.workspace import Workspace

EVERYDAY = Path(__file__).with_name("everyday")
WAYS = ("grep", "bm25", "keyword", "vector", "hybrid")
COLUMNS = (
    *("hit@1", "R@5", "R@10", "nDCG@10", "MRR@10"),
    *("empty", "update", "none", "right"),
)


class Measured(NamedTuple):
    """The results of one search mode on one set, and the duration in seconds."""

    values: Values
    seconds: float


Results = dict[str, dict[str, Measured]]


def answered(judged: JudgedSet, search: Mapping[str, Search]) -> Measured:
    """Run every query with its group's search and measure the answers."""
    started = time.perf_counter()
    answers = {
        query["_id"]: search[group_of(query)](query["text"])
        for query in [*judged.queries, *judged.unanswerable]
    }
    return Measured(values(judged, answers), time.perf_counter() - started)


def recall(root: Path, ids: Mapping[str, str], mode: str, **more: Any) -> Search:
    """Search a vault with the program."""
    vault = open_vault(root)
    vault.call("memory_recall", query="warm", type=mode)

    def search(query: str) -> list[Hit]:
        found = vault.call("memory_recall", query=query, type=mode, limit=DEPTH, **more)
        if not found["success"]:
            raise SystemExit(f"{root.name}: {found['error']}")
        return [
            Hit(ids[memory["filePath"]], memory.get("strength", "")) for memory in found["memories"]
        ]

    return search


def send(root: Path, engine: Path) -> None:
    """Publish a vault to an engine, which answers its queries from then on."""
    settings = f'version = 1\n\n[index]\nengine = "milvus"\nuri = "{engine}"\n'
    (root / "memvault.toml").write_text(settings, "utf-8")
    workspace = Workspace(root)
    publish.push(workspace)
    workspace.close()


def evaluate(
    judged: JudgedSet, work: Path, wanted: Sequence[str], model: str | None, engine: str
) -> dict[str, Measured]:
    """Measure the search modes on one set."""
    groups = by_group(judged)
    roots = {group: work / judged.name / (group or "all") for group in groups}
    ids = {group: make_vault(roots[group], documents) for group, documents in groups.items()}
    for root in roots.values() if engine == "milvus" else ():
        send(root, work / "engine.db")
    plain: dict[str, Callable[[Sequence[Mapping[str, Any]]], Search]] = {"grep": grep, "bm25": bm25}

    def searches(way: str) -> dict[str, Search]:
        if way in plain:
            return {group: plain[way](documents) for group, documents in groups.items()}
        return {group: recall(roots[group], ids[group], way) for group in groups}

    found = {way: answered(judged, searches(way)) for way in wanted}
    if model:
        for root in roots.values():
            with open_vault(root) as vault:
                used = vault.call("model_use", name=model)
                if not used["success"]:
                    raise SystemExit(str(used["error"]))
        for mode in ("vector", "hybrid"):
            found[f"{mode}, {Path(model).name}"] = answered(judged, searches(mode))
    return found


def rows(results: Results, sets: Mapping[str, JudgedSet], by_category: bool) -> Iterator[list[str]]:
    """Yield the table's cells: each set and mode, and each category below it if requested."""
    for name, ways in results.items():
        for way, measured in ways.items():
            cells = [_cell(mean(measured.values.get(column, {}))) for column in COLUMNS]
            yield [name, way, *cells, f"{measured.seconds:.1f}"]
            for category, among in _categories(sets[name]).items() if by_category else ():
                cells = [_cell(mean(measured.values.get(column, {}), among)) for column in COLUMNS]
                yield [f"  {category}, {len(among)}", way, *cells, ""]


def _categories(judged: JudgedSet) -> dict[str, frozenset[str]]:
    asked = [*judged.queries, *judged.unanswerable]
    names = sorted({category_of(query) for query in asked} - {""})
    return {
        name: frozenset(query["_id"] for query in asked if category_of(query) == name)
        for name in names
    }


def _cell(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def compared(found: Difference) -> list[str]:
    """Return a comparison's cells; a star marks significant differences."""
    sure = " *" if found.low > 0 or found.high < 0 else ""
    change = f"{found.now - found.before:+.3f}{sure}"
    interval = f"{found.low:+.3f} to {found.high:+.3f}"
    return [*found[:3], f"{found.before:.3f}", f"{found.now:.3f}", change, interval]


def table(head: Sequence[str], body: Sequence[Sequence[str]], markdown: bool) -> str:
    """Return rows as aligned columns or as a markdown table."""
    if markdown:
        lines = [head, ["---"] * len(head), *body]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)
    widths = [max(len(line[place]) for line in [head, *body]) for place in range(len(head))]
    return "\n".join(
        "  ".join(part.ljust(width) for part, width in zip(line, widths, strict=True)).rstrip()
        for line in [head, *body]
    )


def main() -> None:
    """Measure the sets named on the command line and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--ways", default=",".join(WAYS), help="of " + ", ".join(WAYS))
    parser.add_argument("--by-category", action="store_true")
    parser.add_argument("--by-project", action="store_true", help="a vault for each project")
    parser.add_argument("--part", choices=("fit", "test"), default="", help="of the questions")
    parser.add_argument("--model", help="also measure with this fastembed model or folder")
    parser.add_argument("--engine", choices=("local", "milvus"), default="local")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--save", type=Path, help="keep each query's values in this file")
    parser.add_argument("--against", type=Path, help="compare with values that were kept")
    parser.add_argument("--check", action="store_true", help="fail if hybrid is below one signal")
    options = parser.parse_args()
    # Otherwise, results depend on a background process.
    os.environ.setdefault("MEMVAULT_DEEP", "now")
    if options.check:
        options.ways, options.markdown = "keyword,vector,hybrid", True
        os.environ["MEMVAULT_DEEP"] = "now"
    wanted = [way for way in options.ways.split(",") if way]
    if unknown := set(wanted) - set(WAYS):
        parser.error(f"unknown search mode: {', '.join(sorted(unknown))}")
    before = json.loads(options.against.read_text("utf-8")) if options.against else None
    folders = options.folders or sorted(path for path in EVERYDAY.iterdir() if path.is_dir())
    head = ["set", "search", *COLUMNS, "s"]
    results: Results = {}
    sets: dict[str, JudgedSet] = {}
    with tempfile.TemporaryDirectory() as work, tempfile.TemporaryDirectory() as cache:
        os.environ["MEMVAULT_CACHE"] = os.environ["MEMVAULT_STATE"] = cache
        for folder in folders:
            judged = read_set(folder, options.part)
            if options.by_project:
                judged = split_projects(judged)
            sets[folder.name] = judged
            results[judged.name] = evaluate(
                judged, Path(work), wanted, options.model, options.engine
            )
            latest = {judged.name: results[judged.name]}
            print(table(head, [*rows(latest, sets, False)], markdown=False), flush=True)
    print()
    print(table(head, [*rows(results, sets, options.by_category)], options.markdown))
    kept = {
        name: {way: measured.values for way, measured in ways.items()}
        for name, ways in results.items()
    }
    if options.save:
        options.save.write_text(json.dumps(kept), "utf-8")
    if before:
        head = ["set", "search", "measure", "before", "now", "difference", "95 % between"]
        print()
        print(table(head, [*map(compared, differences(before, kept))], options.markdown))
    if options.check and (problems := list(shortfalls(kept))):
        raise SystemExit("\n".join(problems))


if __name__ == "__main__":
    main()
