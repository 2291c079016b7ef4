"""What agents say to each other: inboxes, talk, spaces, and waiting for it."""
