"""Files and foreign models, to and from model and results."""
