"""Analyze a memory's text: terms, languages, sentences, passages, and blocks for the index.

``analyzer`` splits text into terms, ``languages`` detects a language and lists its stop words,
``sentences`` finds sentence boundaries, ``passages`` cuts a body into passages and blocks, and
``sentence_blocks`` encodes the blocks for storage. ``near_copies`` finds texts that share phrases.
"""
