"""Recall: from a question to the memories that answer it.

The stages, in ``engine``: look, parse, retrieve, compare, rank, rerank, judge
what is current, read and present. Each takes plain values and returns plain
values. What is compared is what the index keeps of a memory's sentences; only
what is shown is read.
"""
