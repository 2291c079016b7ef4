"""Secrets in texts: detected by the formats of their issuers, named by kind, and masked.

``patterns`` defines the formats, ``detector`` finds and masks secrets. Nothing here depends on
vaults; the callers that write or show texts use it.
"""
