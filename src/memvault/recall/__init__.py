"""Recall: from a question to the memories that answer it.

The stages, in ``engine``: parse, look, retrieve, read the best, measure, rank,
rerank, present. Each takes plain values and returns plain values.
"""
