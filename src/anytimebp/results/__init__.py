"""Frozen records of what a run found: arrays and numbers, no way back into the run."""
