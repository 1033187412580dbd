"""The numbers of all factors over the active states, and the messages of a run."""
