"""Secrets of every kind, generated at run time so that no file of the project contains one."""

from __future__ import annotations

import random
import string
from collections.abc import Callable

_ANY = string.ascii_letters + string.digits
_URL = _ANY + "_-"
_HEX = "0123456789abcdef"
_BASE64 = _ANY + "+/"
_BASE32 = string.ascii_uppercase + "234567"
_chance = random.Random(20261122)


def _of(letters: str, *lengths: int, between: str = "-") -> str:
    return between.join("".join(_chance.choice(letters) for _ in range(n)) for n in lengths)


def _key(name: str) -> str:
    lines = "\n".join(_of(_BASE64, 64) for _ in range(5))
    return f"-----BEGIN {name}-----\n{lines}\n{_of(_BASE64, 22)}==\n-----END {name}-----"


def _web_token() -> str:
    head = "eyJ" + "hbGciOiJIUzI1NiJ9"
    return f"{head}.eyJ{_of(_URL, 30)}.{_of(_URL, 43)}"


MADE: dict[str, tuple[str, Callable[[], str]]] = {
    "AWS key": ("", lambda: "AKIA" + _of(_BASE32, 16)),
    "AWS secret key": ("aws_secret_access_key = ", lambda: _of(_BASE64, 40)),
    "GitHub token": ("", lambda: "ghp_" + _of(_ANY, 36)),
    "GitLab token": ("", lambda: "glpat-" + _of(_URL, 20)),
    "Slack token": ("", lambda: "xoxb-" + _of(string.digits, 12, 13) + "-" + _of(_ANY, 24)),
    "memvault token": ("", lambda: "mvt_" + _of(_URL, 43)),
    "Stripe key": ("", lambda: "sk_live_" + _of(_ANY, 24)),
    "OpenAI key": ("", lambda: "sk-proj-" + _of(_ANY, 74) + "T3BlbkFJ" + _of(_ANY, 74)),
    "Anthropic key": ("", lambda: "sk-ant-api03-" + _of(_ANY, 95)),
    "Google API key": ("", lambda: "AIza" + _of(_ANY, 35)),
    "Hugging Face token": ("", lambda: "hf_" + _of(string.ascii_letters, 34)),
    "npm token": ("", lambda: "npm_" + _of(_ANY, 36)),
    "PyPI token": ("", lambda: "pypi-AgE" + _of(_ANY, 70)),
    "SendGrid key": ("", lambda: "SG." + _of(_ANY, 22, 43, between=".")),
    "Twilio key": ("", lambda: "SK" + _of(_HEX, 32)),
    "Telegram token": ("", lambda: _of("123456789", 10) + ":AA" + _of(_ANY, 33)),
    "JSON web token": ("", _web_token),
    "DigitalOcean token": ("", lambda: "dop_v1_" + _of(_HEX, 64)),
    "Vault token": ("", lambda: "hvs." + _of(_ANY, 90)),
    "age key": ("", lambda: "AGE-SECRET-KEY-1" + _of(_BASE32, 58)),
    "Azure storage key": ("AccountKey=", lambda: _of(_BASE64, 86) + "=="),
    "private key": ("", lambda: _key("RSA " + "PRIVATE KEY")),
    "credentials in a header": ("Authorization: Bearer ", lambda: _of(_ANY, 40)),
    "password in a URL": ("postgres://app:", lambda: _of(_ANY, 14)),
}
"""The prefix of a secret of each kind, and a generator of such secrets."""


def made(kind: str) -> tuple[str, str]:
    """Return a fresh secret, and a string that contains it."""
    front, make = MADE[kind]
    value = make()
    while "xxxx" in value.lower():  # It would count as a placeholder.
        value = make()
    back = "@db.example.com/app" if kind == "password in a URL" else ""
    return value, f"{front}{value}{back}"


def pieces(secret: str, text: str) -> list[str]:
    """Return the pieces of a secret, each eight characters long, that are in a string."""
    parts = {line[at : at + 8] for line in secret.split("\n") for at in range(len(line) - 7)}
    return [part for part in parts if part in text and "--" not in part]
