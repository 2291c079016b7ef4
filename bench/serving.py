#!/usr/bin/env python3
"""Measure a served vault: response times for one agent, and under load.

    python bench/serving.py [--memories 2000] [--calls 400] [--workers 0,2] [--beside ../other/src]
    python bench/serving.py --heavy 12

The vault is from ``corpus.py``. Each client is a thread with one connection, like an agent; it
calls ``memory_recall`` over HTTP, each time with another question, and sends the next when it has
the answer. For comparison, one ``memvault recall`` runs as a whole process. Each worker count, and
with ``--beside`` the program of another checkout, gets the same requests in turn. With
``MEMVAULT_DEEP=auto`` all deep vectors are computed first.

With ``--heavy``, one token recalls, first alone and then while another token runs that many
concurrent heavy reads: ``vault_review``, ``vault_stats``, consolidation, and lists and recalls of a
thousand memories.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import multiprocessing
import os
import re
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from statistics import median, quantiles

import corpus
from processes import machine, memvault, prepare_environment, started, workplace

CLIENTS = (1, 8, 32)
_WARM_UP = 8.0
"""Seconds that heavy reads run before the other token's requests are measured."""
_HALVES = 2
"""Number of times that a token is measured alone and then together with others."""
_ROUNDS = 5
"""The number of rounds in which two programs receive requests in turn."""
HEAVY: tuple[tuple[str, dict[str, object]], ...] = (
    ("vault_review", {}),
    ("memory_recall", {"query": "harbour", "limit": 1_000, "budget": 0}),
    ("vault_stats", {}),
    ("memory_recall", {"isAll": True, "limit": 1_000}),
    ("consolidate_memories", {"days": 10_000}),
    ("memory_list", {"limit": 5_000}),
)
"""Reads that take seconds, which the clients of the other token call in turn."""
_HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2026-07-28",
    "Mcp-Method": "tools/call",
}
_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


@contextmanager
def served(source: str, workers: int) -> Iterator[int]:
    """Serve every named vault, with the current program or another source; yield the port."""
    environment = {**os.environ, **({"PYTHONPATH": source} if source else {})}
    line = [*started(), "serve", "--http", ":0", "--rate", "100000", "--calls", "100"]
    line += ["--audit", os.devnull, "--tools", "all"]
    line += ["--workers", str(workers)] if workers else []
    with subprocess.Popen(line, stderr=subprocess.PIPE, env=environment) as process:
        assert process.stderr is not None
        found = re.search(rb":(\d+)/mcp", process.stderr.readline())
        assert found is not None
        try:
            yield int(found[1])
        finally:
            process.terminate()


def called(connection: http.client.HTTPConnection, token: str, tool: str, **given: object) -> float:
    """Call a tool; return the response time in seconds."""
    params = {"name": tool, "arguments": given, "_meta": _META}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    headers = {**_HEADERS, "Mcp-Name": tool, "Authorization": f"Bearer {token}"}
    begun = time.perf_counter()
    connection.request("POST", "/mcp", body, headers)
    answer = connection.getresponse().read()
    spent = time.perf_counter() - begun
    if not answer.startswith(b"{"):  # slow calls return a stream
        answer = answer.rpartition(b"\ndata: ")[2]
    assert json.loads(answer)["result"]["structuredContent"]["success"], answer[:500]
    return spent


def client(port: int, token: str, questions: list[str]) -> list[float]:
    """Ask questions over one connection; return the response time of each in seconds."""
    with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
        return [called(connection, token, "memory_recall", query=text) for text in questions]


def at_once(
    port: int, token: str, queries: list[str], many: int, asked: int
) -> tuple[float, list[float]]:
    """Let many clients ask questions at once; return the total and each response time."""
    following = itertools.cycle(queries)
    each = [list(itertools.islice(following, max(asked, 1))) for _ in range(many)]
    begun = time.perf_counter()
    with ThreadPoolExecutor(many) as pool:
        times = list(itertools.chain(*pool.map(lambda texts: client(port, token, texts), each)))
    return time.perf_counter() - begun, times


def keep_reading(port: int, token: str, many: int) -> None:
    """Keep the given number of heavy reads running until the process ends."""
    os.nice(19)  # as if the clients were on another machine

    def keep_calling(number: int) -> None:
        with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
            for tool, given in itertools.cycle(HEAVY[number % len(HEAVY) :] + HEAVY):
                called(connection, token, tool, **given)

    with ThreadPoolExecutor(many) as pool:
        for running in [pool.submit(keep_calling, number) for number in range(many)]:
            running.result()


@contextmanager
def heavy_reads(port: int, token: str, many: int) -> Iterator[None]:
    """Keep the given number of heavy reads running during the block, in another process."""
    reading = multiprocessing.get_context("fork").Process(
        target=keep_reading, args=(port, token, many)
    )
    reading.start()
    try:
        time.sleep(_WARM_UP)
        yield
        assert reading.is_alive()
    finally:
        reading.kill()
        reading.join()


def beside_heavy(
    name: str, port: int, tokens: tuple[str, str], queries: list[str], many: int, calls: int
) -> None:
    """Print the first token's response times, alone and during heavy reads."""
    quiet, busy = tokens
    at_once(port, quiet, queries, 4, 3)  # let each worker open the vault
    alone: list[float] = []
    beside: list[float] = []
    for _ in range(_HALVES):
        asked = list(itertools.islice(itertools.cycle(queries), calls // 2 // _HALVES))
        alone += client(port, quiet, asked)
        with heavy_reads(port, busy, many):
            beside += client(port, quiet, asked)
    for what, times in (("alone", alone), (f"beside {many} heavy reads", beside)):
        late = quantiles(times, n=20)[-1]
        factor = f"{median(times) / median(alone):.1f} | {late / quantiles(alone, n=20)[-1]:.1f}"
        shown = f"{median(times) * 1000:.0f} | {late * 1000:.0f} | {factor}"
        print(f"| {name}, {what} | {shown} |", flush=True)


def compare(ports: dict[str, int], token: str, queries: list[str], calls: int) -> None:
    """Print the response times of each server for one and for many clients."""
    for port in ports.values():
        at_once(port, token, queries, 8, 3)
    for many in CLIENTS:
        times: dict[str, list[float]] = {name: [] for name in ports}
        spent = dict.fromkeys(ports, 0.0)
        for turn in range(_ROUNDS):
            for name in list(ports)[:: 1 if turn % 2 else -1]:
                asked = max(calls // many // _ROUNDS, 2)
                took, answers = at_once(ports[name], token, queries, many, asked)
                spent[name] += took
                times[name] += answers
        who = "1 client" if many == 1 else f"{many} clients at once"
        for name, own in times.items():
            late = quantiles(own, n=20)[-1] * 1000
            rate = len(own) / spent[name]
            print(f"| {who}, {name} | {median(own) * 1000:.0f} | {late:.0f} | {rate:.0f} |")


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--memories", type=int, default=2_000)
    parser.add_argument("--calls", type=int, default=400)
    parser.add_argument("--workers", default="0,2", help="how many processes read")
    parser.add_argument("--beside", default="", help="the src folder of another checkout")
    parser.add_argument("--heavy", type=int, default=0, help="heavy reads of another token")
    wished = parser.parse_args()
    with workplace(None) as place:
        prepare_environment(place / "cache")
        os.environ["MEMVAULT_CONFIG"] = str(place / "config")
        vault = place / "vault"
        made = corpus.write(vault, wished.memories, 1)
        queries = made["queries"]
        assert isinstance(queries, list)
        memvault("init", "--bare", str(vault))
        memvault("vaults", "add", "bench", str(vault))
        line = ["tokens", "add", "bench", "--vaults", "bench", "--scope", "write", "--json"]
        token = json.loads(memvault(*line).output)["token"]
        line[2] = "busy"
        busy = json.loads(memvault(*line).output)["token"]
        memvault("recall", "anything", "--vault", str(vault))
        if os.environ["MEMVAULT_DEEP"] != "off":
            memvault("reindex", "--vault", str(vault))
        print(f"{machine()}; {wished.memories:,} memories\n")
        sources = {
            f"--workers {number}": ("", number) for number in map(int, wished.workers.split(","))
        }
        if wished.beside:
            sources |= {
                f"beside, {name}": (wished.beside, each[1]) for name, each in sources.items()
            }
        if wished.heavy:
            print("| | median ms | 95 % ms | median, times alone | 95 %, times alone |")
            print("|---|--:|--:|--:|--:|")
            for name, each in sources.items():
                with served(*each) as port:
                    beside_heavy(name, port, (token, busy), queries, wished.heavy, wished.calls)
            return
        lines = [memvault("recall", text, "--vault", str(vault)).seconds for text in queries[:15]]
        print("| who asks | median ms | 95 % ms | answers a second |\n|---|--:|--:|--:|")
        print(f"| `memvault recall`, a process each | {median(lines) * 1000:.0f} | | |")
        with ExitStack() as stack:
            ports = {name: stack.enter_context(served(*each)) for name, each in sources.items()}
            compare(ports, token, queries, wished.calls)


if __name__ == "__main__":
    main()
