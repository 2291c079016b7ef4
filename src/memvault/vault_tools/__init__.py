"""A vault's own tools: their files, fingerprints of their files, and the user's trust.

A tool runs only if its user trusts the exact bytes of its file, of the other files in ``tools/``,
and of the files of the vault that its command names. Trusted fingerprints are stored in the user's
state folder.
"""
