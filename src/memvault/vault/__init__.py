"""The user's files: lossless headers, names, locks, exclusive create, atomic replace, trash."""
