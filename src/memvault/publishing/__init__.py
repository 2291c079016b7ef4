"""Indexes that are published to, or read from, an engine shared by several machines.

``publish`` uploads and deletes a vault's index, ``remote_vaults`` registers vaults that another
machine has published.
"""
