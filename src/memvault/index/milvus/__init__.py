"""Keyword indexes and vectors in Milvus, a distributed engine, or in a file of milvus-lite.

Three collections hold the data of many vaults: ``NAME_words`` has a row for each block of a memory,
``NAME_passages`` a row for each passage with its vector, and ``NAME_memories`` rows with each
memory's record and text. The vault's id is the partition key. Each index has a generation of its
own, so that a new one can be uploaded while other machines read the old one.

``client`` is the only module that imports pymilvus. ``keyword_rows``, ``vector_rows`` and
``text_rows`` store terms, vectors and texts; terms are encoded so that any analyser leaves them
whole. ``milvus_backend`` opens the first two for an index. ``published`` is the index of a vault
that this machine publishes, ``remote`` that of a vault that another machine has published, and
``publication`` describes a published index. ``access`` opens them where the user allowed an engine.
"""
