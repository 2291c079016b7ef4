"""The log of changes, differences between revisions, and undo.

``log`` reads the journal and compares revisions; ``undo`` plans and applies the reversal of a
change. Both read what ``store`` recorded.
"""
