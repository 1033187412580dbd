"""Learning the scores of factors from labelled examples: `CRF`, in the manner of scikit-learn."""

from anytimebp.learn.crf import CRF
from anytimebp.learn.example import Example

__all__ = ["CRF", "Example"]
