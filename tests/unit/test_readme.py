"""The README's code runs as it stands."""

import re
from pathlib import Path

from anytimebp.kernels.jit import UNCOMPILED

README = Path(__file__).resolve().parents[2] / "README.md"


def test_the_examples_run(capsys):
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 2
    exec(compile("\n".join(blocks), str(README), "exec"), {})  # noqa: S102
    assert UNCOMPILED or "converged" in capsys.readouterr().out  # plain Python uses up the examples' time budgets
