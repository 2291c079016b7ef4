"""Tools of a vault's own: their files, what trust in them covers, and trust itself.

A tool runs only where its user trusts exactly these bytes: the file that was
read, what else lies in ``tools/``, and the files that its command names or that
its program reads unasked. What was trusted lies in the user's state folder.
"""
