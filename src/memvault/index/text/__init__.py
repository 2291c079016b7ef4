"""Analyse a memory's text: what an index stores of it.

``analysis`` splits text into terms, ``languages`` detects a language, ``sentences`` finds where
sentences end, ``passages`` cuts a body into passages and blocks, ``indexed_text`` assembles the
stored fields, and ``keyword_ranking`` ranks memories by their postings (``bm25f``,
``bm25f_arrays``).
"""
