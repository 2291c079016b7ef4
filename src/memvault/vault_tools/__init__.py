"""Read, fingerprint and trust a vault's own tools.

A tool runs only if its user trusts the exact bytes of its file, of the other files in ``tools/``,
and of the vault's files in its command. Trusted fingerprints are stored in the user's state folder.
"""
