"""How many threads the libraries of this process use."""

blas_has_one = False
"""Whether numpy's BLAS was told to use one thread, as the command line does."""
