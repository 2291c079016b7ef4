"""Limit the threads of the libraries in this process."""

from __future__ import annotations

import os

BLAS_THREADS = "OPENBLAS_NUM_THREADS"
"""The environment variable with the number of BLAS threads, which numpy reads when imported."""

blas_has_one = os.environ.get(BLAS_THREADS) == "1"
"""Whether numpy's BLAS uses a single thread; set by the command line."""

MAX_SINGLE_THREADED = 2**18
"""Maximum number of multiplications that OpenBLAS computes in the calling thread.

For a query, several threads are no faster, and on a busy machine they use up to twenty times as
much CPU time.
"""
