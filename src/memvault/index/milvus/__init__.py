"""Words and vectors in Milvus, a distributed engine, or in milvus-lite's file.

Three collections hold those of many vaults: ``NAME_words`` a row for each block of a memory,
``NAME_passages`` a row for each passage with its vector, ``NAME_memories`` its record and text.
The vault's id is the partition key.
Each index that this machine makes has a generation of its own, so that a new one is sent beside
the one that others read.

``engine`` and ``schema`` are the only home of pymilvus; ``words`` and ``passages`` are
the parts that an index is put together from; ``terms`` spells our terms so that any analyser
leaves them whole. ``shared`` is the index of a vault that this machine sends, ``sent`` of one
that another has sent; ``copies`` are its texts, and ``card`` is what is told of it.
"""
