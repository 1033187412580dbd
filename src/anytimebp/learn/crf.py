"""`CRF`: learns the scores of tied factors from labelled graphs, in the manner of scikit-learn."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Self

import numpy as np

from anytimebp.errors import AnytimeBPError, ModelError, NotConvergedWarning, OptionError, warn_caller
from anytimebp.inference.best_state import infer_map
from anytimebp.inference.inference import Inference
from anytimebp.learn.batch import Labelled, check_possible, labelled, make_batches
from anytimebp.learn.blocks import Blocks
from anytimebp.learn.example import Example, Truth
from anytimebp.learn.objective import Accuracy, Objective
from anytimebp.learn.optimise import CONVERGED, NO_GAIN, Settings, Training, by_adam, by_lbfgs, stages_of
from anytimebp.learn.shown import TrainingDisplay
from anytimebp.learn.state import MOST_ITERATIONS, Checkpoint, Iteration, State
from anytimebp.model.graph import FactorGraph
from anytimebp.model.source import FloatArray
from anytimebp.parallel.many import infer_many
from anytimebp.results.marginals import Marginals
from anytimebp.results.snapshot import Result

OPTIMISERS, DECODINGS = ("lbfgs", "adam"), ("marginals", "map")


class CRF:
    """A conditional random field: weights of tied factors, learned by maximum likelihood with an L2 penalty.

    What is made small is the mean over examples of `log Z - log score of the labels`, plus
    `l2 / 2 * sum of squared weights / number of examples`. Where belief propagation is not exact, log Z is its Bethe
    estimate, and this is the Bethe likelihood; see `likelihood_`.

    Args:
        method: Of inference, as for `infer`. "auto" is decided for each example by itself, on counts.
        l2: Penalty, one for all weights or one for each block by name.
        optimizer: "lbfgs", of SciPy, on all examples at once; or "adam", on `batch_size` of them a step.
        max_iterations: Steps of L-BFGS, or passes of Adam over all examples.
        gradient_tolerance: Training ends when no number of the objective's derivative is larger.
        tolerance: To which messages settle in the end, and when predicting.
        loose: To which they settle at first: see `docs/learning.md`. None: as in the end, all the time.
        learning_rate: Of Adam.
        batch_size: Examples that make a step of Adam.
        validation_fraction: Part of the examples that is held out, drawn by `seed`; training ends when they do not gain
            any more, and the weights that were best on them are kept. 0 for none.
        patience: Iterations that held-out examples may be without gain.
        decode: How `predict` chooses labels: "marginals", the likeliest of each variable; or "map", the likeliest joint
            state.
        threads: Threads of inference. Their number changes no bit.
        checkpoint: A file (.npz) in which every iteration is saved. A training that finds it there goes on from it, and
            ends with the same weights, to the last bit, as if it had not been stopped.
        progress: Whether to show iterations on standard error.
        seed: Of what is random.

    Attributes:
        weights_: By block, the weights: of a shared table, its log scores; of features, (features, *states).
        likelihood_: "exact" or "Bethe": what was made large.
        converged_: Whether the derivative, or the gain of a step, became small enough.
        ending_: Why the training ended.
        iterations_: Figures of every iteration.
    """

    def __init__(
        self,
        *,
        method: str = "auto",
        l2: float | Mapping[str, float] = 1.0,
        optimizer: str = "lbfgs",
        max_iterations: int = 200,
        gradient_tolerance: float = 1e-5,
        tolerance: float = 1e-6,
        loose: float | None = 1e-2,
        learning_rate: float = 0.05,
        batch_size: int = 16,
        validation_fraction: float = 0.0,
        patience: int = 5,
        decode: str = "marginals",
        threads: int = 1,
        checkpoint: str | os.PathLike[str] | None = None,
        progress: bool = False,
        seed: int = 0,
    ) -> None:
        """Keep the options; they are checked by `fit`."""
        self.method = method
        self.l2 = l2
        self.optimizer = optimizer
        self.max_iterations = max_iterations
        self.gradient_tolerance = gradient_tolerance
        self.tolerance = tolerance
        self.loose = loose
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.decode = decode
        self.threads = threads
        self.checkpoint = checkpoint
        self.progress = progress
        self.seed = seed

    # ---------------------------------------------------------------- options, as scikit-learn asks for them
    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: FBT001, FBT002, ARG002  (scikit-learn's signature)
        """Return the options by name."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **options: Any) -> Self:
        """Change options."""
        known = inspect.signature(type(self)).parameters
        for name, value in options.items():
            if name not in known:
                msg = f"there is no option {name!r}; there are {', '.join(known)}"
                raise OptionError(msg)
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        """Return the call that makes one like it."""
        default = inspect.signature(type(self)).parameters
        own = [f"{name}={value!r}" for name, value in self.get_params().items() if value != default[name].default]
        return f"CRF({', '.join(own)})"

    # ---------------------------------------------------------------- learning
    def fit(
        self,
        examples: Iterable[Example],
        labels: Iterable[Truth],
        *,
        validation: tuple[Iterable[Example], Iterable[Truth]] | None = None,
        initial: Mapping[str, Any] | None = None,
    ) -> Self:
        """Learn the weights.

        Args:
            examples: Graphs with learned factors.
            labels: For each example the label of every variable, in the order of the graph or by name.
            validation: Examples and labels that are held out, instead of a part of the others.
            initial: Weights to begin with, by block; 0 where none are given.

        Raises:
            ModelError: If examples do not go together, or labels do not fit; the example is named.
            InconsistentModelError: If the labels of an example are impossible.
            OptionError: If an option has a value that it cannot have, or the checkpoint is of another training.
        """
        self._check_options()
        given, held = self._labelled(examples, labels, "example"), []
        if validation is not None:
            held = self._labelled(*validation, "validation example")
        elif self.validation_fraction:
            given, held = self._divided(given)
        blocks = Blocks([own.example for own in [*given, *held]])
        state = self._train(blocks, given, held, blocks.joined(initial, "initial"))
        self.weights_ = {name: own.copy() for name, own in blocks.split(state.best).items()}
        self.likelihood_ = "exact" if state.is_exact else "Bethe"
        self.ending_, self.converged_ = state.ending, state.ending in {CONVERGED, NO_GAIN}
        self.iterations_: tuple[Iteration, ...] = tuple(state.rows)
        self._warn(state)
        return self

    def _train(self, blocks: Blocks, given: list[Labelled], held: list[Labelled], begin: FloatArray) -> State:
        """Return where a training ends."""
        penalties, options = blocks.penalties(self.l2), {"threads": self.threads}
        is_adam = self.optimizer == "adam"
        if is_adam:
            given = [given[k] for k in np.random.default_rng(self.seed).permutation(len(given)).tolist()]
        batches = make_batches(given, self.batch_size if is_adam else None)
        objective = Objective(blocks, batches, penalties, options)
        held_out = Objective(blocks, make_batches(held), penalties, options) if held else None
        stages = stages_of(self.tolerance, self.loose, is_exact=objective.is_exact)
        names = {name: getattr(self, name) for name in Settings._fields}
        file = None
        state: State | None = None
        if self.checkpoint is not None:
            file = Checkpoint(self.checkpoint, self._fingerprint(blocks, objective, held_out, begin))
            state = file.load()
        state = state or State.at(begin)
        if state.ending == MOST_ITERATIONS and len(state.rows) < self.max_iterations:
            state.ending = ""
        with TrainingDisplay(self.max_iterations, is_shown=self.progress) as display:

            def watch(now: State) -> None:
                if file is not None:
                    file.save(now)
                display.watch(now)

            training = Training(objective, held_out, stages, Settings(**names), watch)
            if is_adam:
                by_adam(training, state, [Objective(blocks, [batch], penalties, options) for batch in batches])
            else:
                by_lbfgs(training, state)
        return state

    def _labelled(self, examples: Iterable[Example], labels: Iterable[Truth], what: str) -> list[Labelled]:
        """Check examples and labels."""
        every, truths = list(examples), list(labels)
        if not every or len(every) != len(truths):
            msg = f"expected labels for each of at least one {what}, got {len(every)} examples and {len(truths)} labels"
            raise ModelError(msg)
        found = []
        for number, (example, truth) in enumerate(zip(every, truths, strict=True)):
            _check_example(example, f"{what} {number}")
            try:
                states = example.states(truth)
            except AnytimeBPError as error:
                msg = f"labels of {what} {number}: {error}"
                raise ModelError(msg) from None
            check_possible(f"{what} {number}", example, states)
            found.append(labelled(example, states, self.method))
        return found

    def _divided(self, given: list[Labelled]) -> tuple[list[Labelled], list[Labelled]]:
        """Hold a part of the examples out."""
        n = math.ceil(self.validation_fraction * len(given))
        if n >= len(given):
            msg = f"validation_fraction={self.validation_fraction} of {len(given)} examples leaves none to learn from"
            raise OptionError(msg)
        chosen = set(np.random.default_rng(self.seed).permutation(len(given))[:n].tolist())
        return [own for k, own in enumerate(given) if k not in chosen], [given[k] for k in sorted(chosen)]

    def _check_options(self) -> None:
        """Raise OptionError for an option that cannot be."""
        Inference(FactorGraph(), self.method, tolerance=self.tolerance)
        _one_of("optimizer", self.optimizer, OPTIMISERS)
        _one_of("decode", self.decode, DECODINGS)
        for name in ("max_iterations", "batch_size", "patience", "threads"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                msg = f"{name} must be a whole number of at least 1, got {value!r}"
                raise OptionError(msg)
        for name, least, most in (
            ("gradient_tolerance", 0.0, math.inf),
            ("learning_rate", 0.0, math.inf),
            ("validation_fraction", 0.0, 1.0),
            ("loose", 0.0, math.inf),
        ):
            value = getattr(self, name)
            if (name, value) != ("loose", None) and not (isinstance(value, int | float) and least <= value < most):
                msg = f"{name} must be a number from {least} to {most}, got {value!r}"
                raise OptionError(msg)

    def _fingerprint(self, blocks: Blocks, objective: Objective, held: Objective | None, begin: FloatArray) -> str:
        """Return what tells a training from others: examples, labels, and options that change its course."""
        left_out = {"max_iterations", "checkpoint", "progress", "threads", "decode"}
        options = {name: value for name, value in self.get_params().items() if name not in left_out}
        own = sha256(repr((sorted(options.items(), key=str), blocks.shapes, blocks.kinds)).encode())
        own.update(begin.tobytes())
        for part in (objective, held):
            own.update(b"" if part is None else part.fingerprint())
        return own.hexdigest()

    def _warn(self, state: State) -> None:
        """Warn of a training that is not at its end, or whose gradients are not right."""
        if not self.converged_:
            warn_caller(f"training ended early: {self.ending_}; see iterations_", NotConvergedWarning)
        elif state.rows and state.rows[-1].unsettled:
            n = state.rows[-1].unsettled
            warn_caller(f"messages of {n} batches had not settled in the last iteration", NotConvergedWarning)

    # ---------------------------------------------------------------- using what was learned
    def graph(self, example: Example) -> FactorGraph:
        """Return the graph of an example with learned scores: for `infer`, `infer_map`, `sample` and others."""
        weights = self._fitted()
        _check_example(example, "the example")
        for term in example.terms:
            own = weights.get(term.name)
            if own is None or own.shape != term.weight_shape:
                known = "nothing was learned of it" if own is None else f"its weights have the shape {own.shape}"
                msg = f"block {term.name!r}, of weights of shape {term.weight_shape}: {known}"
                raise ModelError(msg)
        return example.with_weights(weights)

    def predict_marginals(self, examples: Iterable[Example]) -> list[Marginals]:
        """Return the marginals of every example."""
        return [result.marginals for result in self._results(examples)]

    def predict(self, examples: Iterable[Example]) -> list[list[Hashable]]:
        """Return the labels of every example, in the order of its variables."""
        every = list(examples)
        _one_of("decode", self.decode, DECODINGS)
        if self.decode == "map":
            method = self.method if self.method in {"exact", "bp"} else "auto"
            return [list(infer_map(self.graph(example), method).assignment.values()) for example in every]
        return [_likeliest(example, result) for example, result in zip(every, self._results(every), strict=True)]

    def score(self, examples: Iterable[Example], labels: Iterable[Truth]) -> float:
        """Return the share of variables of which `predict` gives the right label."""
        every, right, total = list(examples), 0, 0
        for example, found, truth in zip(every, self.predict(every), labels, strict=True):
            variables = example.graph.variables
            states = [variables[k].state_index(label) for k, label in enumerate(found)]
            right += int((example.states(truth) == states).sum())
            total += len(states)
        return right / max(1, total)

    def log_likelihood(self, examples: Iterable[Example], labels: Iterable[Truth]) -> float:
        """Return the mean log likelihood of an example, or its Bethe estimate where inference is not exact."""
        given, weights = self._labelled(examples, labels, "example"), self._fitted()
        for own in given:
            self.graph(own.example)  # raises if it does not go with the weights
        blocks = Blocks([own.example for own in given])
        vector = blocks.joined({name: weights[name] for name in blocks.shapes}, "weights_")
        objective = Objective(blocks, make_batches(given), np.zeros(blocks.size), {"threads": self.threads})
        return objective.log_likelihood(vector, Accuracy(self.tolerance))

    def _results(self, examples: Iterable[Example]) -> Iterable[Result]:
        graphs = (self.graph(example) for example in examples)
        return infer_many(graphs, method=self.method, tolerance=self.tolerance, threads=self.threads)

    def _fitted(self) -> dict[str, FloatArray]:
        found: dict[str, FloatArray] | None = getattr(self, "weights_", None)
        if found is None:
            msg = "this CRF has learned nothing yet: call `fit` first"
            raise OptionError(msg)
        return found


def _likeliest(example: Example, result: Result) -> list[Hashable]:
    """Return the likeliest label of every variable; of equal ones the first."""
    variables, marginals = example.graph.variables, result.marginals
    return [variables[k].labels[int(marginals[k].argmax())] for k in range(len(variables))]


def _check_example(example: object, what: str) -> None:
    if not isinstance(example, Example):
        msg = f"{what} must be an Example (`anytimebp.learn.Example(graph)`), got {type(example).__name__}"
        raise ModelError(msg)


def _one_of(name: str, value: object, known: Sequence[str]) -> None:
    if value not in known:
        msg = f"{name} must be one of {', '.join(map(repr, known))}, got {value!r}"
        raise OptionError(msg)
