"""Secrets in texts: found by the forms that their issuers give them, named by kind, masked.

``formats`` holds the forms, ``detect`` finds and masks. Nothing here knows of
vaults; who writes, and what is shown to whom, asks.
"""
