"""Send messages between agents: inboxes, talks, spaces, and waiting for events.

Delivering an event creates a file in the inbox and takes no lock. Popping has two steps under the
agent's lock: ``inbox`` puts back the leases of killed processes and moves the events to a lease, a
folder with its own lock that the process holds. Once the caller has the result, the lease is
acknowledged: its folder moves to ``popped/`` in one rename. If the tool or its output fails, the
events are put back; after a kill, the next caller puts them back.
"""
