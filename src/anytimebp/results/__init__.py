"""Frozen records of what a run found: arrays and numbers, without a reference to the run."""
