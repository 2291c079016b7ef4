"""Sources to import, made in the format that each program documents.

Each module makes the source of one kind: ``make(folder)`` writes it and returns the path to import.
Its docstring names the version of the format and where that is documented.
"""
