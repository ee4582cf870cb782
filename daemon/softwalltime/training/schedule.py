"""The schedule by which the weights are trained: AdamW, one cycle of the learning rate, seeded."""

from collections.abc import Callable

import numpy as np
import torch  # type: ignore[import-not-found,unused-ignore]  # an extra

from softwalltime.training.examples import Examples
from softwalltime.training.model import BLANKED, LOG_PRICES, SAME_GROUP, TIME_OF_DAY, Attention, batch_of

BATCH = 512
RATE = 2e-3
POWER = 0.75
"""Power of a log's number of jobs by which the log counts."""
MIN_STEPS = 6
"""Steps for which the learning rate is scheduled, at least; shorter training ends before it has fallen."""


def train(
    examples: Examples, epochs: int, seed: int, progress: Callable[[int, dict[str, float]], None] = lambda *_: None
) -> Attention:
    """Return the trained attention; equal seeds give equal weights on the same machine.

    :param progress: called with the number of jobs since the last call, and means of the parts of the loss.
    """
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    random = np.random.default_rng(seed)
    model = Attention()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=1e-2)
    batches = len(examples) // BATCH or 1
    # With exactly 5 steps PyTorch divides by 0.
    steps = max(epochs * batches, MIN_STEPS)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps, pct_start=0.2)
    counts = np.bincount(examples.source).astype(np.float64)
    shares = counts**POWER / (counts**POWER).sum() * counts.sum() / counts
    importance = torch.from_numpy(shares.astype(np.float32))
    means: dict[str, float] = {}
    for _ in range(epochs):
        order = random.permutation(len(examples))
        for number in range(batches):
            batch = batch_of(examples, order[number * BATCH : (number + 1) * BATCH])
            size = len(batch.found)
            for feature, blank in ((SAME_GROUP, 1.0), (TIME_OF_DAY, 0.0)):
                blanked = torch.from_numpy(random.random(size) < BLANKED)[batch.owner]
                batch.pairs[blanked, feature] = blank
            low, high = LOG_PRICES
            prices = torch.from_numpy(np.exp(random.uniform(low, high, size)).astype(np.float32))
            losses, parts = model.loss(batch, prices)
            loss = (losses * importance[batch.source]).mean()
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            for name, values in parts.items():
                mean = float(values.detach().mean())
                means[name] = mean if name not in means else 0.98 * means[name] + 0.02 * mean
            progress(size, means)
    return model
