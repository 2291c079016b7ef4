"""What agents keep and say: key-values, goals, plans, inboxes, spaces, talk, waiting."""
