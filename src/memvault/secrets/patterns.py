"""Define the formats of secrets that can be distinguished from other text.

Most keys and tokens start with a prefix specific to their issuer; private keys, credentials in a
header and passwords in a URL are recognized by the surrounding text. Merely random values, such as
hashes, are not treated as secrets, because false alarms teach people to ignore warnings.
"""

from __future__ import annotations

import re
from functools import lru_cache

from memvault.named_tuple import NamedTuple

_HEX = "[0-9a-f]"
_ANY = "[A-Za-z0-9]"
_URL = "[A-Za-z0-9_-]"
_GAP = r"(?:[\s\"',>-]|\\[nr])"
"""Matches the separators between lines of a key: line ends (also escaped) and quotation marks."""
_LINE = "[A-Za-z0-9+/=]"
# Includes default passwords of servers, which are common in documentation.
_PLACEHOLDERS = frozenset(
    "password passwd pass passphrase pwd psw secret changeme example token username user "
    "mypassword yourpassword your-password your_password "
    "admin default guest mariadb minio mongo mysql postgres postgresql rabbitmq redis root "
    "test".split()
)


OUR_MARK = "mvt_"
"""The prefix of access tokens for `memvault serve`."""
SHORTEST_WORD = 20
"""Minimum length of a match of an ``is_word`` format, including its context."""


class SecretPattern(NamedTuple):
    """A format of secrets: their kind, their markers, and the pattern.

    Each match contains one of the markers. If the pattern has a group, the group is the secret. A
    match of an ``is_word`` format has no whitespace and at least ``SHORTEST_WORD`` characters,
    including its marker.
    """

    kind: str
    marks: tuple[str, ...]
    written: str
    is_token: bool = True
    is_word: bool = True


def _token(kind: str, mark: str, rest: str) -> SecretPattern:
    """Return the format of a token that starts with a marker."""
    return SecretPattern(kind, (mark,), re.escape(mark) + rest)


def _tokens(kind: str, marks: str, rest: str) -> SecretPattern:
    """Return the format of a token that starts with one of several markers."""
    each = tuple(marks.split())
    return SecretPattern(kind, each, f"(?:{'|'.join(map(re.escape, each))}){rest}")


FORMS = (
    SecretPattern(
        "private key",
        ("PRIVATE KEY",),
        rf"-----BEGIN (?:[A-Z0-9]{{2,10}} ){{0,3}}PRIVATE KEY(?: BLOCK)?-----{_GAP}{{0,20}}+"
        rf"(?:[A-Z][A-Za-z-]{{2,20}}: [^\n]{{0,200}}+{_GAP}{{1,20}}+){{0,6}}+"
        rf"{_LINE}{{40,}}+(?:{_GAP}{{1,20}}+{_LINE}{{16,}}+)*+"
        rf"(?:(?:{_GAP}{{1,20}}+{_LINE}{{1,80}}+){{0,2}}{_GAP}{{1,20}}"
        r"-----END [A-Z0-9 ]{1,40}-----)?",
        is_token=False,
        is_word=False,
    ),
    SecretPattern(
        "private key",
        ("Private-Lines: ",),
        rf"Private-Lines: \d{{1,3}}\r?\n(?:{_LINE}{{1,80}}\r?\n)+",
        is_token=False,
        is_word=False,
    ),
    SecretPattern(
        "password in a URL",
        ("://",),
        r"://[^\s:/?#@\"'<>\[\]]{0,200}:([^\s/?#\"'<>]{3,200})@(?=[\w\[])",
        is_token=False,
        is_word=False,
    ),
    SecretPattern(
        "credentials in a header",
        ("uthorization", "UTHORIZATION"),
        r"(?:[Aa]uthorization|AUTHORIZATION)[\"']?[ \t]{0,3}[:=][ \t]{0,3}[\"']?"
        r"(?:[Bb]earer|[Bb]asic|[Tt]oken)[ \t]{1,3}([A-Za-z0-9._~+/=-]{16,})",
        is_word=False,
    ),
    _tokens("AWS key", "AKIA ASIA ABIA ACCA", "[A-Z2-7]{16}"),
    SecretPattern(
        "AWS secret key",
        ("aws", "AWS", "Aws", "ecret", "ECRET"),
        r"(?:aws|AWS|Aws|[Ss]ecret|SECRET)[\w .-]{0,30}?(?:[Kk]ey|KEY)[\w\"']{0,10}"
        r"[ \t]{0,3}[:=][ \t]{0,3}[\"']?([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])",
        is_word=False,
    ),
    _token("memvault token", OUR_MARK, f"{_URL}{{43}}"),
    _tokens("GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_", f"{_ANY}{{36,255}}"),
    _token("GitHub token", "github_pat_", f"{_ANY}{{22}}_{_ANY}{{59}}"),
    _tokens(
        "GitLab token",
        "glpat- gldt- glrt- glptt- glft- glsoat- glimt- glagent- glcbt- gloas-",
        r"[\w.-]{20,}",
    ),
    _tokens("Slack token", "xoxb- xoxp- xoxa- xoxr- xoxe- xoxs- xapp-", r"\d[\w-]{20,}"),
    _token("Slack webhook", "hooks.slack.com/", r"(?:services|workflows)/([\w+/-]{30,})"),
    _tokens("Stripe key", "sk_live_ rk_live_ sk_test_ rk_test_", f"{_ANY}{{20,}}"),
    _token("Stripe key", "whsec_", r"[A-Za-z0-9+/]{32,}"),
    _tokens("OpenAI key", "sk-proj- sk-svcacct- sk-admin-", f"{_URL}{{40,}}"),
    SecretPattern("OpenAI key", ("T3BlbkFJ",), r"sk-\w{20}T3BlbkFJ\w{20}"),
    _token("Anthropic key", "sk-ant-", rf"[a-z]{{3,10}}\d\d-{_URL}{{80,}}"),
    _token("OpenRouter key", "sk-or-v1-", f"{_HEX}{{64}}"),
    _token("API key", "sk-", f"{_ANY}{{32,64}}"),
    _token("Google API key", "AIza", f"{_URL}{{35}}"),
    _token("Google client secret", "GOCSPX-", f"{_URL}{{28}}"),
    _token("Google token", "ya29.", f"{_URL}{{30,}}"),
    _token("Hugging Face token", "hf_", f"{_ANY}{{34,}}"),
    _token("Groq key", "gsk_", f"{_ANY}{{52}}"),
    _token("xAI key", "xai-", f"{_ANY}{{80}}"),
    _token("Perplexity key", "pplx-", f"{_ANY}{{48}}"),
    _token("Replicate token", "r8_", f"{_ANY}{{37}}"),
    _token("npm token", "npm_", f"{_ANY}{{36}}"),
    _token("PyPI token", "pypi-AgE", f"{_URL}{{50,}}"),
    _token("RubyGems key", "rubygems_", f"{_HEX}{{48}}"),
    _token("Docker token", "dckr_pat_", f"{_URL}{{27,}}"),
    _token("SendGrid key", "SG.", rf"{_URL}{{22}}\.{_URL}{{43}}"),
    SecretPattern("Mailchimp key", ("-us",), rf"{_HEX}{{32}}-us\d{{1,2}}"),
    _token("Mailgun key", "key-", f"{_HEX}{{32}}"),
    _tokens("Twilio key", "SK AC", f"{_HEX}{{32}}"),
    SecretPattern("Telegram token", (":AA",), rf"\d{{8,10}}:AA{_URL}{{33}}"),
    SecretPattern("Discord token", (".",), rf"[MNO]{_URL}{{23,25}}\.{_URL}{{6}}\.{_URL}{{27,40}}"),
    _token("Discord webhook", "/api/webhooks/", rf"\d{{15,20}}/({_URL}{{60,}})"),
    SecretPattern(
        "JSON web token",
        (".eyJ",),
        rf"(?:(?<![\w-])|(?<=\s-)|(?<=\A-)|(?<=\\[nrt]))eyJ{_URL}{{10,2000}}+\.eyJ{_URL}{{8,8000}}+\.{_URL}{{16,}}",
    ),
    _tokens("DigitalOcean token", "dop_v1_ doo_v1_ dor_v1_", f"{_HEX}{{64}}"),
    _tokens("Shopify token", "shpat_ shpca_ shppa_ shpss_", f"{_HEX}{{32}}"),
    _token("Databricks token", "dapi", f"{_HEX}{{32}}"),
    _tokens("Vault token", "hvs. hvb. hvr.", f"{_URL}{{24,}}"),
    _token("Terraform token", ".atlasv1.", f"{_URL}{{60,}}"),
    _tokens("Doppler token", "dp.pt. dp.st. dp.ct. dp.sa. dp.scim.", r"[\w.-]{40,}"),
    _token("age key", "AGE-SECRET-KEY-1", "[0-9A-Z]{58}"),
    _token("Grafana token", "glsa_", f"{_ANY}{{32}}_{_HEX}{{8}}"),
    _token("Linear key", "lin_api_", f"{_ANY}{{40}}"),
    _token("Notion token", "ntn_", f"{_ANY}{{40,}}"),
    _token("Figma token", "figd_", f"{_URL}{{40,}}"),
    _token("Atlassian token", "ATATT3", r"[\w=-]{100,}"),
    _tokens("Square secret", "sq0csp- sq0atp-", f"{_URL}{{22,43}}"),
    _token("Azure storage key", "AccountKey=", "([A-Za-z0-9+/]{86}==)"),
    _token("Supabase token", "sbp_", f"{_HEX}{{40}}"),
    _tokens("PlanetScale secret", "pscale_pw_ pscale_tkn_ pscale_oauth_", r"[\w.-]{32,}"),
    _token("Tailscale key", "tskey-", rf"[a-z]{{3,10}}-{_ANY}{{8,}}-{_ANY}{{20,}}"),
    _token("New Relic key", "NRAK-", "[A-Z0-9]{27}"),
    _token("Postman key", "PMAK-", f"{_HEX}{{24}}-{_HEX}{{34}}"),
    _token("Sentry token", "sntrys_", r"[\w+/=-]{60,}"),
)


@lru_cache(None)
def pattern(form: SecretPattern) -> re.Pattern[str]:
    """Return a format's compiled pattern, which never matches part of a longer word.

    The letter of an escaped line break, such as ``n``, is not part of the next word.
    """
    if not form.is_token:
        return unbounded(form)
    return re.compile(rf"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])){form.written}(?![A-Za-z0-9])")


@lru_cache(None)
def unbounded(form: SecretPattern) -> re.Pattern[str]:
    """Return a format's pattern without word boundaries, which is faster."""
    return re.compile(form.written)


def is_placeholder(form: SecretPattern, value: str) -> bool:
    """Return whether a value is a placeholder rather than a real secret."""
    folded = value.casefold()
    if form.kind == "password in a URL":
        return (
            folded in _PLACEHOLDERS or value[0] in "$%{[*" or len(set(folded)) < 3 or "}" in value
        )
    if not form.is_token:
        return False
    is_example = any(
        word in folded for word in ("example", "xxxx", "your_", "your-", "placeholder")
    )
    is_plain_word = value == folded and not any(char.isdigit() for char in value)
    return is_example or is_plain_word or value.isdigit() or len(set(value[-20:])) < 6


MASK = "[masked: "
"""The first characters of every mask."""
