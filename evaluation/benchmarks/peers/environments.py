"""The peers, the packages of each, and the call of one on one model, which never raises."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

HERE = Path(__file__).parent
OWN = "anytimebp"
SECONDS_LIMIT = 60  # for stating the model, compiling and all rounds
SETTINGS = {
    "PYTHONHASHSEED": "0",  # pgmpy's cliques come in the order of hashes
    "MALLOC_TRIM_THRESHOLD_": str(2**30),  # as `timing.keep_freed_memory`, without which pyAgrum takes up to 3 times
    "MALLOC_MMAP_THRESHOLD_": str(2**25),  # as long on tables of 250 x 250: page faults
}
PACKAGES = {  # calls of pip, in order
    "pgmax": [
        # JAX 0.4.30 is among the last that PGMax runs on; its own requirements bring in TensorFlow and Jupyter
        ["numpy==1.26.4", "scipy==1.13.1", "numba==0.68.1", "jax==0.4.30", "jaxlib==0.4.30"],
        ["--no-deps", "pgmax==0.6.1"],
    ],
    "pomegranate": [["torch==2.13.0", "numpy==2.4.6"], ["pomegranate==1.1.2"]],
    "pyagrum": [["pyagrum==3.3.1", "numpy==2.4.6"]],
    "pgmpy": [["pgmpy==1.1.2", "numpy==2.4.6", "scipy==1.17.1", "pandas==3.1.1", "networkx==3.6.1"]],
}


class Peer(NamedTuple):
    """One way to get marginals.

    Attributes:
        name: In tables.
        library: Whose environment and script it takes.
        builder: Its name in the script.
        exact: Whether it finds exact marginals, not those of BP, where there are loops.
    """

    name: str
    library: str
    builder: str = "bp"
    exact: bool = False


PEERS = [
    Peer("PGMax", "pgmax"),
    Peer("pomegranate", "pomegranate"),
    Peer("pyAgrum", "pyagrum"),
    Peer("pgmpy, junction tree", "pgmpy", "junction tree", exact=True),
    Peer("pgmpy, messages", "pgmpy", "messages"),
]
OURS = [Peer("anytimebp, bp", OWN), Peer("anytimebp, adaptive", OWN, "adaptive")]


class Outcome(NamedTuple):
    """The outcome of a call: figures and marginals (of all variables in a row), or the error."""

    seconds: float = float("nan")
    cores: float = float("nan")
    memory: int = 0
    marginals: np.ndarray | None = None
    failed: str = ""


def environment(library, folder):
    """Return the Python of a library's environment, which is made unless it is there with the same packages."""
    if library == OWN:
        return Path(sys.executable)
    python, ready = folder / library / "bin" / "python", folder / library / "ready"
    wanted = json.dumps(PACKAGES[library])
    if not ready.exists() or ready.read_text(encoding="utf-8") != wanted:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder / library)], check=True)
        for packages in PACKAGES[library]:
            subprocess.run([str(python), "-m", "pip", "install", "--quiet", *packages], check=True)
        ready.write_text(wanted, encoding="utf-8")
    return python


def call(peer, model, sweeps, environments, folder, limit=SECONDS_LIMIT):
    """Run a peer on a model in a process of its own, with limits of time and memory; never raise."""
    source, target = folder / "model.npz", folder / "marginals.npy"
    sizes = [len(scores) for scores in model.unary]
    unary = np.concatenate(list(model.unary))
    np.savez(source, unary=unary, sizes=sizes, scopes=model.scopes, tables=model.tables, sweeps=sweeps)
    try:
        python = environment(peer.library, environments)
        script = HERE / f"{peer.library}_bp.py"
        command = [str(python), "-W", "ignore", str(script), str(source), str(target), peer.builder]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=limit, env=os.environ | SETTINGS
        )
    except subprocess.TimeoutExpired as error:
        return Outcome(failed=f"no answer after {error.timeout:g} s")
    except (subprocess.CalledProcessError, OSError) as error:
        return Outcome(failed=f"no environment: {error}")
    return _outcome(done, target)


def _outcome(done, target):
    """Return what a process that has ended tells."""
    if done.returncode < 0:
        return Outcome(failed=f"ended by {signal.Signals(-done.returncode).name}")
    if done.returncode:
        return Outcome(failed=(done.stderr.strip().splitlines() or ["no word of why"])[-1])
    figures = json.loads(done.stdout.splitlines()[-1])
    if "failed" in figures:
        return Outcome(failed=figures["failed"])
    return Outcome(**figures, marginals=np.load(target))
