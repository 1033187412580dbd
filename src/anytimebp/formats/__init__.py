"""Files and foreign models, to and from ours; never the engine."""
