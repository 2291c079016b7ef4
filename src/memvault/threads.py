"""How many threads the libraries of this process use."""

from __future__ import annotations

import os

BLAS_THREADS = "OPENBLAS_NUM_THREADS"
"""The variable from which numpy's BLAS takes its number of threads when it is loaded."""

blas_has_one = os.environ.get(BLAS_THREADS) == "1"
"""Whether numpy's BLAS uses one thread, as the command line tells it to."""
