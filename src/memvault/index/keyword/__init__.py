"""The keyword index: segments of posting lists, written with Whoosh and scored by BM25F.

``segment_writer`` is a Whoosh codec, ``segment`` reads its files without Whoosh, ``bm25f`` scores
posting lists and ``bm25f_numpy`` does so for long ones.
"""
