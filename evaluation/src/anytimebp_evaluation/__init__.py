"""The evaluation of anytimebp: the paper's experiments, repeated and extended; adds `reproduce` to the command line."""
