"""A vault in git: a merge driver, commits, and a sync that leaves no conflict in a file.

``sync`` puts two lines of changes together outside of the working tree
(``replay``), by what a file says of itself rather than by its lines
(``merge``), and only then changes files (``checkout``). The same merge serves
``git pull`` as a merge driver (``driver``).
"""
