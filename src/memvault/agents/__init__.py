"""What belongs to an agent: addresses, entries, active memory, the block for a prompt, messages."""
