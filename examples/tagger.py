"""Trains a tagger over 500 labels with PyTorch: log Z, and its derivative, come from `anytimebp.torch`.

Every word can have ten labels; only its neighbours tell which one it has. So a table of words and labels is learned,
and one of neighbouring labels, with 250,000 weights. All sentences of a batch make one graph. Needs PyTorch.

    python examples/tagger.py --sentences 1000
"""

import argparse

import numpy as np
import torch

import anytimebp as abp
from anytimebp.torch import log_partition

LABELS, WORDS, LENGTH, BATCH = 500, 50, 8, 50


def make_sentences(n: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (n, LENGTH) words and labels: each label is one of three that may follow the one before it."""
    followers = np.random.default_rng(0).integers(0, LABELS, (LABELS, 3))  # the same for every seed
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, LABELS, (n, LENGTH))
    for k in range(1, LENGTH):
        labels[:, k] = followers[labels[:, k - 1], rng.integers(0, 3, n)]
    return torch.tensor(labels % WORDS), torch.tensor(labels)


def chains(n: int) -> tuple[abp.FactorGraph, range, range]:
    """Return a graph of n sentences, and where its factors are: those of words, and those of neighbours."""
    graph = abp.FactorGraph()
    index = np.array(graph.add_variables(n * LENGTH, LABELS)).reshape(n, LENGTH)
    words = graph.add_factors(index.reshape(-1, 1), log_table=np.zeros((n * LENGTH, LABELS)))
    pairs = np.stack([index[:, :-1], index[:, 1:]], axis=2).reshape(-1, 2)
    return graph, words, graph.add_factors(pairs, log_table=np.zeros((LABELS, LABELS)))


def accuracy(of_word: torch.Tensor, neighbours: torch.Tensor, words: torch.Tensor, labels: torch.Tensor) -> float:
    """Return the share of words whose likeliest label is right."""
    graph, at_words, at_pairs = chains(len(words))
    session = abp.Session(graph)
    session.set_log_table(at_words, of_word[words.reshape(-1)].detach().double().numpy())
    session.set_log_table(at_pairs, neighbours.detach().double().numpy())
    likeliest = session.query().marginals.concatenated().reshape(-1, LABELS).argmax(axis=1)
    return float((likeliest == labels.reshape(-1).numpy()).mean())


def train(n: int, passes: int = 2, rate: float = 0.3) -> tuple[float, float]:
    """Return the accuracy on other sentences before and after training on n sentences."""
    words, labels = make_sentences(n, seed=0)
    others, tables = make_sentences(BATCH, seed=1), [torch.zeros(WORDS, LABELS), torch.zeros(LABELS, LABELS)]
    of_word, neighbours = (table.requires_grad_() for table in tables)
    optimiser, before = torch.optim.Adam(tables, lr=rate), accuracy(of_word, neighbours, *others)
    for number in range(passes * n // BATCH):
        batch = slice(number * BATCH % n, number * BATCH % n + BATCH)
        x, y = words[batch], labels[batch]
        graph, at_words, at_pairs = chains(len(x))
        log_z = log_partition(graph, {at_words: of_word[x.reshape(-1)], at_pairs: neighbours})
        loss = (log_z - of_word[x, y].sum() - neighbours[y[:, :-1], y[:, 1:]].sum()) / x.numel()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        print(f"step {number + 1}: loss of a word {loss.item():.3f}", flush=True)
    return before, accuracy(of_word, neighbours, *others)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=1000)
    print("right labels: {:.1%} before training, {:.1%} after".format(*train(parser.parse_args().sentences)))
