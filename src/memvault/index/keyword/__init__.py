"""The keyword index: segments of posting lists, written with Whoosh and scored by BM25F.

``segment_writer`` is a Whoosh codec, and ``segment`` reads its files without Whoosh. ``bm25f``
scores short posting lists and ``bm25f_numpy`` long ones.
"""
