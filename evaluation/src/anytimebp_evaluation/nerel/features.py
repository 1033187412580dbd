"""What the local classifiers see of entities and of ordered pairs: strings, hashed to sparse rows.

Types are never among the features, since they are what is asked for. Words are cut to stems of their first letters,
which does for Russian endings.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.feature_extraction import FeatureHasher
from sklearn.preprocessing import normalize

from anytimebp_evaluation.nerel.documents import Document, Entity

ENTITY_COLUMNS, PAIR_COLUMNS = 2**17, 2**16  # of hashed blocks; twice as many are no better, and slower by half
STEM = 5  # letters of a word that count
CONTEXT = 3  # words on either side of an entity
BETWEEN = 6  # words between two entities; of longer stretches the first and the last half of them
GRAMS = (2, 5)  # shortest and longest stretch of letters of an entity
DISTANCES = (0, 2, 6, 15, 30, 60, 100)  # characters, limits of the steps in which distance is told

_WORD = re.compile(r"\w+|[^\w\s]")
_SENTENCE_END = re.compile(r"[.!?]\s+[^\W\d_a-z\u0430-\u044f]|\n")  # \u0430 to \u044f: small letters


class Tokens:
    """The words of a text, in lower case, and where they stand."""

    def __init__(self, text: str) -> None:
        """Cut the text into words and signs."""
        found = list(_WORD.finditer(text))
        self.words = [match.group().lower() for match in found]
        self.start = [match.start() for match in found]
        self.end = [match.end() for match in found]

    def before(self, place: int) -> list[str]:
        """Return the last few words that end at or before a character, the nearest first."""
        last = bisect_right(self.end, place)
        return self.words[max(last - CONTEXT, 0) : last][::-1]

    def after(self, place: int) -> list[str]:
        """Return the first few words that begin at or after a character, the nearest first."""
        first = bisect_left(self.start, place)
        return self.words[first : first + CONTEXT]

    def between(self, start: int, end: int) -> list[str]:
        """Return the words from one character to another; of many, those at both ends."""
        words = self.words[bisect_left(self.start, start) : bisect_right(self.end, end)]
        return words if len(words) <= BETWEEN else words[: BETWEEN // 2] + words[-(BETWEEN // 2) :]


def entity_rows(documents: Sequence[Document]) -> Any:
    """Return the features of all entities, document by document, as a sparse matrix: for their types."""
    return _normalised(_hashed(_each_entity(documents, with_grams=True), ENTITY_COLUMNS))


def pair_rows(documents: Sequence[Document], pairs: Sequence[NDArray[np.int64]]) -> Any:
    """Return the features of ordered pairs, document by document, as a sparse matrix: for their relations.

    Three blocks of columns: what is known of the first entity, of the second, and of both together.

    Args:
        documents: The texts.
        pairs: Per document the ordered pairs, of shape (pairs, 2).
    """
    single = _hashed(_each_entity(documents, with_grams=False), PAIR_COLUMNS)
    first_row = np.cumsum([0, *(len(document.entities) for document in documents)])
    where = np.concatenate([rows + first_row[index] for index, rows in enumerate(pairs)])
    each_pair = (_each_pair(document, rows.tolist()) for document, rows in zip(documents, pairs, strict=True))
    both = _hashed(chain.from_iterable(each_pair), PAIR_COLUMNS)
    return _normalised(sparse.hstack([single[where[:, 0]], single[where[:, 1]], both], format="csr"))


def _hashed(features: Iterator[list[str]], n_columns: int) -> Any:
    rows = FeatureHasher(n_columns, input_type="string", alternate_sign=False).transform(features)
    rows.data[:] = 1.0  # there or not, however often
    return rows


def _normalised(rows: Any) -> Any:
    """Return rows of Euclidean length 1; without, steps of the descent are too long and scores run off."""
    return normalize(rows)


def _each_entity(documents: Sequence[Document], *, with_grams: bool) -> Iterator[list[str]]:
    for document in documents:
        tokens = Tokens(document.text)
        for entity in document.entities:
            features = _entity_features(entity, tokens)
            yield features + _grams(entity.surface.lower()) if with_grams else features


def _entity_features(entity: Entity, tokens: Tokens) -> list[str]:
    words = _WORD.findall(entity.surface.lower())
    features = [f"whole {' '.join(words)}", f"shape {_shape(entity.surface)}", f"words {min(len(words), 5)}"]
    features += [f"stem {word[:STEM]}" for word in words]
    features += [f"ending {word[-3:]}" for word in words]
    features += [f"first {word[:STEM]}" for word in words[:1]] + [f"last {word[:STEM]}" for word in words[-1:]]
    for side, context in (("before", tokens.before(entity.start)), ("after", tokens.after(entity.end))):
        features += [f"{side} {word[:STEM]}" for word in context]
        features += [f"next {side} {word}" for word in context[:1]]
    return features


def _grams(surface: str) -> list[str]:
    framed = f"<{surface}>"
    shortest, longest = GRAMS
    return [
        f"gram {framed[place : place + length]}"
        for length in range(shortest, longest + 1)
        for place in range(len(framed) - length + 1)
    ]


def _shape(surface: str) -> str:
    """Return capitals as A, small letters as a, digits as 0, runs of one kind as one."""
    kinds = re.sub(r"[^\W\d_]", lambda match: "A" if match.group().isupper() else "a", surface)
    return re.sub(r"(.)\1+", r"\1", re.sub(r"\d", "0", kinds))


def _each_pair(document: Document, pairs: list[tuple[int, int]]) -> Iterator[list[str]]:
    tokens = Tokens(document.text)
    stems = [[word[:STEM] for word in _WORD.findall(entity.surface.lower())] for entity in document.entities]
    ends = [match.start() for match in _SENTENCE_END.finditer(document.text)]
    for first, second in pairs:
        yield (
            _place_features(document.entities, first, second, tokens, ends)
            + _likeness_features(document.entities[first].surface, document.entities[second].surface)
            + _stem_features(stems[first], stems[second])
        )


def _place_features(entities: Sequence[Entity], first: int, second: int, tokens: Tokens, ends: list[int]) -> list[str]:
    """Tell how two entities stand to each other, and what words are between them."""
    order = "forth" if first < second else "back"
    left, right = entities[min(first, second)], entities[max(first, second)]
    if right.start < left.end:
        inside = "start" if right.start == left.start else "end" if right.end == left.end else "middle"
        return [f"{order} nested", f"{order} nested at the {inside}"]
    words = [word[:STEM] for word in tokens.between(left.end, right.start)]
    apart = f"{order} {bisect_left(DISTANCES, right.start - left.end)}"
    crossed = bisect_left(ends, right.start) - bisect_left(ends, left.end)
    features = [f"{order} apart", f"apart {apart}", f"{order} between {' '.join(words)}"]
    features += [f"{order} entities between {abs(first - second)}", f"{order} sentences {min(crossed, 2)}"]
    features += [f"{order} word {word}" for word in words]
    features += [f"{order} two words {one} {two}" for one, two in pairwise(words)]
    return features


def _likeness_features(first: str, second: str) -> list[str]:
    """Tell whether the names look alike: the same, a part of the other, or its initials."""
    one, two = first.lower(), second.lower()
    features = []
    if one == two:
        features.append("same")
    elif one[:STEM] == two[:STEM]:
        features.append("same beginning")
    if one != two and (one in two or two in one):
        features.append("first in second" if one in two else "second in first")
    for name, short, long in (("first", first, second), ("second", second, first)):
        initials = "".join(word[0] for word in _WORD.findall(long) if word[0].isalpha())
        if len(short) > 1 and short.isupper() and initials.upper().startswith(short[:2]):
            features.append(f"{name} is initials")
    return features


def _stem_features(first: list[str], second: list[str]) -> list[str]:
    """Tell the first and last words of both names together."""
    if not first or not second:
        return []
    shared = [f"shares {min(len(set(first) & set(second)), 2)}"]
    return [*shared, f"lasts {first[-1]} {second[-1]}", f"firsts {first[0]} {second[0]}"]
