"""Plans: their files, their schedules, and the delivery of due runs.

``plans`` computes the status of each plan from its file and record, and delivers due runs under the
agent's lock whenever its events are read: due runs are saved in the record together with the next
run, then delivered under ids derived from plan and time, then removed from the record. Each run is
therefore delivered exactly once. ``schedule`` computes when plans are due.
"""
