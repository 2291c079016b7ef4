"""Secrets are known by their form and masked; whatever else is random is left alone."""

from __future__ import annotations

import hashlib
import re
import time
import uuid
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import ROOT, SHARED, examples
from growth import seconds
from made_secrets import MADE, made
from memvault.secrets.detector import BUILTIN, allows
from memvault.secrets.patterns import FORMS, SHORTEST_WORD, SecretPattern, pattern

find_secrets, masked, masked_part = BUILTIN.find, BUILTIN.masked, BUILTIN.masked_part
secret_values = BUILTIN.values

SIZES = (30_000, 120_000)
PROSE = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=300)
KINDS = st.sampled_from(sorted(MADE))


@pytest.mark.parametrize("kind", MADE)
def test_a_secret_of_each_kind_is_found_by_its_line(kind: str) -> None:
    """Keys, tokens, private keys and passwords in URLs are named by kind and line."""
    for _ in range(20):
        value, text = made(kind)
        whole = f"# Deploy\n\nUse\n{text}\nfrom now on.\n"
        (secret,) = find_secrets(whole)
        assert (secret.kind, secret.line) == (kind, 4)
        assert whole[secret.start : secret.end] == value


@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form.kind} {form.marks[0]}")
def test_what_is_looked_for_first_is_in_every_secret_of_a_form(form: SecretPattern) -> None:
    """A form's mark is in each of its secrets, and in one word with it where the form says so."""

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


@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form.kind} {form.marks[0]}")
def test_no_form_takes_the_square_of_a_texts_length(form: SecretPattern) -> None:
    """Four times a text of a form's own beginnings and letters takes about four times as long."""
    began = form.marks[0]
    for unit in (began, f" {began}", *(f"\n{began}{letter * 25}" for letter in "aA0-_.=/:@ ")):
        for front, repeated in (("", unit), (f" {began}", unit[-1])):
            short, long = (front + repeated * (size // len(repeated)) for size in SIZES)
            assert any(
                _looked(form, long) < 10 * max(_looked(form, short), 0.005) for _ in range(3)
            ), unit  # another process may slow the caches down; what is slow is slow each time


def _looked(form: SecretPattern, text: str) -> float:
    """Return the seconds of this process's own that one search takes."""
    return seconds(lambda: deque(pattern(form).finditer(text), maxlen=0))


@given(kinds=st.lists(KINDS, max_size=4), texts=st.lists(PROSE, min_size=5, max_size=5))
def test_a_masked_text_holds_no_secret(kinds: list[str], texts: list[str]) -> None:
    """Wherever secrets stand, masking takes each out, and masking again changes nothing."""
    secrets = [made(kind) for kind in kinds]
    text = "\n".join(
        [*(f"{front}\n{said}" for front, (_, said) in zip(texts, secrets, strict=False)), texts[-1]]
    )
    hidden = masked(text)
    assert not any(value in hidden for value, _ in secrets)
    assert masked(hidden) == hidden
    assert find_secrets(hidden) == []


@given(PROSE)
def test_a_text_without_secrets_stays_as_it_is(text: str) -> None:
    """What holds no secret comes back character for character."""
    if not find_secrets(text):
        assert masked(text) == text


@given(kind=KINDS, start=st.integers(0, 400), length=st.integers(0, 400))
def test_a_part_of_a_text_tells_no_part_of_its_secrets(kind: str, start: int, length: int) -> None:
    """However a text is cut, no more than a few characters of a secret are left."""
    value, said = made(kind)
    text = f"The deploy job reads this:\n\n{said}\n\nand nothing else."
    part = masked_part(text[start : start + length], secret_values(text))
    for at in range(len(value) - 7):
        assert value[at : at + 8] not in part


def test_random_texts_that_are_no_secrets_are_left_alone() -> None:
    """Hashes, ids, etags and placeholders raise no alarm."""
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


def test_the_projects_own_texts_raise_no_alarm() -> None:
    """Documents, samples and judged data, about 10,000 texts of which none holds a secret."""
    files = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("sample/**/*.md")]
    files += [*ROOT.glob("vault-template/**/*.md"), *ROOT.glob("bench/everyday/*/corpus.jsonl")]
    # Notes of real people quote keys of documentation, which cannot be told from others.
    files += (file for file in SHARED.glob("data/*/corpus.jsonl") if "real-" not in str(file))
    assert len(files) > 50
    alarms = {str(path): find_secrets(path.read_text("utf-8")) for path in files}
    assert {path: secrets for path, secrets in alarms.items() if secrets} == {}


def test_a_password_that_is_a_word_is_masked_only_in_its_url() -> None:
    """A default password is no secret, and a word that is one stays readable in the text."""
    default = "postgresql://postgres:postgres@localhost:5432/postgres"
    assert find_secrets(default) == []
    text = "See amqp://app:mountain@host/x, and climb the mountain."
    assert (
        masked(text) == "See amqp://app:[masked: password in a URL]@host/x, and climb the mountain."
    )
    for hard in ("mount4in-9x", "correcthorsebatterystaple"):
        text = f"amqp://app:{hard}@host/x and {hard} again"
        assert masked(text).count("[masked: password in a URL]") == 2


def test_a_line_may_say_that_its_secret_is_fine() -> None:
    """The words by which scanners of repositories are told so count here too."""
    _, token = made("GitHub token")
    for words in ("gitleaks:allow", "pragma: allowlist secret"):
        text = f"one\n{token}  # {words}\nthree\n"
        assert find_secrets(text) == []
        assert masked(text) == text
        assert [secret.line for secret in find_secrets(f"{text}{token}\n")] == [4]


def test_a_header_may_say_that_its_secrets_are_fine() -> None:
    """Only the one word counts, however it is written."""
    assert allows({"secrets": "Allowed "})
    for value in (None, "", "no", True, ["allowed"]):
        assert not allows({"secrets": value})


def test_a_secret_key_is_found_in_capitals_too() -> None:
    """Variables of a shell are written in capitals, with the issuer's name or without."""
    value, _ = made("AWS secret key")
    for name in ("AWS_SECRET_ACCESS_KEY", "SECRET_ACCESS_KEY", "Secret access key"):
        (secret,) = find_secrets(f"export {name}={value}")
        assert secret.kind == "AWS secret key"


def test_a_secret_that_stands_twice_is_masked_twice() -> None:
    """What is known for a secret by what stands around it is one elsewhere in the text, too."""
    value, said = made("password in a URL")
    assert value not in masked(f"{said}\n\nThe password is {value}.\n")


def test_as_many_secrets_as_there_may_be_take_no_more_than_their_share() -> None:
    """Of four times as many secrets, up to 20,000, each takes about as long."""
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


def test_dashes_before_a_web_token_do_not_stall() -> None:
    """A text of half web tokens takes no more time than grows with it."""

    def masking(many: int) -> float:
        return seconds(lambda: masked("-eyJ" * many + " .eyJ"))

    assert any(masking(50_000) < 8 * max(masking(12_500), 0.02) for _ in range(3))


@pytest.mark.parametrize("kind", MADE)
def test_a_secret_behind_a_mark_at_a_lines_beginning_is_found(kind: str) -> None:
    """A diff or a list that was pasted hides no secret behind its mark."""
    value, said = made(kind)
    for mark in ("-", "+", "> ", "* ", "- ", "\t-"):
        for text in (f"{mark}{said}", f"Text.\n{mark}{said}\n"):
            assert value.split("\n")[0] not in masked(text), text
