"""Analyse a memory's text: what an index stores of it.

``analysis`` splits text into terms, ``languages`` detects a language, ``sentences`` finds where
sentences end, ``passages`` cuts a body into passages and blocks, ``indexed_text`` assembles the
stored fields, and ``bm25f`` and ``bm25f_arrays`` score postings.
"""
