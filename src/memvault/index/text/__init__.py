"""From a memory's text to what an index stores.

``analysis`` splits text into terms, ``languages`` detects a language, ``passages`` cuts a body into
passages and blocks, ``indexed_text`` assembles the stored fields, and ``bm25f`` scores postings.
"""
