"""Plans: their files, when they run, and how they fire.

``agenda`` works out from file and record how each plan stands. ``firing`` runs
under the agent's lock, when someone looks for events: what is due is entered in
the record together with the next run, then delivered under ids made of plan and
moment, then crossed out. So each run is delivered exactly once.
"""
