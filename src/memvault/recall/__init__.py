"""Recall: find the memories that answer a question.

The stages, run by ``engine``: refresh the index, parse the query, retrieve candidates, compute
their features, rank, rerank, check validity, read the files and present them. Each stage takes
plain values and returns plain values. Features are computed from the sentence data stored in the
index; only files of memories that are shown are read.
"""
