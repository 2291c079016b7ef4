"""List changes, compare revisions, and undo changes.

``log`` reads the journal and compares revisions; ``undo`` plans and applies the reversal of a
change. Both use the data recorded by ``store``.
"""
