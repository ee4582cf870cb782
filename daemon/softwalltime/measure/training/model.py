"""The learned attention in PyTorch, its loss, and its training: AdamW, one cycle of the learning rate, seeded."""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import torch  # type: ignore[import-not-found,unused-ignore]  # an extra
from numpy.typing import NDArray
from torch import Tensor, nn  # type: ignore[import-not-found,unused-ignore]

from softwalltime.measure.training.examples import Examples
from softwalltime.predict.predictors.learned.attention import smears
from softwalltime.predict.predictors.learned.distribution import MIDDLE, REACHES, SIZE, STEPS, UPPER
from softwalltime.predict.predictors.learned.features import (
    CENSORED,
    ENDED,
    JOB,
    PAIR,
    PAIR_FEATURES,
    POWERS,
    PRIORS,
    REACHED,
    WIDTHS,
)  # fmt: skip
from softwalltime.predict.predictors.learned.network import LAYERS, OUTPUTS, Weights

HIDDEN_1, HIDDEN_2, HIDDEN_PRIOR = 32, 16, 32
"""Units of the hidden layers."""
SAME_GROUP, TIME_OF_DAY = PAIR_FEATURES.index("same group"), PAIR_FEATURES.index("time of day")
"""Features of a pair that are blanked at random, for sites that do not have them."""
BLANKED_SHARE = 0.15
"""Share of the jobs for which each of these features is blanked."""
TEMPERATURE = 0.02
"""Temperature of the softmax over predictions, in units of utility."""
LENGTH_PRICE = 0.25
"""Penalty in the loss for a prediction equal to the walltime; the shipped weights were trained with it."""
LOG_PRICES = (math.log(0.15), math.log(5.0))
"""Range of the random price."""
BATCH = 512
RATE = 2e-3
TUNING_RATE = 2e-4
"""Learning rate if training starts from given weights: low, so that they keep what they learnt on other sites.

At 3e-4 CEA-Curie gained a little more, and SDSC-SP2 lost a little (the benchmark training).
"""
LOG_WEIGHT_POWER = 0.75
"""A log's weight is its number of jobs to this power."""
MIN_STEPS = 6
"""Minimum steps of the learning rate schedule; a shorter training stops earlier in the schedule."""


class ExampleBatch(NamedTuple):
    """Some examples as tensors; ``owner`` is the job of each pair."""

    pairs: Tensor
    owner: Tensor
    base: Tensor
    places: Tensor
    kinds: Tensor
    job: Tensor
    priors: Tensor
    found: Tensor
    log: Tensor
    source: Tensor


def batch_of(examples: Examples, chosen: NDArray[np.int64]) -> ExampleBatch:
    begins, ends = examples.first[chosen], examples.first[chosen + 1]
    counts = ends - begins
    owner = np.repeat(np.arange(len(chosen)), counts)
    offsets = np.concatenate([[0], counts.cumsum()[:-1]])
    rows = np.arange(counts.sum()) + np.repeat(begins - offsets, counts)
    logs, shifts = examples.logs[rows, None], examples.shifts[rows, None]
    places = np.floor((logs + np.array(POWERS, np.float32) * shifts) * STEPS) + REACHES
    arrays = (
        examples.pairs[rows].astype(np.float32), owner, examples.base[rows],
        np.clip(places, 0, REACHES).astype(np.int64), examples.kinds[rows], examples.job[chosen],
        examples.priors[chosen].astype(np.float32), examples.found[chosen], examples.log[chosen],
        examples.source[chosen],
    )  # fmt: skip
    return ExampleBatch(*map(torch.from_numpy, arrays))


class Attention(nn.Module):  # type: ignore[misc,unused-ignore]  # without torch its base is not known
    """The network and the mixture; its initial weights are ``start``, or random ones near weights set by hand."""

    def __init__(self, start: Weights | None = None) -> None:
        super().__init__()
        self.of_pair = nn.Parameter(_start(PAIR, HIDDEN_1, PAIR + JOB))
        self.of_job = nn.Parameter(_start(JOB, HIDDEN_1, PAIR + JOB))
        self.bias_1 = nn.Parameter(torch.zeros(HIDDEN_1))
        self.second = nn.Parameter(_start(HIDDEN_1, HIDDEN_2))
        self.bias_2 = nn.Parameter(torch.zeros(HIDDEN_2))
        self.third = nn.Parameter(_start(HIDDEN_2, OUTPUTS) * 0.1)
        self.bias_3 = nn.Parameter(torch.tensor([0.0, 0.0, 1.5, 0.0, 1.0, 1.0, 1.0, 0.0]))
        self.prior_1 = nn.Parameter(_start(JOB, HIDDEN_PRIOR))
        self.prior_bias_1 = nn.Parameter(torch.zeros(HIDDEN_PRIOR))
        self.prior_2 = nn.Parameter(_start(HIDDEN_PRIOR, len(PRIORS)) * 0.1)
        self.prior_bias_2 = nn.Parameter(torch.tensor([0.5, 0.1, 0.1, 0.1, 0.1, 0.02]).log())
        if start is not None:
            for name, layer in zip(LAYERS, start.layers, strict=True):
                setattr(self, name, nn.Parameter(torch.from_numpy(layer.copy())))
        self.register_buffer("smears", torch.from_numpy(smears()).float())
        distance = np.abs(np.log(MIDDLE)[:, None] - np.log(MIDDLE))
        self.register_buffer("kernel", torch.from_numpy(np.exp(-distance)).float())
        accuracy = np.minimum(UPPER[:, None], MIDDLE) / np.maximum(UPPER[:, None], MIDDLE)
        self.register_buffer("accuracy", torch.from_numpy(accuracy).float())
        self.register_buffer("upper", torch.from_numpy(UPPER).float())

    def forward(self, batch: ExampleBatch) -> Tensor:
        hidden = batch.pairs @ self.of_pair + (batch.job @ self.of_job + self.bias_1)[batch.owner]
        out = (hidden.relu() @ self.second + self.bias_2).relu() @ self.third + self.bias_3
        weight = (batch.base + out[:, 0]).clamp(-14, 6).exp()
        scaling = weight[:, None] * out[:, 1:4].clamp(-20, 20).softmax(1)
        smear = out[:, 4:8].clamp(-20, 20).softmax(1)
        count = len(batch.found)
        ended, censored = batch.kinds == ENDED, batch.kinds == CENSORED
        cells = batch.owner[:, None] * SIZE + batch.places
        shares = torch.zeros(count * SIZE, OUTPUTS - 4)
        last = torch.zeros(count * SIZE)
        for choice in range(len(POWERS)):
            values = (scaling[:, choice] * ended)[:, None] * smear
            shares = shares.index_add(0, cells[:, choice], values)
            limited = batch.owner * SIZE + batch.places[:, choice].clamp(max=REACHES - 1)
            last = last.index_add(0, limited, scaling[:, choice] * censored)
        reached = torch.zeros(count).index_add(0, batch.owner, weight * (batch.kinds == REACHED))
        shares = shares.view(count, SIZE, OUTPUTS - 4)
        distribution = shares[:, :, 0] + sum(
            shares[:, :, 1 + width] @ self.smears[width] for width in range(len(WIDTHS))
        )
        prior = (batch.job @ self.prior_1 + self.prior_bias_1).relu() @ self.prior_2 + self.prior_bias_2
        masses = prior.exp()
        distribution = distribution + (masses[:, :4, None] * batch.priors).sum(1) + masses[:, 5:] / SIZE
        at_end = torch.zeros(SIZE)
        at_end[REACHES] = 1.0
        distribution = distribution + (reached + masses[:, 4])[:, None] * at_end
        return _kaplan_meier(distribution, last.view(count, SIZE))

    def loss(self, batch: ExampleBatch, prices: Tensor) -> Tensor:
        """Return the loss of each example.

        It is a weighted sum of log likelihood, CRPS, kernel score and utility, at a price for an underestimate.
        """
        shares = self(batch)
        below = shares.cumsum(1)
        nll = -(shares.gather(1, batch.found[:, None])[:, 0] + 1e-6).log()
        beyond = (torch.arange(SIZE) >= batch.found[:, None]).float()
        crps = (below - beyond)[:, :REACHES].square().sum(1) / STEPS
        near = self.kernel[batch.found]
        kernel = (shares * near).sum(1) - 0.5 * ((shares @ self.kernel) * shares).sum(1)
        utility = shares @ self.accuracy.T - prices[:, None] * (1.0 - below) - LENGTH_PRICE * self.upper
        choice = (utility / TEMPERATURE).softmax(1)
        realised = self.accuracy.T[batch.found] - LENGTH_PRICE * self.upper
        late = (torch.arange(SIZE) < batch.found[:, None]).float()
        realised = ((realised - prices[:, None] * late) * choice).sum(1)
        return 0.3 * nll + 0.5 * crps - 2.0 * kernel - 3.0 * realised

    def weights(self, about: Mapping[str, object]) -> Weights:
        return Weights(tuple(getattr(self, name).detach().numpy().astype(np.float32) for name in LAYERS), about)


def train(
    examples: Examples, epochs: int, seed: int, progress: Callable[[int], None] = lambda _: None,
    start: Weights | None = None,
) -> Attention:  # fmt: skip
    """Return the attention trained from ``start``; equal seeds give equal weights on the same machine."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    random = np.random.default_rng(seed)
    model, rate = Attention(start), RATE if start is None else TUNING_RATE
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=1e-2)
    batches = len(examples) // BATCH or 1
    # With exactly 5 steps PyTorch divides by 0.
    steps = max(epochs * batches, MIN_STEPS)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps, pct_start=0.2)
    counts = np.bincount(examples.source).astype(np.float64)
    shares = counts**LOG_WEIGHT_POWER / (counts**LOG_WEIGHT_POWER).sum() * counts.sum() / counts
    importance = torch.from_numpy(shares.astype(np.float32))
    for _ in range(epochs):
        order = random.permutation(len(examples))
        for number in range(batches):
            batch = batch_of(examples, order[number * BATCH : (number + 1) * BATCH])
            size = len(batch.found)
            for feature, blank in ((SAME_GROUP, 1.0), (TIME_OF_DAY, 0.0)):
                blanked = torch.from_numpy(random.random(size) < BLANKED_SHARE)[batch.owner]
                batch.pairs[blanked, feature] = blank
            low, high = LOG_PRICES
            prices = torch.from_numpy(np.exp(random.uniform(low, high, size)).astype(np.float32))
            loss = (model.loss(batch, prices) * importance[batch.source]).mean()
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            progress(size)
    return model


def losses(model: Attention, examples: Examples) -> NDArray[np.float64]:
    """Return the loss of each example, at one price."""
    found = []
    for begin in range(0, len(examples), 1024):
        batch = batch_of(examples, np.arange(begin, min(begin + 1024, len(examples))))
        with torch.no_grad():
            found.append(model.loss(batch, torch.ones(len(batch.found))).double().numpy())
    return np.concatenate(found)


def _start(inputs: int, outputs: int, fan_in: int | None = None) -> Tensor:
    return torch.randn(inputs, outputs) * math.sqrt(2.0 / (fan_in or inputs))


def _kaplan_meier(ended: Tensor, censored: Tensor) -> Tensor:
    at_risk = (ended + censored).flip(1).cumsum(1).flip(1)
    hazard = (ended / at_risk.clamp(min=1e-12)).clamp(max=1 - 1e-6)
    logs = torch.log1p(-hazard)
    surviving = logs.cumsum(1)
    ended_shares = (surviving - logs).exp() * hazard
    return torch.cat([ended_shares[:, :REACHES], ended_shares[:, REACHES:] + surviving[:, REACHES:].exp()], 1)
