"""Any request to the resident process is refused, or equals its parsed and encoded command line."""

from __future__ import annotations

from memvault.cli import command_line
from memvault.cli.daemon import client, request

TOKENS = (
    "\0", "1\0", "2\0", "0\0", "-1\0", "9" * 99, "٣\0", "strict\0", "replace\0", "terminal\0",
    "list", "recall\0", "--limit\0", "-n5\0", "--\0", "memories\0", "set\0", "hook\0prompt\0",
    "MEMVAULT_AGENT=", "MEMVAULT_STATE=", "PATH=/bin\0", "TZ=UTC", "LD_PRELOAD=x", "no_proxy=",
    "HOME", "=", "\udcff",
)  # fmt: skip
_HEAD = b"1.0 here\0001700000000000\0strict\0\0"
"""The fields before the number of arguments."""


def check(data: bytes) -> None:
    """Parse the bytes as a request, and as the part of a request after the fixed fields."""
    for body in (data, _HEAD + data):
        parsed = request.parse(body)
        if parsed is None:
            continue
        names = set(parsed.variables)
        assert all(map(client.is_sent, names))
        assert parsed.applied.keys() | parsed.compared.keys() == names
        assert parsed.applied.keys() <= client.APPLIED
        command_line.parse(parsed.arguments)
        assert request.parse(_encoded(parsed)) == parsed


def _encoded(parsed: request.Request) -> bytes:
    terminal = client.TERMINAL if parsed.has_terminal else ""
    fixed = [parsed.identity, str(parsed.milliseconds), parsed.errors, terminal]
    variables = [f"{name}={value}" for name, value in parsed.variables.items()]
    count = str(len(parsed.arguments))
    return client.encoded([*fixed, count, *parsed.arguments, *variables])
