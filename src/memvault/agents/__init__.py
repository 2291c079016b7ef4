"""Manage the state of agents: addresses, values, goals, plans, messages, active memory, prompts."""
