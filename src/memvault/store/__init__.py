"""Reading, writing, versioning and discarding the files of a vault.

Every write to a memory's file goes through this package: ``memory_store`` adds, changes, moves and
discards memories; ``writer`` replaces files after ``secret_policy`` has checked their new bytes,
``moves`` moves them. ``revisions`` keeps old versions, ``trash`` forgotten files, both named by
``stamps``. ``change_set`` collects what one call changed; ``journal`` records it.
"""
