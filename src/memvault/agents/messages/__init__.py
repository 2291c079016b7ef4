"""What agents say to each other: inboxes, talk, spaces, and waiting for it.

Delivering creates a file in the inbox and takes no lock. Taking has two steps,
under the agent's lock: ``inbox`` puts back what dead takers left, fires due
plans and moves the events into a lease, a folder whose own lock the process
holds (``leases``). Once the caller has the result, the lease is settled: its
folder moves to ``popped/`` at one stroke. Where the tool or its output fails
the events go back; after a kill the next taker puts them back.
"""
