"""Vector files and nearest-neighbor search over them.

``vector_file`` writes the files, ``vector_store`` looks up their rows by text hash, and ``nearest``
searches static and transformer vectors.
"""
