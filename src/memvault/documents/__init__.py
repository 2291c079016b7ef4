"""Extract the text of documents as markdown, in a process with limits."""
