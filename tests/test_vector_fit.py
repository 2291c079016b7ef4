"""How much the vectors of a chosen embedder count is fitted to the vault."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import Run, index_of, soak_only, titles, write
from memvault import open_vault
from memvault.recall.vector_fit import FACTORS, best_factor
from test_embedders import save_model

COUNT = 40


def make_knowing(folder: Path, groups: list[list[str]]) -> Path:
    """Write a model for which the words of a group mean the same, and any two others differ."""
    from onnx import TensorProto, helper, numpy_helper

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    words = list(dict.fromkeys([*special, *(word for group in groups for word in group)]))
    table = np.full((len(words), len(groups) + 1), 0.0, np.float32)
    table[: len(special), -1] = 0.001
    for number, group in enumerate(groups):
        table[[words.index(word) for word in group], number] = 1.0
    output = helper.make_tensor_value_info(
        "last_hidden_state", TensorProto.FLOAT, ["batch", "length", len(groups) + 1]
    )
    gather = helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])
    return save_model(folder, words, [gather], output, [numpy_helper.from_array(table, "table")])


def word(kind: str, number: int) -> str:
    """Return a word of letters that no other kind or number has."""
    return kind + "".join(chr(ord("a") + int(digit)) for digit in f"{number:02d}") + kind


@pytest.fixture
def synonyms(folder: Path, tmp_path: Path) -> Path:
    """A vault whose titles are in other words than the notes, and a model that knows both.

    The words of each title are in another note too, which is about something else.
    """
    for number in range(COUNT):
        title, other = (f"{word('za', n)} {word('ye', n)}" for n in (number, (number + 1) % COUNT))
        own = f"{word('qu', number)} {word('ri', number)} " * 6
        write(folder, f"{number}.md", f"# {title}\n\n{own}\n\n{other}\n")
    groups = [
        [word(kind, number) for kind in kinds]
        for number in range(COUNT)
        for kinds in (("za", "qu"), ("ye", "ri"))
    ]
    return make_knowing(tmp_path / "knowing", groups)


def edit_card(folder: Path, **values: float) -> None:
    """Change values in the card of the only model's vectors."""
    card = next((index_of(folder) / "deep").rglob("card.json"))
    card.write_text(json.dumps({**json.loads(card.read_text("utf-8")), **values}), "utf-8")


def use(folder: Path, model: Path, run: Run) -> dict[str, Any]:
    """Use a model as if it distinguished the anchors, whose words it does not know."""
    run("model", "use", str(model))
    edit_card(folder, separation=2.2)
    used: dict[str, Any] = run("model", "use", str(model), "--json").json
    return used


def deep_status(folder: Path) -> dict[str, Any]:
    """Return what status says of the transformer vectors."""
    with open_vault(folder) as vault:
        status: dict[str, Any] = vault.call("vault_status")["deep"]
    return status


def parts_of(folder: Path, query: str) -> dict[str, float]:
    """Return the parts of the best score."""
    with open_vault(folder) as vault:
        found = vault.call("memory_recall", query=query, explain=True)
    parts: dict[str, float] = found["memories"][0]["why"]["parts"]
    return parts


@soak_only
def test_vectors_that_find_more_count_more(
    folder: Path, synonyms: Path, run: Run, deep_now: None
) -> None:
    """A model that knows a vault better than its words do counts more there, until it changes.

    The share of the vectors in a score rises by what was found, and reindex keeps it.
    """
    used = use(folder, synonyms, run)
    factor = used["vectorFactor"]
    assert used["questions"] == COUNT
    assert factor > 1
    assert deep_status(folder)["vectorFactor"] == factor
    assert f"weighted {factor:g} times the default" in run("status").out
    query = f"{word('qu', 3)} {word('ri', 3)}"
    weighted = parts_of(folder, query)
    edit_card(folder, vector_factor=1.0)
    usual = parts_of(folder, query)
    ratio = [parts["transformer"] / parts["keyword"] for parts in (weighted, usual)]
    assert ratio[0] == pytest.approx(factor * ratio[1], rel=0.01)
    assert run("reindex").code == 0
    assert deep_status(folder)["vectorFactor"] == factor
    assert run("model", "use", "builtin", "--json").json.keys().isdisjoint({"vectorFactor"})
    assert "vectorFactor" not in deep_status(folder)


def test_memories_keep_their_titles(folder: Path, synonyms: Path, run: Run, deep_now: None) -> None:
    """What is asked without its title is found by it afterwards."""
    assert run("model", "use", str(synonyms)).code == 0
    title = f"{word('za', 7)} {word('ye', 7)}"
    with open_vault(folder) as vault:
        assert titles(vault.call("memory_recall", query=title, limit=1)) == [title]


def test_a_small_vault_keeps_the_default(
    folder: Path, run: Run, tmp_path: Path, deep_now: None
) -> None:
    """A few titles say nothing about a model: with less than 30 it counts as by default."""
    for number in range(29):
        write(folder, f"{number}.md", f"# {word('za', number)} {word('ye', number)}\n\nsome text\n")
    model = make_knowing(tmp_path / "knowing", [["some"]])
    used = run("model", "use", str(model), "--json").json
    assert (used["questions"], used["vectorFactor"]) == (0, 1)


def test_memories_without_a_title_are_no_questions(
    folder: Path, run: Run, tmp_path: Path, deep_now: None
) -> None:
    """A title that is an id asks nothing; the first heading that says something does."""
    for number in range(30):
        write(folder, f"{number}.md", f"# {number}\n\n## {word('za', number)} soup\n\nsome text\n")
        write(folder, f"x{number}.md", f"# {number}\n\nsome text\n")
    model = make_knowing(tmp_path / "knowing", [["some"]])
    assert run("model", "use", str(model), "--json").json["questions"] == 30


def ranks(*firsts: int) -> list[list[int]]:
    """Return ranks of questions: the given one with factor 2, and 4 with every other."""
    return [[first if factor == 2 else 4 for factor in FACTORS] for first in firsts]


def test_a_factor_has_to_be_better_for_both_halves() -> None:
    """The questions that chose a factor do not decide alone whether it is better."""
    assert best_factor(ranks(*[2] * 40)) == 2
    assert best_factor(ranks(*[1, 4] * 20)) == 1
    assert best_factor(ranks(*[1, 8] * 20)) == 1
    assert best_factor(ranks(*[4] * 40)) == 1


def test_a_gain_within_its_error_is_none() -> None:
    """A gain that could be chance changes nothing."""
    assert best_factor(ranks(*[1, 1, 1, 8, 1, 3, 1, 8] * 5)) == 1
