"""A small neural network on handwritten digits, as a task of your own: 16 inputs, one hidden layer, 10 classes.

    python examples/digits_mlp.py data 50 /tmp/digits        # one table per user, and a test table
    python examples/digits_mlp.py table                      # accuracy: hidden path, local, no privacy
    PYTHONPATH=examples network-dp run examples/digits.toml --data /tmp/digits/users --out /tmp/run

Needs scikit-learn for the data. A model is any object with `initial`, `gradient` and `evaluate` over one flat array of
weights. A PyTorch module would be wrapped like this (torch is imported only where the task runs):

    class Torch:
        def __init__(self) -> None:
            import torch
            torch.manual_seed(0)                      # the initial weights are public: the same for everybody
            self.torch, self.net = torch, torch.nn.Sequential(...)

        def initial(self):
            return self.torch.nn.utils.parameters_to_vector(self.net.parameters()).detach().numpy().astype("float64")

        def gradient(self, weights, rows):
            vector = self.torch.tensor(weights, dtype=self.torch.float32)
            self.torch.nn.utils.vector_to_parameters(vector, self.net.parameters())
            self.net.zero_grad()
            said = self.net(self.torch.tensor(rows[:, :-1], dtype=self.torch.float32))
            loss = self.torch.nn.functional.cross_entropy(said, self.torch.tensor(rows[:, -1]).long())
            loss.backward()
            parts = [p.grad.reshape(-1) for p in self.net.parameters()]
            return self.torch.cat(parts).numpy().astype("float64")
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
INPUTS, CLASSES = 16, 10
USERS, STEPS, CLIP, DELTA = 50, 1500, 0.25, 1e-5
REACH = {"no privacy": 120.0, "hidden": 10.0, "local": 4.0}  # step size times T C: the best of a few, each for itself


class Mlp:
    """tanh and softmax; a row is the inputs, then the digit."""

    def __init__(self, hidden: int = 8, seed: int = 1) -> None:
        self._shapes = [(INPUTS, hidden), (hidden,), (hidden, CLASSES), (CLASSES,)]
        self._seed = seed
        self.dimension = sum(int(np.prod(shape)) for shape in self._shapes)

    def initial(self) -> Floats:
        """Public: the same for everybody."""
        source = np.random.default_rng(self._seed)
        return np.concatenate([source.normal(0, 0.3, shape).ravel() for shape in self._shapes])

    def gradient(self, weights: Floats, rows: Floats) -> Floats:
        first, _, second, _ = self._parts(weights)
        inputs, digits = rows[:, :-1], rows[:, -1].astype(int)
        hidden, said = self._forward(weights, inputs)
        error = said.copy()
        error[np.arange(len(rows)), digits] -= 1.0
        error /= len(rows)
        back = error @ second.T * (1 - hidden**2)
        parts = (inputs.T @ back, back.sum(0), hidden.T @ error, error.sum(0))
        assert parts[0].shape == first.shape
        return np.concatenate([part.ravel() for part in parts])

    def evaluate(self, weights: Floats, rows: Floats) -> Mapping[str, float]:
        said = self._forward(weights, rows[:, :-1])[1]
        return {"accuracy": float((said.argmax(1) == rows[:, -1]).mean())}

    def _parts(self, weights: Floats) -> list[Floats]:
        ends = np.cumsum([int(np.prod(shape)) for shape in self._shapes])[:-1]
        return [part.reshape(shape) for part, shape in zip(np.split(weights, ends), self._shapes, strict=True)]

    def _forward(self, weights: Floats, inputs: Floats) -> tuple[Floats, Floats]:
        first, shift, second, bias = self._parts(weights)
        hidden = np.tanh(inputs @ first + shift)
        scores = hidden @ second + bias
        said = np.exp(scores - scores.max(1, keepdims=True))
        return hidden, said / said.sum(1, keepdims=True)


def digits() -> tuple[Floats, Floats]:
    """Rows of training and test: pixels averaged to 4 by 4 and scaled to [-1, 1], then the digit."""
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    small = pixels.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(-1, INPUTS) / 8.0 - 1.0
    rows = np.column_stack([small, labels])[np.random.default_rng(0).permutation(len(labels))]
    return rows[:-360], rows[-360:]


def write_data(users: int, folder: Path) -> None:
    train, test = digits()
    (folder / "users").mkdir(parents=True, exist_ok=True)
    for number, rows in enumerate(np.array_split(train, users)):
        np.savetxt(folder / "users" / f"user-{number}.csv", rows, "%.6g", ",")
    np.savetxt(folder / "test.csv", test, "%.6g", ",")


def trained(model: Mlp, parts: list[Floats], sigma: float, seed: int, steps: int, step_size: float) -> Floats:
    """The walk in one process, with plain Gaussian noise: what a run computes, for tables like this one."""
    source, weights = np.random.default_rng(seed), model.initial()
    for _ in range(steps):
        gradient = model.gradient(weights, parts[source.integers(len(parts))])
        gradient *= min(1.0, CLIP / max(float(np.linalg.norm(gradient)), 1e-12))
        weights = weights - step_size * (gradient + source.normal(0, sigma, len(weights)))
    return weights


def table(runs: int = 10) -> None:
    """Mean test accuracy and its standard deviation over runs, by how the noise is calibrated."""
    from network_dp import calibrate, hidden
    from network_dp.accounting import bounds

    train, test = digits()
    model, parts = Mlp(), np.array_split(train, USERS)
    print(f"n = {USERS}, T = {STEPS}, delta = {DELTA:g}, {model.dimension} weights, {runs} runs each")

    def show(kind: str, epsilon: float, sigma: float) -> None:
        step = REACH[kind] / (STEPS * CLIP)
        found = [trained(model, parts, sigma, seed, STEPS, step) for seed in range(runs)]
        right = [model.evaluate(weights, test)["accuracy"] for weights in found]
        print(
            f"{kind:<10} epsilon {epsilon:<4g} sigma {sigma / CLIP:5.2f} C  {np.mean(right):.3f} +- {np.std(right):.3f}"
        )

    show("no privacy", np.inf, 0.0)
    for epsilon in (4.0, 10.0):
        low, high = 0.05, 100.0
        while high / low > 1.001:
            middle = (low * high) ** 0.5
            good = hidden.epsilon(USERS, STEPS, 2 * CLIP / middle, DELTA) <= epsilon
            low, high = (low, middle) if good else (middle, high)
        most = bounds.visits(USERS, STEPS, DELTA / 2)
        local = calibrate.sigma(epsilon, DELTA / 2, 2 * CLIP, privacy="local", n_contributions=most)
        show("hidden", epsilon, high)
        show("local", epsilon, local)


if __name__ == "__main__":
    if sys.argv[1:2] == ["data"]:
        write_data(int(sys.argv[2]), Path(sys.argv[3]))
    elif sys.argv[1:2] == ["table"]:
        table()
    else:
        print(__doc__)
