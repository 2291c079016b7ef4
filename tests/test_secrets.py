"""What a tool writes is looked at for secrets: it warns, refuses, or is told that all is well."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import Run, write
from copies import Copy
from made_secrets import MADE, made
from memvault import Vault, open_vault
from memvault.errors import FailedCall
from memvault.secrets.detector import BUILTIN
from memvault.store import writer
from memvault.tools.core.registry import Tool
from test_undo import files
from tool_calls import WRITING, writing_call

KEEPING = {
    *("memory_remember", "memory_compound", "memory_create", "memory_mutate", "memory_save"),
    *("store_episode", "store_fact", "update_fact", "store_procedure", "register_tool"),
    *("set_memories", "set_goals", "set_plans", "enter_space", "send_message", "push_service"),
    *("memory_rename", "talk_user", "talk_agent", "talk_brain", "reply", "interact_with_agent"),
}
"""Tools that write what they are told into a file of the vault."""
REFUSE = '[secrets]\non_write = "refuse"\n'


def remember(vault: Vault, content: str, title: str = "Deploy") -> dict[str, Any]:
    """Remember something as a fact."""
    return vault.call("memory_remember", memoryType="fact", title=title, content=content)


def refusing(root: Path) -> None:
    """Set a vault to refuse secrets."""
    with (root / "memvault.toml").open("a") as settings:
        settings.write(REFUSE)


def test_a_secret_is_written_with_a_warning(
    vault: Vault, folder: Path, subtests: pytest.Subtests
) -> None:
    """The result says which kind stands in which line of which file, and never the secret."""
    for number, kind in enumerate(MADE):
        with subtests.test(kind=kind):
            value, said = made(kind)
            found = remember(vault, f"For the deploy job:\n\n{said}\n", f"Deploy {number}")
            (warning,) = found["warnings"]
            text = (folder / found["filePath"]).read_text("utf-8")
            line = text[: text.index(value)].count("\n") + 1
            assert value in text
            assert f"{found['filePath']} holds a secret now: {kind} in line {line};" in warning
            assert value not in warning
            assert "secrets: allowed" in warning


def test_a_secret_in_a_title_is_in_no_name(vault: Vault) -> None:
    """Neither the file's name nor the memId of a memory holds the token that its title does."""
    value, _ = made("DigitalOcean token")
    done = vault.call("memory_remember", title=f"do {value}", content="x", memoryType="fact")
    tail = value.rpartition("_")[2]
    assert tail not in done["filePath"]
    assert tail not in done["memId"]


def test_only_what_is_new_is_warned_of(vault: Vault) -> None:
    """A change beside a secret that stood there before says nothing of it; a second one counts."""
    (first, said), (_, other) = made("GitHub token"), made("Stripe key")
    assert "warnings" in remember(vault, said)
    changed = vault.call("memory_compound", query="Deploy", modifications="Runs at noon.")
    assert changed["success"]
    assert "warnings" not in changed
    (warning,) = vault.call("memory_compound", query="Deploy", modifications=other)["warnings"]
    assert "Stripe key" in warning
    assert "GitHub" not in warning
    assert first not in warning


def test_a_memory_may_say_that_its_secrets_are_fine(vault: Vault, folder: Path) -> None:
    """With secrets: allowed in the header nothing is said, and nothing refused."""
    write(folder, "fact/keys.md", "---\nid: keys\nsecrets: allowed\n---\n\n# Keys\n\nFor tests.\n")
    refusing(folder)
    _, said = made("AWS key")
    changed = vault.call("memory_compound", query="keys", modifications=said)
    assert changed["success"]
    assert "warnings" not in changed


def test_a_line_may_say_that_its_secret_is_fine(vault: Vault, folder: Path) -> None:
    """What scanners of repositories are told on a line holds here too."""
    refusing(folder)
    _, said = made("AWS key")
    found = remember(vault, f"{said} # gitleaks:allow")
    assert found["success"]
    assert "warnings" not in found


def test_a_vault_may_not_look_for_secrets(vault: Vault, folder: Path) -> None:
    """With on_write = "off" nothing is said."""
    write(folder, "memvault.toml", 'version = 1\n[secrets]\non_write = "off"\n')
    assert "warnings" not in remember(vault, made("AWS key")[1])


def test_doctor_tells_of_secrets_that_a_person_wrote(vault: Vault, folder: Path) -> None:
    """A finding names the kind and line of each, and no secret; what is said to be fine is not."""
    (token, said), (_, other) = made("GitHub token"), made("Stripe key")
    write(folder, "a.md", f"# A\n\n{said}\n\n{other}\n")
    write(folder, "fine.md", f"---\nsecrets: allowed\n---\n\n{said}\n")
    write(folder, f"fact/{token}.md", "# B\n")
    write(folder, "line.md", f"# Line\n\n{said} <!-- gitleaks:allow -->\n")
    finding, named = vault.call("vault_doctor", only=["secret-in-text"])["findings"]
    assert "It holds a secret: GitHub token in its name; take" in named["message"]
    assert (finding["filePath"], finding["severity"], finding["fix"]) == ("a.md", "warning", "")
    assert "GitHub token in line 3, Stripe key in line 5; take it out" in finding["message"]
    assert token not in str(finding)
    write(folder, "memvault.toml", 'version = 1\n[secrets]\non_write = "off"\n')
    with open_vault(folder) as other_vault:
        assert other_vault.call("vault_doctor", only=["secret-in-text"])["findings"] == []


def test_an_undo_is_never_refused(vault: Vault, folder: Path) -> None:
    """What undo brings back was there before, secret or not."""
    remember(vault, made("AWS key")[1])
    vault.call("memory_forget", query="Deploy", confirm=True)
    refusing(folder)
    assert vault.call("memory_undo")["success"]
    assert (folder / "fact/deploy.md").exists()


def test_a_refusal_is_a_failure_with_a_hint(run: Run, folder: Path) -> None:
    """The shell says what was refused, and not the secret; the exit code is 1."""
    refusing(folder)
    value, said = made("GitHub token")
    ran = run("remember", "Deploy", said, "--type", "fact")
    assert ran.code == 1
    assert "A secret is not written, as memvault.toml says: GitHub token in content\n" in ran.err
    assert "hint: " in ran.err
    assert value not in ran.err
    assert not (folder / "fact").exists()


def test_a_refusal_names_the_arguments_that_hold_a_secret(vault: Vault, folder: Path) -> None:
    """It says which argument it is, and the line of a longer one; never a line of no file."""
    refusing(folder)
    (token, said), (key, other) = made("GitHub token"), made("AWS key")

    def refused(tool: str, **given: Any) -> str:
        error = vault.call(tool, **given)["error"]
        assert error["code"] == "refused"
        assert not any(secret in str(error) for secret in (token, key))
        return str(error["message"]).partition("says: ")[2]

    new = {"title": "T", "content": "x", "memoryType": "fact"}
    assert refused("memory_remember", **{**new, "title": said}) == "GitHub token in title"
    assert refused("memory_remember", **{**new, "tags": ["a", said]}) == "GitHub token in tags[1]"
    long = {**new, "title": other, "content": f"One\n\n{said}\n"}
    assert (
        refused("memory_remember", **long) == "AWS key in title, GitHub token in line 3 of content"
    )
    several = [{"key": "a", "value": "b"}, {"key": said, "value": other}]
    places = "GitHub token in memories[1].key, AWS key in memories[1].value"
    assert refused("set_memories", memories=several) == places
    many = "\n".join([f"{made('AWS key')[1]}" for _ in range(7)])
    assert refused("memory_remember", **{**new, "content": many}).endswith("of content, and 2 more")


def test_a_secret_that_only_the_whole_file_shows_is_named_by_its_kind() -> None:
    """Where no argument holds it alone, the refusal has the kind and no line."""
    value, said = made("AWS secret key")
    refusal = writer.SecretRejected(writer.added_secrets(b"", said.encode()), BUILTIN)
    refusal.add_context(
        FailedCall({"metadata": {"aws_secret_access_key": value}, "title": None}, "")
    )
    assert refusal.message.endswith("memvault.toml says: AWS secret key")
    refusal.add_context(FailedCall({"metadata": {said: 1}}, ""))
    assert refusal.message.endswith("memvault.toml says: AWS secret key in metadata")


def test_of_several_texts_none_is_written_where_one_is_refused(vault: Vault, folder: Path) -> None:
    """A call that sets several values, goals or plans is refused as a whole."""
    refusing(folder)
    value, said = made("GitHub token")
    before = files(folder)
    entries = [{"key": "a", "value": "one"}, {"key": "b", "value": said}]
    goals = [{"id": "a", "description": "one"}, {"id": "b", "description": said}]
    plan = {"name": "a", "instruction": "one", "scheduledAt": "2999-01-01"}
    plans = [plan, {**plan, "name": "b", "instruction": said}]
    for tool, given in (
        ("set_memories", {"memories": entries}),
        ("set_goals", {"goals": goals}),
        ("set_plans", {"plans": plans}),
    ):
        found = vault.call(tool, **given)
        assert found["error"]["code"] == "refused"
        assert value not in str(found)
        assert files(folder) == before


def replaced(value: Any, secret: str) -> Iterator[Any]:
    """Yield a value once for each text in it, with a secret behind that text."""
    if isinstance(value, str):
        yield f"{value} {secret}"
    elif isinstance(value, list):
        for at, entry in enumerate(value):
            yield from ([*value[:at], new, *value[at + 1 :]] for new in replaced(entry, secret))
    elif isinstance(value, dict):
        for key, entry in value.items():
            yield from ({**value, key: new} for new in replaced(entry, secret))


def holding(root: Path, secret: str) -> list[str]:
    """Name the files of a vault that hold a text, those of this machine too."""
    every = (path for path in root.rglob("*") if path.is_file())
    return [str(path.relative_to(root)) for path in every if secret.encode() in path.read_bytes()]


def test_no_tool_writes_a_secret_that_is_refused_or_unsaid(
    filled: Path, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """With refuse a tool writes all or nothing, and no secret; with warn it says where it did."""
    made = shutil.copytree(filled, tmp_path / "made")
    refusing(made)
    copies = {"refuse": Copy(made, tmp_path / "refuse"), "warn": Copy(filled, tmp_path / "warn")}
    for tool in WRITING:
        if tool.name != "wait_for":
            with subtests.test(tool=tool.name):
                _writes_no_secret(tool, copies)


def _writes_no_secret(tool: Tool, copies: dict[str, Copy]) -> None:
    arguments = writing_call(tool)
    warned = False
    for mode, copy in copies.items():
        copy.put_back()
        root = copy.root
        with open_vault(root) as vault:
            for given in replaced(arguments, secret := made("GitHub token")[0]):
                before = files(root)
                found = vault.call(tool.name, **given)
                told = [note for note in found.get("warnings", ()) if "holds a secret" in note]
                assert secret not in str(told)
                if mode == "refuse":
                    assert holding(root, secret) == [], (given, found)
                if not found["success"]:
                    assert files(root) == before, (given, found)
                elif holding(root, secret):
                    assert told, (given, found)
                    assert [path for path in holding(root, secret) if "journal" in path] == []
                    warned = True
                    copy.put_back()
    assert warned == (tool.name in KEEPING)
