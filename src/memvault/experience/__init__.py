"""Experience of agents, stored as memories of three types: episodes, facts and procedures."""
