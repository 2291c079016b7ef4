"""Text that tools write is checked for secrets, which are detected by format and masked."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import time
import uuid
from collections import deque
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import (
    ROOT,
    SHARED,
    Run,
    called,
    examples,
    sampled,
    soak_only,
    some_of,
    succeeded,
    vault_files,
    write,
)
from copies import Copy
from growth import seconds
from made_secrets import MADE, made
from memvault import Vault, open_vault
from memvault.errors import FailedCall
from memvault.secrets.detector import BUILTIN, allows, detector_named
from memvault.secrets.patterns import FORMS, SHORTEST_WORD, SecretPattern, pattern
from memvault.settings.vault_settings import Settings
from memvault.store import secret_policy
from memvault.tools.core.registry import Tool
from tool_calls import WRITING, variants, writing_call

KEEPING = {
    *("memory_remember", "memory_compound", "memory_create", "memory_mutate", "memory_save"),
    *("store_episode", "store_fact", "update_fact", "store_procedure", "register_tool"),
    *("set_memories", "set_goals", "set_plans", "enter_space", "send_message", "push_service"),
    *("memory_today", "save_search"),
    *("memory_rename", "talk_user", "talk_agent", "talk_brain", "reply", "interact_with_agent"),
}
"""Tools that write an argument's text into a file in the vault."""
REFUSE = '[secrets]\non_write = "refuse"\n'


def remember(vault: Vault, content: str, title: str = "Deploy") -> dict[str, Any]:
    """Remember a text as a fact."""
    return vault.call("memory_remember", memoryType="fact", title=title, content=content)


def refusing(root: Path) -> None:
    """Set a vault to refuse secrets."""
    with (root / "memvault.toml").open("a") as settings:
        settings.write(REFUSE)


@pytest.mark.promise("S68")
def test_secrets_are_written_with_warning(
    vault: Vault, folder: Path, subtests: pytest.Subtests
) -> None:
    """The warning shows the kind, line and file of each secret, and never the secret."""
    for number, kind in enumerate(MADE):
        with subtests.test(kind=kind):
            value, said = made(kind)
            found = remember(vault, f"For the deploy job:\n\n{said}\n", f"Deploy {number}")
            (warning,) = found["warnings"]
            text = (folder / found["filePath"]).read_text("utf-8")
            line = text[: text.index(value)].count("\n") + 1
            assert value in text
            assert f"{found['filePath']} now contains a secret: {kind} in line {line};" in warning
            assert value not in warning
            assert "secrets: allowed" in warning
    value, _ = made("GitHub token")
    (warning,) = vault.call("save_search", name="key", query=value)["warnings"]
    assert "memvault.toml now contains a secret" in warning
    assert "gitleaks:allow" in warning
    assert "header" not in warning


def test_secrets_in_title_are_left_out_of_file_name_and_id(vault: Vault) -> None:
    """Neither a memory's file name nor its memId contains a token from its title."""
    value, _ = made("DigitalOcean token")
    done = vault.call("memory_remember", title=f"do {value}", content="x", memoryType="fact")
    tail = value.rpartition("_")[2]
    assert tail not in done["filePath"]
    assert tail not in done["memId"]


@pytest.mark.promise("S68")
def test_secrets_warning_covers_only_new_ones(vault: Vault) -> None:
    """A change near an existing secret causes no warning; adding a second one does."""
    (first, said), (_, other) = made("GitHub token"), made("Stripe key")
    assert "warnings" in remember(vault, said)
    changed = called(vault, "memory_compound", query="Deploy", modifications="Runs at noon.")
    assert "warnings" not in changed
    (warning,) = vault.call("memory_compound", query="Deploy", modifications=other)["warnings"]
    assert "Stripe key" in warning
    assert "GitHub" not in warning
    assert first not in warning


def test_secrets_allowed_by_header_do_not_cause_warning(vault: Vault, folder: Path) -> None:
    """With secrets: allowed in the header, a write is neither warned about nor refused."""
    write(folder, "fact/keys.md", "---\nid: keys\nsecrets: allowed\n---\n\n# Keys\n\nFor tests.\n")
    refusing(folder)
    _, said = made("AWS key")
    changed = called(vault, "memory_compound", query="keys", modifications=said)
    assert "warnings" not in changed


def test_secrets_check_can_be_turned_off(vault: Vault, folder: Path) -> None:
    """With on_write = "off" there is no warning."""
    write(folder, "memvault.toml", 'version = 1\n[secrets]\non_write = "off"\n')
    assert "warnings" not in remember(vault, made("AWS key")[1])


@pytest.mark.promise("S70")
def test_doctor_reports_kind_and_line_of_secrets(vault: Vault, folder: Path) -> None:
    """A finding has the kind and line of each secret, not its text; allowed ones are omitted."""
    (token, said), (_, other) = made("GitHub token"), made("Stripe key")
    write(folder, "a.md", f"# A\n\n{said}\n\n{other}\n")
    write(folder, "fine.md", f"---\nsecrets: allowed\n---\n\n{said}\n")
    write(folder, f"fact/{token}.md", "# B\n")
    write(folder, "line.md", f"# Line\n\n{said} <!-- gitleaks:allow -->\n")
    finding, named = vault.call("vault_doctor", only=["secret-in-text"])["findings"]
    assert "It contains a secret: GitHub token in its name; remove" in named["message"]
    assert (finding["filePath"], finding["severity"], finding["fix"]) == ("a.md", "warning", "")
    assert "GitHub token in line 3, Stripe key in line 5; remove it" in finding["message"]
    assert token not in str(finding)
    write(folder, "memvault.toml", 'version = 1\n[secrets]\non_write = "off"\n')
    with open_vault(folder) as other_vault:
        assert other_vault.call("vault_doctor", only=["secret-in-text"])["findings"] == []


def test_secrets_never_stop_undo(vault: Vault, folder: Path) -> None:
    """Undo restores earlier contents, with or without secrets."""
    remember(vault, made("AWS key")[1])
    vault.call("memory_forget", query="Deploy", confirm=True)
    refusing(folder)
    assert vault.call("memory_undo")["success"]
    assert (folder / "fact/deploy.md").exists()


def test_secrets_refused_write_fails_with_hint(run: Run, folder: Path) -> None:
    """The error names the kind of secret without its value, and the exit code is 1."""
    refusing(folder)
    value, said = made("GitHub token")
    ran = run("remember", "Deploy", said, "--type", "fact")
    assert ran.code == 1
    assert "memvault.toml is set to refuse secrets: GitHub token in content\n" in ran.err
    assert "hint: " in ran.err
    assert value not in ran.err
    assert not (folder / "fact").exists()


@pytest.mark.promise("S70")
def test_secrets_refusal_reports_argument_and_line(vault: Vault, folder: Path) -> None:
    """It shows which argument contains a secret, with the line in a longer argument."""
    refusing(folder)
    (token, said), (key, other) = made("GitHub token"), made("AWS key")

    def refused(tool: str, **given: Any) -> str:
        error = vault.call(tool, **given)["error"]
        assert error["code"] == "refused"
        assert not any(secret in str(error) for secret in (token, key))
        return str(error["message"]).partition("secrets: ")[2]

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


def test_secrets_spanning_several_arguments_are_refused() -> None:
    """If no single argument contains the secret, the refusal has its kind and no line."""
    value, said = made("AWS secret key")
    refusal = secret_policy.SecretRejected(
        secret_policy.added_secrets(b"", said.encode(), Settings()), BUILTIN
    )
    refusal.add_context(
        FailedCall({"metadata": {"aws_secret_access_key": value}, "title": None}, "")
    )
    start = "memvault.toml is set to refuse secrets: AWS secret key"
    assert refusal.message.endswith(start)
    refusal.add_context(FailedCall({"metadata": {said: 1}}, ""))
    assert refusal.message.endswith(
        "memvault.toml is set to refuse secrets: AWS secret key in metadata"
    )


@pytest.mark.promise("S69")
def test_secrets_refusal_rejects_the_whole_call(vault: Vault, folder: Path) -> None:
    """A call that sets several values, goals or plans is refused as a whole."""
    refusing(folder)
    value, said = made("GitHub token")
    before = vault_files(folder)
    entries = [{"key": "a", "value": "one"}, {"key": "b", "value": said}]
    goals = [{"id": "a", "description": "one"}, {"id": "b", "description": said}]
    plan = {"name": "a", "instruction": "one", "scheduledAt": "2999-01-01"}
    plans = [plan, {**plan, "name": "b", "instruction": said}]
    for tool, arguments in (
        ("set_memories", {"memories": entries}),
        ("set_goals", {"goals": goals}),
        ("set_plans", {"plans": plans}),
    ):
        found = vault.call(tool, **arguments)
        assert found["error"]["code"] == "refused"
        assert value not in str(found)
        assert vault_files(folder) == before


def holding(root: Path, secret: str) -> list[str]:
    """Return the names of a vault's files that contain a string, including machine-local ones."""
    every = (path for path in root.rglob("*") if path.is_file())
    return [str(path.relative_to(root)) for path in every if secret.encode() in path.read_bytes()]


@sampled(1)
@pytest.mark.promise("S69")
def test_every_tool_warns_of_or_refuses_secrets(
    filled: Path, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """With refuse, no secret is ever written; with warn, the result shows where it was."""
    made = shutil.copytree(filled, tmp_path / "made")
    refusing(made)
    copies = {"refuse": Copy(made, tmp_path / "refuse"), "warn": Copy(filled, tmp_path / "warn")}
    for tool in some_of(WRITING, every=3):
        if tool.name != "wait_for":
            with subtests.test(tool=tool.name):
                _writes_no_secret(tool, copies)


def _writes_no_secret(tool: Tool, copies: dict[str, Copy]) -> None:
    arguments, secret = writing_call(tool), made("GitHub token")[0]
    warned = False
    for mode, copy in copies.items():
        copy.put_back()
        root = copy.root
        with open_vault(root) as vault:
            for given in variants(arguments, lambda text: f"{text} {secret}"):
                before = vault_files(root)
                found = vault.call(tool.name, **given)
                told = [note for note in found.get("warnings", ()) if "contains a secret" in note]
                assert secret not in str(told)
                if mode == "refuse":
                    assert holding(root, secret) == [], (given, found)
                if not found["success"]:
                    assert vault_files(root) == before, (given, found)
                elif holding(root, secret):
                    assert told, (given, found)
                    assert [path for path in holding(root, secret) if "journal" in path] == []
                    warned = True
                    copy.put_back()
    assert warned == (tool.name in KEEPING)


find_secrets, masked, masked_part = BUILTIN.find, BUILTIN.masked, BUILTIN.masked_part
secret_values = BUILTIN.values

SIZES = (30_000, 120_000)
PROSE = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=300)
KINDS = st.sampled_from(sorted(MADE))


@pytest.mark.parametrize("kind", MADE)
def test_secrets_of_each_kind_are_found_with_line(kind: str) -> None:
    """Keys, tokens, private keys and passwords in URLs are reported by kind and line."""
    for _ in range(20):
        value, text = made(kind)
        whole = f"# Deploy\n\nUse\n{text}\nfrom now on.\n"
        (secret,) = find_secrets(whole)
        assert (secret.kind, secret.line) == (kind, 4)
        assert whole[secret.start : secret.end] == value


@sampled(3)
@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form.kind} {form.marks[0]}")
def test_secrets_prefilter_never_misses_a_match(form: SecretPattern) -> None:
    """Each secret contains its pattern's marker, within one word if the pattern requires it."""

    @settings(max_examples=examples(20))
    @given(st.from_regex(form.written))
    def holds(text: str) -> None:
        match = re.search(form.written, text)
        assert match is not None
        secret = match[0]
        assert any(mark in secret for mark in form.marks)
        if form.is_word:
            assert secret.split() == [secret]
            assert len(secret) >= SHORTEST_WORD

    holds()


@sampled(4)
@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form.kind} {form.marks[0]}")
def test_secrets_patterns_scan_in_linear_time(form: SecretPattern) -> None:
    """Four times as much text that resembles a secret takes about four times as long."""
    began = form.marks[0]
    for unit in (began, f" {began}", *(f"\n{began}{letter * 25}" for letter in "aA0-_.=/:@ ")):
        for front, repeated in (("", unit), (f" {began}", unit[-1])):
            short, long = (front + repeated * (size // len(repeated)) for size in SIZES)
            assert any(
                _looked(form, long) < 10 * max(_looked(form, short), 0.005) for _ in range(3)
            ), unit  # other processes may slow one run down, so the best run counts


def _looked(form: SecretPattern, text: str) -> float:
    """Return the CPU seconds of one search."""
    return seconds(lambda: deque(pattern(form).finditer(text), maxlen=0))


@pytest.mark.promise("S77")
@given(kinds=st.lists(KINDS, max_size=4), texts=st.lists(PROSE, min_size=5, max_size=5))
def test_secrets_masking_is_complete_and_idempotent(kinds: list[str], texts: list[str]) -> None:
    """Masking removes secrets at any position, and masking again changes nothing."""
    secrets = [made(kind) for kind in kinds]
    text = "\n".join(
        [*(f"{front}\n{said}" for front, (_, said) in zip(texts, secrets, strict=False)), texts[-1]]
    )
    hidden = masked(text)
    assert not any(value in hidden for value, _ in secrets)
    assert masked(hidden) == hidden
    assert find_secrets(hidden) == []


@pytest.mark.promise("S77")
@given(PROSE)
def test_secrets_masking_leaves_other_text_unchanged(text: str) -> None:
    """Text without secrets is returned unchanged."""
    if not find_secrets(text):
        assert masked(text) == text


@given(kind=KINDS, start=st.integers(0, 400), length=st.integers(0, 400))
def test_secrets_stay_masked_in_cut_text(kind: str, start: int, length: int) -> None:
    """At most a few characters of a secret remain in a text cut at any position."""
    value, said = made(kind)
    text = f"The deploy job reads this:\n\n{said}\n\nand nothing else."
    part = masked_part(text[start : start + length], secret_values(text))
    for at in range(len(value) - 7):
        assert value[at : at + 8] not in part


@pytest.mark.promise("S79")
def test_secrets_check_ignores_random_identifiers() -> None:
    """Hashes, IDs, etags and placeholders are not reported."""
    digest = hashlib.sha256(b"x").hexdigest()
    for text in (
        digest,
        f"commit {digest[:40]}",
        f"etag {digest[:20]}, use-postgresql-7g9tqh",
        str(uuid.UUID(bytes=b"0123456789abcdef")),
        "20261122T020052.865Z-6a4f63c562edffb392f2",
        "postgres://user:password@localhost/db",
        "https://user:${TOKEN}@example.com/x.git",
        "AKIA" + "IOSFODNN7EXAMPLE",
        "ghp_" + "x" * 36,
        "Authorization: Bearer YOUR_ACCESS_TOKEN_HERE",
        "-----BEGIN RSA " + "PRIVATE KEY----- begins such a file.",
        "https://host:8080/a@b",
        "mailto:joe@example.com, ssh://git@host:22/x",
    ):
        assert find_secrets(text) == [], text


@pytest.mark.promise("S79")
def test_secrets_check_reports_nothing_in_project_files() -> None:
    """About 10,000 documents, samples and judged passages without secrets cause no report."""
    files = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("sample/**/*.md")]
    files += [*ROOT.glob("vault-template/**/*.md"), *ROOT.glob("bench/everyday/*/corpus.jsonl")]
    # Real notes quote example keys from documentation, which look like real keys.
    files += (file for file in SHARED.glob("data/*/corpus.jsonl") if "real-" not in str(file))
    assert len(files) > 50
    alarms = {str(path): find_secrets(path.read_text("utf-8")) for path in files}
    assert {path: secrets for path, secrets in alarms.items() if secrets} == {}


def test_secrets_common_word_password_is_masked_only_in_url() -> None:
    """A default password is not a secret, and a common word stays readable in the text."""
    default = "postgresql://postgres:postgres@localhost:5432/postgres"
    assert find_secrets(default) == []
    text = "See amqp://app:mountain@host/x, and climb the mountain."
    assert (
        masked(text) == "See amqp://app:[masked: password in a URL]@host/x, and climb the mountain."
    )
    for hard in ("mount4in-9x", "correcthorsebatterystaple"):
        text = f"amqp://app:{hard}@host/x and {hard} again"
        assert masked(text).count("[masked: password in a URL]") == 2


def test_secrets_comment_allows_line_in_text() -> None:
    """The comments with which repository scanners allow a secret work here too."""
    _, token = made("GitHub token")
    for words in ("gitleaks:allow", "pragma: allowlist secret"):
        text = f"one\n{token}  # {words}\nthree\n"
        assert find_secrets(text) == []
        assert masked(text) == text
        assert [secret.line for secret in find_secrets(f"{text}{token}\n")] == [4]


def test_secrets_header_accepts_only_allowed() -> None:
    """Only the word allowed counts, in any letter case."""
    assert allows({"secrets": "Allowed "})
    for value in (None, "", "no", True, ["allowed"]):
        assert not allows({"secrets": value})


def test_secrets_in_uppercase_variables_are_found() -> None:
    """Uppercase shell variables are detected, with or without the issuer's name."""
    value, _ = made("AWS secret key")
    for name in ("AWS_SECRET_ACCESS_KEY", "SECRET_ACCESS_KEY", "Secret access key"):
        (secret,) = find_secrets(f"export {name}={value}")
        assert secret.kind == "AWS secret key"


def test_secrets_occurring_twice_are_masked_twice() -> None:
    """A value detected by its context is also masked elsewhere in the text."""
    value, said = made("password in a URL")
    assert value not in masked(f"{said}\n\nThe password is {value}.\n")


@soak_only
def test_secrets_masking_is_linear_in_number_of_secrets() -> None:
    """With four times as many secrets, up to 20,000, each takes about as long."""
    for front, back in (("", " "), ("http://a:", "@h "), ("Authorization: Bearer ", "\n")):

        def masking(many: int, front: str = front, back: str = back) -> float:
            numbers = range(123_456_000, 123_456_000 + many)
            text = "".join(f"{front}ghp_{number:036}{back}" for number in numbers)
            began = time.process_time()
            known = secret_values(text)
            assert "ghp_0" not in masked_part(masked(text), known)
            assert len(known) == many
            return time.process_time() - began

        assert any(masking(20_000) < 8 * max(masking(5_000), 0.05) for _ in range(3))


def test_secrets_scan_of_partial_web_tokens_is_linear() -> None:
    """Scanning a string of incomplete web tokens takes time linear in its length."""

    def masking(many: int) -> float:
        return seconds(lambda: masked("-eyJ" * many + " .eyJ"))

    assert any(masking(50_000) < 8 * max(masking(12_500), 0.02) for _ in range(3))


@pytest.mark.promise("S78")
@pytest.mark.parametrize("kind", MADE)
def test_secrets_after_diff_or_list_marker_are_found(kind: str) -> None:
    """A secret in a pasted diff or list is found despite the marker before it."""
    value, said = made(kind)
    for mark in ("-", "+", "> ", "* ", "- ", "\t-"):
        for text in (f"{mark}{said}", f"Text.\n{mark}{said}\n"):
            assert value.split("\n")[0] not in masked(text), text


SETTINGS = '[secrets]\ndetector = "kingfisher"\n'
LOGIN = "curl -u admin:" + "k7Vq2mZx9LpT" + " https://api.intra.net/v1/items_1234567890"
"""A secret that no built-in format detects."""
WITHOUT = """
import sys
sys.modules["kingfisher_sdk"] = None  # as where it is not installed
from memvault.__main__ import main
sys.exit(main())
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder for tests with kingfisher, whose rules take four seconds to compile."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def compiled(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the test load rules compiled by an earlier test."""
    monkeypatch.setenv("MEMVAULT_CACHE", str(cache))


@pytest.fixture
def asking(folder: Path, compiled: None) -> Path:
    """A vault that uses kingfisher."""
    write(folder, "memvault.toml", SETTINGS)
    return folder


def test_secrets_extra_detects_more_kinds(asking: Path, run: Run) -> None:
    """Secrets that only kingfisher detects are reported and masked as the built-in kinds are."""
    pytest.importorskip("kingfisher_sdk", reason="pip install 'memvault[secrets]'")
    write(asking, "login.md", f"# Login\n\nWe use this: {LOGIN}\n")
    made = succeeded(run("remember", "Login to the items", LOGIN, "--type", "fact"))
    assert "now contains a secret: curl auth user in line" in made.err
    told = succeeded(run("context", "how do we log in to the items", "--json")).json["context"]
    assert "k7Vq2mZx9LpT" not in told
    assert "[masked: curl auth user]" in told


@pytest.mark.promise("S86")
def test_secrets_kingfisher_finds_escaped_secrets(compiled: None) -> None:
    """A secret that only kingfisher detects is also masked if it is escaped."""
    pytest.importorskip("kingfisher_sdk", reason="pip install 'memvault[secrets]'")
    written = LOGIN.replace("k7Vq2mZ", "k7V**q2**\\u006dZ")
    assert "x9LpT" not in detector_named("kingfisher").masked(f"We use this: {written}\n")


def test_secrets_builtin_patterns_work_without_extra(asking: Path) -> None:
    """A vault that enables an extra that is not installed works and reports it."""

    def said(title: str, text: str) -> str:
        line = [sys.executable, "-c", WITHOUT, "remember", title, text, "--type", "fact"]
        done = subprocess.run(line, cwd=asking, capture_output=True, text=True, check=True)
        return done.stderr

    assert "pip install '.[secrets]'" in said("Login", LOGIN)
    token = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7xY9zA1cD3eF5"
    assert "GitHub token" in said("Token", token)


def test_secrets_extra_is_loaded_only_if_enabled(folder: Path, run: Run) -> None:
    """Even if installed, the extra is loaded only for a vault that enables it."""
    assert "curl" not in succeeded(run("remember", "Login", LOGIN, "--type", "fact")).err


@soak_only
@pytest.mark.promise("S71")
def test_secrets_extra_applies_only_to_its_vault(asking: Path, tmp_path: Path) -> None:
    """Of two vaults open in one process, each detects and masks by its own settings."""
    pytest.importorskip("kingfisher_sdk", reason="pip install 'memvault[secrets]'")
    other = tmp_path / "other"
    write(other, "memvault.toml", "version = 1\n")
    with open_vault(asking) as first, open_vault(other) as second:
        for vault, knows in ((first, True), (second, False), (first, True)):
            made = vault.call("memory_remember", title="Login to the items", content=LOGIN)
            assert any("curl auth user" in note for note in made.get("warnings", ())) is knows
            told = vault.call("context", task="the login to the items")["context"]
            assert ("k7Vq2mZx9LpT" not in told) is knows
            found = vault.call("vault_doctor", only=["secret-in-text"])
            assert bool(found["findings"]) is knows
