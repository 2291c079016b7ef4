"""Read, write, version and trash the files in a vault.

Every write to a memory's file goes through this package. ``memory_store`` adds, changes, moves and
trashes memories; ``writer`` replaces files after ``secret_policy`` has checked their new bytes, and
``moves`` moves them. ``revisions`` stores old versions and ``trash`` stores forgotten files;
``stamps`` creates the names of both. ``change_set`` collects the changes of one call, and
``journal`` records them.
"""
