"""Consolidation by meaning: paraphrases, reordered steps, and contradictions."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import Run, vault_files, write
from episodes import put
from memvault import Vault
from test_consolidate import consolidated, fact

WARM_UP = [
    "The plate reader gives steady values only after twenty minutes of warming up.",
    "Let the plate reader warm up for 20 min before the first measurement.",
    "Readings drift unless the plate reader has been switched on for a while.",
]


@pytest.mark.usefixtures("deep_now")
def test_paraphrased_fact_is_proposed_with_quotes(vault: Vault, folder: Path) -> None:
    """A statement paraphrased in three episodes becomes one fact, quoted from one of them."""
    put(folder, "two", reflection=f"Good. {WARM_UP[1]}")
    put(folder, "one", reflection=f"The assay went well. {WARM_UP[0]}")
    assert consolidated(vault)["facts"] == []
    put(folder, "three", context=[WARM_UP[2]], reflection="The lamp is new.")
    (new,) = consolidated(vault)["facts"]
    assert new["factText"] in WARM_UP
    assert new["episodes"] == ["one-id", "three-id", "two-id"]
    assert {quote["text"]: quote["episodeId"] for quote in new["quotes"]} == dict(
        zip(WARM_UP, ["one-id", "two-id", "three-id"], strict=True)
    )
    assert sorted([new["factText"], *new["wordings"]]) == sorted(WARM_UP)


@pytest.mark.usefixtures("deep_now")
def test_paraphrase_of_known_fact_is_not_proposed(vault: Vault, folder: Path) -> None:
    """A stored or archived fact is not proposed in the words of episodes."""
    for name, said in zip(("one", "two", "three"), WARM_UP, strict=True):
        put(folder, name, reflection=said)
    assert len(consolidated(vault)["facts"]) == 1
    fact(folder, "known", "The plate reader must warm up for twenty minutes.", "status: archived\n")
    assert consolidated(vault)["facts"] == []


ROLLBACKS = [
    [
        "Stopped all further deployments",
        "Rolled checkout back to the previous release",
        "Watched the error rate for ten minutes",
        "Told support what had happened",
    ],
    [
        "Put a stop to deployments",
        "Asked Jonas for the list of changes",
        "Rolled the search service back to the last good release",
        "Watched the errors until they had dropped",
        "Informed the support desk",
    ],
    [
        "Informed support",
        "Stopped the deployments",
        "Went back to the previous release",
        "Checked that the error rate was normal",
    ],
]


@pytest.mark.usefixtures("deep_now")
def test_paraphrased_and_reordered_actions_are_one_procedure(run: Run, folder: Path) -> None:
    """A procedure has the steps that most episodes have, in their usual order."""
    for place, actions in enumerate(ROLLBACKS):
        put(folder, f"e{place}", actions=actions)
    (new,) = run("consolidate", "--json").json["procedures"]
    steps = [line.partition(". ")[2] for line in new["prompt"].splitlines()]
    assert len(steps) == 4
    assert all(any(step in actions for actions in ROLLBACKS) for step in steps)
    assert [step.partition(" ")[0] for step in steps[1:3]] in (
        ["Rolled", "Watched"],
        ["Went", "Watched"],
        ["Went", "Checked"],
        ["Rolled", "Checked"],
    )
    assert new["episodes"] == ["e0-id", "e1-id", "e2-id"]
    assert new["varies"] == [{"text": "Asked Jonas for the list of changes", "episodeId": "e1-id"}]
    assert new["reordered"] == ["e2-id"]
    assert len(new["quotes"]) == 12
    shown = run("consolidate").out
    assert "sometimes: Asked Jonas for the list of changes  e1-id" in shown


@pytest.mark.parametrize(
    ("difference", "earlier", "later"),
    [
        ("negation", "You need the VPN to open the wiki.", "The wiki no longer needs the VPN."),
        ("negation", "The exporter writes CSV files.", "The exporter stopped writing CSV files."),
        ("negation", "Das Wiki braucht das VPN.", "Das Wiki braucht das VPN nicht mehr."),
        ("negation", "Le wiki a besoin du VPN.", "Le wiki n'a plus besoin du VPN."),
        ("negation", "El wiki necesita la VPN.", "El wiki ya no necesita la VPN."),
        (
            "weekday",
            "The mill delivers our flour on Tuesdays.",
            "Flour from the mill now comes on Thursdays.",
        ),
        ("weekday", "Die Mühle liefert Mehl am Dienstag.", "Die Mühle liefert Mehl am Freitag."),
        (
            "number",
            "The partner API lets us send 100 requests per minute.",
            "Since the upgrade we may make 250 requests per minute to the partner API.",
        ),
        ("number", "The dough rests for forty minutes.", "The dough rests for fifty-five minutes."),
        (
            "value",
            "Ines keeps the key to the cold room.",
            "Tomás now has the key for the cold room.",
        ),
        (
            "value",
            "The web team builds releases with Jenkins.",
            "The web team now builds releases with Argo.",
        ),
        ("weekday", "The market is on Monday.", "The market is on Friday."),
        ("weekday", "The market is on Monday.", "The market is now on Friday."),
        ("number", "The fee is 6.", "The fee is 8."),
        ("number", "The north gate opens at 6 am.", "The north gate opens at 8 am."),
        ("number", "The library opens at 6 am.", "The library opens at 8 am."),
        ("number", "The library opens at 6 am.", "The library opens at 6 pm."),
        ("number", "The library opens at 6 a.m. daily.", "The library opens at 6 p.m. daily."),
        ("number", "The library opens at 6.", "The library opens at 8 now."),
        (
            "number",
            "The north gate opens at 6 in the morning.",
            "The north gate opens at 8 in the morning now.",
        ),
        ("number", "Parcels take 3 days.", "Parcels take 5 days."),
        ("", "The library opens at 6 am.", "The library opens at 6:00."),
        ("", "The gate opens at 6 on weekdays.", "The gate opens at 8 on weekends."),
        ("", "Logs from 2023 are archived.", "Logs from 2024 are archived."),
        ("", "Room 12 in the tower is cold.", "Room 13 in the tower is cold."),
        ("", "The market is on Monday.", "The fish market is on Friday."),
        ("", "Today is Monday.", "Today is Friday."),
        (
            "",
            "The baguette dough rests for 40 minutes.",
            "The ciabatta dough rests for 25 minutes.",
        ),
        ("", "Freezer one is kept at 20 degrees.", "Freezer two is kept at 80 degrees."),
        ("", "The staging cluster has no GPU nodes.", "The production cluster has GPU nodes."),
        ("", "The courier does not come on Sundays.", "There is no courier on Sundays."),
        ("", "The bins are emptied on Mondays.", "The towels are collected on Wednesdays."),
        ("", "Ines orders the pipette tips.", "Tomás orders the gloves."),
        ("", "The export took 12 minutes.", "The export took 15 minutes."),
        ("", "Ports 8080 and 8081 are taken.", "Ports 9090 and 9091 are taken."),
        ("", "The invoice worker ran out of memory.", "The search worker ran out of memory."),
    ],
)
def test_contradicting_episodes_are_listed(
    vault: Vault, folder: Path, difference: str, earlier: str, later: str
) -> None:
    """Both sentences are quoted, the later one is called current; decoys are not shown."""
    put(folder, "later", reflection=later, days=1)
    put(folder, "earlier", reflection=earlier, days=3)
    result = consolidated(vault)
    assert result["facts"] == []
    assert result.get("contradictions", []) == (
        [
            {
                "difference": difference,
                "statements": [
                    {"text": earlier, "memIds": ["earlier-id"]},
                    {"text": later, "memIds": ["later-id"]},
                ],
                "current": later,
            }
        ]
        if difference
        else []
    )


def test_contradicted_fact_is_superseded(run: Run, vault: Vault, folder: Path) -> None:
    """The later statement becomes a fact that replaces the old one, and one undo reverts it."""
    old = "modified: 2026-01-01T00:00:00.000Z\n"
    fact(folder, "old", "You need the VPN to open the wiki.", old)
    put(folder, "migration", reflection="All went well. The wiki no longer needs the VPN.")
    before = vault_files(folder)
    (new,) = consolidated(vault)["facts"]
    assert (new["factText"], new["supersedes"]) == ("The wiki no longer needs the VPN.", ["old-id"])
    assert (new["confidence"], new["episodes"]) == (0.5, ["migration-id"])
    assert "replaces old-id" in run("consolidate").out
    (made,) = consolidated(vault, apply=True)["facts"]
    assert vault.call("memory_show", memId=made["factId"])["metadata"]["supersedes"] == ["old-id"]
    found = vault.call("recall_fact", query="wiki VPN")["facts"]
    assert [entry.get("supersededBy") for entry in found] == [None, made["factId"]]
    after = vault_files(folder)
    assert consolidated(vault, apply=True)["facts"] == []
    assert vault_files(folder) == after
    assert run("undo").code == 0
    assert vault_files(folder) == before


@pytest.mark.parametrize(
    ("first", "second", "third", "denied"),
    [
        (
            "The team meeting starts at 9 o'clock.",
            "The team meeting starts at 10 o'clock now.",
            "From today the team meeting begins at 9 o'clock again instead.",
            "The team meeting starts at 10 o'clock.",
        ),
        (
            "The wiki needs the VPN.",
            "The wiki no longer needs the VPN.",
            "The wiki now needs the company VPN again.",
            "The wiki does not need the VPN.",
        ),
    ],
)
def test_fact_confirmed_by_latest_statement_is_kept(
    vault: Vault, folder: Path, first: str, second: str, third: str, denied: str
) -> None:
    """After a change and its reversal, only facts that contradict the latest are replaced."""
    old = "modified: 2026-01-01T00:00:00.000Z\n"
    fact(folder, "first", first, old)
    put(folder, "changed", reflection=second, days=3)
    put(folder, "back", reflection=third, days=1)
    result = consolidated(vault)
    assert [len(entry["statements"]) for entry in result["contradictions"]] == [3]
    assert result["facts"] == []
    fact(folder, "denied", denied, old)
    (new,) = consolidated(vault)["facts"]
    assert (new["factText"], new["supersedes"]) == (third, ["denied-id"])


@pytest.mark.usefixtures("deep_now")
def test_consolidation_works_without_transformer(run: Run, folder: Path) -> None:
    """If the model cannot be loaded, paraphrases are missing and a note explains why."""
    write(folder, "memvault.toml", 'version = 1\n[embedder]\nmodel = "no/such-model"\n')
    put(folder, "earlier", reflection="You need the VPN to open the wiki.", days=3)
    put(folder, "later", reflection="The wiki no longer needs the VPN.")
    done = run("consolidate")
    assert done.code == 0
    assert "but The wiki no longer needs the VPN." in done.out
    assert "Compared without a transformer: There is no embedding model" in done.err
