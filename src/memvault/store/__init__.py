"""Reading, writing, versioning and discarding the files of a vault.

Every write to a memory's file goes through this package: ``memory_store`` adds, changes, moves and
discards memories; ``writer`` checks secrets and etags and replaces files; ``revisions`` keeps old
versions and the trash; ``change_set`` collects what one call changed and appends it to the journal.
"""
