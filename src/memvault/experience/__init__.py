"""Store agents' experience as memories of three types: episodes, facts and procedures."""
