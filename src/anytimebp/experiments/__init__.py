"""The paper's evaluation, repeated and extended: models, measurements, figures and pages; `anytimebp reproduce`."""
