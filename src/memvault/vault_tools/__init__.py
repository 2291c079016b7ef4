"""A vault's own tools: their files, fingerprints of what they run, and the user's trust.

A tool runs only if its user trusts exactly these bytes: the tool's file, the other files in
``tools/``, and the files of the vault that its command names. Trusted
fingerprints are stored in the user's state folder.
"""
