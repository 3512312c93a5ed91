"""Training: one iteration and its update, the loop around it, records and checkpoints, evaluation, devices."""
