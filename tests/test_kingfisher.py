"""A vault may ask for more forms of secrets than the built-in ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from conftest import Run, succeeded, write
from memvault import open_vault

SETTINGS = '[secrets]\ndetector = "kingfisher"\n'
LOGIN = "curl -u admin:" + "k7Vq2mZx9LpT" + " https://api.intra.net/v1/items_1234567890"
"""What no built-in form knows."""
WITHOUT = """
import sys
sys.modules["kingfisher_sdk"] = None  # as where it is not installed
from memvault.__main__ import main
sys.exit(main())
"""


@pytest.fixture
def asking(folder: Path) -> Path:
    """A vault that asks for kingfisher."""
    write(folder, "memvault.toml", SETTINGS)
    return folder


def test_more_forms_are_known_where_a_vault_asks(asking: Path, run: Run) -> None:
    """What only kingfisher knows is warned of and masked, beside what is built in."""
    pytest.importorskip("kingfisher_sdk", reason="pip install 'memvault[secrets]'")
    write(asking, "login.md", f"# Login\n\nWe use this: {LOGIN}\n")
    made = succeeded(run("remember", "Login to the items", LOGIN, "--type", "fact"))
    assert "holds a secret now: curl auth user in line" in made.err
    told = succeeded(run("context", "how do we log in to the items", "--json")).json["context"]
    assert "k7Vq2mZx9LpT" not in told
    assert "[masked: curl auth user]" in told


def test_without_the_extra_the_built_in_forms_hold(asking: Path) -> None:
    """A vault that asks for what is not installed works, and says so."""

    def said(title: str, text: str) -> str:
        line = [sys.executable, "-c", WITHOUT, "remember", title, text, "--type", "fact"]
        done = subprocess.run(line, cwd=asking, capture_output=True, text=True, check=True)
        return done.stderr

    assert "pip install 'memvault[secrets]'" in said("Login", LOGIN)
    token = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7xY9zA1cD3eF5"
    assert "GitHub token" in said("Token", token)


def test_who_does_not_ask_does_not_wait(folder: Path, run: Run) -> None:
    """Installed or not, the extra is loaded only for a vault that asks for it."""
    assert "curl" not in succeeded(run("remember", "Login", LOGIN, "--type", "fact")).err


def test_a_vault_that_asks_changes_no_other_of_its_process(asking: Path, tmp_path: Path) -> None:
    """Of two vaults that are open at once, each finds and masks what its own settings say."""
    pytest.importorskip("kingfisher_sdk", reason="pip install 'memvault[secrets]'")
    other = tmp_path / "other"
    write(other, "memvault.toml", "version = 1\n")
    with open_vault(asking) as first, open_vault(other) as second:
        for vault, knows in ((first, True), (second, False), (first, True)):
            made = vault.call("memory_remember", title="Login to the items", content=LOGIN)
            assert any("curl auth user" in note for note in made.get("warnings", ())) is knows
            told = vault.call("context", task="how do we log in to the items")["context"]
            assert ("k7Vq2mZx9LpT" not in told) is knows
            found = vault.call("vault_doctor", only=["secret-in-text"])
            assert bool(found["findings"]) is knows
