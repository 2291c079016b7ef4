"""What recall shows of a memory can be read: whole sentences, items, rows, and no comments."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import write
from growth import Steps, check_growth
from memvault import Vault
from memvault.recall.snippets import beginning, units

BODY = """# Services

The cluster has three services. Each has a port of its own, which the firewall
opens. Ask Mara for more. %%The password is in the safe.%%

| Service  | Port | Owner |
| :------- | ---: | ----- |
| database | 5432 | Ana   |
| cache\\|x | 6379 |       |

- [ ] Rotate the keys of the database
  on the first Monday
- Renew the certificate
1. Call the plumber

> A quote of Zoe goes here.
> It goes on.

```sh
# restart the queue
systemctl restart   rabbitmq
```

owner:: Bea
"""

SHOWN = {
    "which port does each service have": "The cluster has three services. "
    "Each has a port of its own, which the firewall opens. Ask Mara for more. …",
    "port": "Each has a port of its own, which the firewall opens. Ask Mara for more. …",
    "5432": "database | 5432 | Ana",
    "owner cache 6379": "Service | Port | Owner / database | 5432 | Ana / cache|x | 6379",
    "certificate": "Renew the certificate",
    "rotate keys": "[ ] Rotate the keys of the database on the first Monday",
    "rotate certificate plumber": "[ ] Rotate the keys of the database on the first Monday"
    " / Renew the certificate / Call the plumber",
    "Zoe": "A quote of Zoe goes here. It goes on. …",
    "rabbitmq": "systemctl restart rabbitmq",
    "Bea": "owner:: Bea",
}


@pytest.mark.parametrize("query", SHOWN)
def test_a_snippet_begins_where_the_sentence_does(vault: Vault, folder: Path, query: str) -> None:
    """Rows are shown by their cells, and items and lines of code alone, unless more have words."""
    write(folder, "a.md", BODY)
    (found,) = vault.call("memory_recall", query=query, type="keyword")["memories"]
    assert found["snippet"] == SHOWN[query]


def test_comments_are_not_shown(vault: Vault, folder: Path) -> None:
    """What Obsidian hides from readers is found, and not shown."""
    write(folder, "a.md", BODY)
    (found,) = vault.call("memory_recall", query="password", type="keyword")["memories"]
    assert "safe" not in found["snippet"]
    assert "safe" not in beginning(BODY)
    assert units("50%% of `%%` a ```%%x%%``` ~~~")[0].text.startswith("50%% of `%%`")


def test_a_long_sentence_is_cut_around_the_words(vault: Vault, folder: Path) -> None:
    """It says on which side there is more; words near its beginning are shown from there."""
    filler = " ".join(f"w{number}" for number in range(100))
    write(folder, "a.md", f"# A\n\nAll bees {filler} wasps {filler}\n")

    def shown(query: str) -> str:
        (found,) = vault.call("memory_recall", query=query, type="keyword")["memories"]
        assert len(found["snippet"]) < 250
        return str(found["snippet"])

    assert shown("bees").startswith("All bees w0 ")
    assert shown("bees").endswith(" …")
    assert shown("wasps").startswith("… w")
    assert " wasps w0 " in shown("wasps")


def test_a_listing_begins_with_the_first_words() -> None:
    """A table or a list is told apart there too, and nothing is cut inside a word."""
    assert (
        beginning("# T\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n- x\n- y\n") == "a | b / 1 | 2 / x / y"
    )
    assert beginning("# Only\n") == "Only"
    assert beginning("") == ""
    assert beginning("word " * 100).endswith("word …")


@pytest.mark.parametrize(
    "piece", ["- ", "> ", "| ", "%%", ". ", "A: ", "- a\n  b\n", "```\n", "\\|", "a.\n"]
)
def test_any_text_is_cut_in_time(piece: str) -> None:
    """Nobody keeps a program busy with half a megabyte of marks."""

    def work(size: int) -> Steps:
        yield lambda: units(piece * (size // len(piece)))

    check_growth(work, 50_000)
