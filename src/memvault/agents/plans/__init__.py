"""Run plans: read their files, compute their schedules, and deliver due runs.

``schedule`` computes when plans are due, and ``status`` derives the status of a plan from its file
and its record. ``agent_plans`` delivers due runs under the agent's lock whenever the agent's events
are read. The runs are saved in the record together with the next due times, then delivered under
ids derived from the plan and the time, then removed from the record, so each run is delivered
exactly once.
"""
