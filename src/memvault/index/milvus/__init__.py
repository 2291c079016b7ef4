"""Keyword indexes and vectors in Milvus, a distributed engine, or in a file of milvus-lite.

Three collections contain the data of many vaults: ``NAME_words`` has a row for each block of a
memory, ``NAME_passages`` has a row with the vector of each passage, and ``NAME_memories`` has rows
with each memory's record and text. The vault's id is the partition key. Each index has its own
generation of rows, so that a new index can be uploaded while other machines read the previous one.

``client`` and ``collection_schema`` are the only modules that import pymilvus; ``engine_errors``
maps its errors, and ``deadline`` limits how long calls may take. ``keyword_rows``, ``vector_rows``
and ``text_rows`` store terms, vectors and texts; terms are encoded so that no analyzer splits them.
``published`` is the backend of a vault that this machine publishes, ``remote`` is the index of a
vault published by another machine, and ``publication`` describes a published index. ``access``
opens them if the user allowed the engine.
"""
