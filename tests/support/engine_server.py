"""A Milvus server for tests: milvus-lite in a separate process that many machines can use.

    python engine_server.py FOLDER PORT [TOKEN]

It runs one call at a time, because milvus-lite cannot write concurrently. With a token it refuses
other clients with the messages of Milvus 2.6's proxy. It does not answer calls listed in the file
FOLDER.deaf; FOLDER.slow delays all others. It first prints its address.
"""

from __future__ import annotations

import base64
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import launcher

LOADED = (
    "engine_server",
    "grpc._channel",
    "grpc._server",
    "milvus_lite.adapter.grpc.servicer",
    "milvus_lite.index.sparse_factory",
    "milvus_lite.index.sparse_inverted",
    "milvus_lite.analyzer.factory",
    "milvus_lite.search.indexed_filter",
    "milvus_script",
    "pyarrow.dataset",
    "pyarrow.pandas_compat",
    "pymilvus",
)
"""Modules that the server loads, and that commands load to connect to it or to open a milvus-lite
file.
"""


class Door:
    """An interceptor that checks the token, and drops or delays calls as configured."""

    def __init__(self, token: str, folder: str) -> None:
        self._token = base64.b64encode(token.encode()).decode()
        self._deaf = Path(f"{folder}.deaf")
        self._slow = Path(f"{folder}.slow")

    def intercept_service(
        self, continuation: Callable[[Any], Any], handler_call_details: Any
    ) -> Any:
        """Continue a call, or reject it."""
        import grpc  # Only the server imports this, not each process that collects tests.

        told = dict(handler_call_details.invocation_metadata)
        name = handler_call_details.method.rpartition("/")[2]
        if self._token and told.get("authorization") != self._token:
            return grpc.unary_unary_rpc_method_handler(_refuse)
        if self._deaf.exists() and name in self._deaf.read_text("utf-8").split():
            return grpc.unary_unary_rpc_method_handler(_go)
        if self._slow.exists():
            time.sleep(float(self._slow.read_text("utf-8")))
        return continuation(handler_call_details)


def _go(_: object, context: Any) -> None:
    import grpc

    context.abort(grpc.StatusCode.UNAVAILABLE, "the server is going")


def _refuse(_: object, context: Any) -> None:
    import grpc

    context.abort(
        grpc.StatusCode.UNAUTHENTICATED,
        "auth check failure, please check username and password are correct",
    )


def serve(folder: str, port: str, token: str = "") -> None:
    """Serve until the process is killed."""
    import grpc
    from milvus_lite.adapter.grpc.servicer import MilvusServicer
    from milvus_lite.db import MilvusLite
    from pymilvus.grpc_gen import milvus_pb2_grpc

    door = Door(token, folder)
    server = grpc.server(ThreadPoolExecutor(1), interceptors=[door])
    database = MilvusLite(folder)
    milvus_pb2_grpc.add_MilvusServiceServicer_to_server(MilvusServicer(database), server)
    bound = server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    signal.signal(signal.SIGTERM, lambda *_: server.stop(5.0))
    print(f"http://127.0.0.1:{bound}", flush=True)
    server.wait_for_termination()
    database.close()


def main() -> None:
    """Run the server described by the command-line arguments."""
    serve(*sys.argv[1:])


class Server:
    """A server that a test can start, stop and restart at the same address."""

    def __init__(self, folder: Path, token: str = "") -> None:
        self._folder = folder
        self._token = token
        self.uri = ""
        self.start()

    def start(self, fresh: bool = False) -> None:
        """Start the server, and return once it answers."""
        port = self.uri.rpartition(":")[2] or "0"
        words = [str(self._folder), port, *([self._token] if self._token else [])]
        self.process = launcher.start(
            words, others=LOADED, module="engine_server", errors=False, fresh=fresh
        )
        assert self.process.stdout is not None
        self.uri = self.process.stdout.readline().decode().strip()
        assert self.uri

    def be_deaf_to(self, *calls: str) -> None:
        """Stop answering calls with the given names."""
        Path(f"{self._folder}.deaf").write_text(" ".join(calls), "utf-8")

    def be_slow(self, seconds: float) -> None:
        """Delay each later call by ``seconds``."""
        Path(f"{self._folder}.slow").write_text(str(seconds), "utf-8")

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Stop the server, gracefully or with a kill."""
        self.process.send_signal(how)
        self.process.communicate(timeout=60)


@contextmanager
def served(folder: Path, token: str = "") -> Iterator[Server]:
    """Yield a running server."""
    server = Server(folder, token)
    try:
        yield server
    finally:
        server.end(signal.SIGKILL)


if __name__ == "__main__":
    main()
