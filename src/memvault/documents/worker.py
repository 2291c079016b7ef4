"""Extract the text of documents: ``python -P -m memvault.documents.worker``.

The process answers requests from ``store.document_reader`` on its standard input, and exits when
the input ends. Its memory and CPU time are limited, because documents may be untrusted.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from typing import IO

from memvault import process
from memvault.documents.document_text import DocumentText, UnreadableDocument
from memvault.store.document_reader import MEMORY, REPLY, REQUEST, SECONDS


def extract(ending: str, data: bytes, encoding: str) -> DocumentText:
    """Extract a document's text; ``ending`` is its file name extension in lower case."""
    if ending == ".pdf":
        from memvault.documents import pdf

        return pdf.read(data)
    if ending in (".docx", ".pptx"):
        from memvault.documents import office

        return office.read_word(data) if ending == ".docx" else office.read_slides(data)
    if ending in (".xlsx", ".csv"):
        from memvault.documents import sheets

        if ending == ".xlsx":
            return sheets.read_workbook(data)
        return sheets.read_csv(data, encoding)
    from memvault.documents import web_pages

    return web_pages.read_book(data) if ending == ".epub" else web_pages.read_html(data, encoding)


def _answer(ending: str, data: bytes, encoding: str) -> tuple[bool, bytes]:
    """Return whether a document was read, and its text or the reason."""
    try:
        return True, extract(ending, data, encoding).encoded()
    except UnreadableDocument as error:
        reason = str(error)
    except MemoryError:
        reason = f"reading it takes more than {MEMORY >> 20} MB of memory"
    except RecursionError:
        reason = "it is nested too deeply"
    except (ValueError, OSError) as error:
        file, cause = getattr(error, "filename", None), getattr(error, "strerror", None)
        text = f"{file}: {cause}" if file and cause else str(error)
        detail = " ".join(text.split()).partition(", ")[0]  # libxml's hints follow
        reason = f"it is damaged or too complex ({detail[:200]})"
    except ImportError:
        sys.exit(1)  # Not the document's fault, so it is read again later.
    except Exception as error:  # a bug here or in a parser must not end the process
        reason = f"it is damaged ({type(error).__name__})"
    return False, reason.encode()


def _limit_memory() -> None:
    if sys.platform == "win32":
        return
    import resource

    for kind, most in ((resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_CORE, 0)):
        with contextlib.suppress(OSError, ValueError):  # not supported, as on macOS
            _, hard = resource.getrlimit(kind)
            resource.setrlimit(kind, (most, hard))


def _limit_time() -> None:
    """Limit the CPU time that this process may use for the next document."""
    if sys.platform == "win32":
        return
    import resource

    with contextlib.suppress(OSError, ValueError):
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + SECONDS, hard))


def serve(requests: IO[bytes], replies: IO[bytes]) -> None:
    """Answer requests until the input ends."""
    while len(head := requests.read(REQUEST.size)) == REQUEST.size:
        ending, encoding, data = (requests.read(length) for length in REQUEST.unpack(head))
        _limit_time()
        is_read, content = _answer(ending.decode(), data, encoding.decode())
        replies.write(REPLY.pack(is_read, len(content)) + content)
        replies.flush()


def main() -> None:
    """Answer the parent process, and leave Ctrl-C to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _limit_memory()
    with contextlib.suppress(BrokenPipeError):
        serve(sys.stdin.buffer, process.claimed_output())


if __name__ == "__main__":
    main()
