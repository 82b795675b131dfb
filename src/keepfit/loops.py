"""keepfit in a hand-written training loop: at most three changed lines.

    def loss_of(x, y):                                    # was: with tf.GradientTape() as tape:
        return loss_function(y, model(x, training=True))  # was: loss = …
    loss, gradients = keepfit.accumulate(loss_of, model.trainable_variables, x, y)  # was: … = tape.gradient(…)

Under `keepfit run` a loop over a tf.data dataset is recognised by itself, and gets a micro-batch that fits
the budget. `guard` (around the step) and `steps` (around anything that yields batches) do the same for loops
that are not. Without `keepfit run` they do nothing, and `accumulate` computes the whole batch, or
`micro_batch` rows at once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Any, TypeVar

T = TypeVar("T")
Step = TypeVar("Step", bound=Callable[..., Any])


def accumulate(
    loss_of: Callable[..., Any],
    variables: Iterable[Any],
    *batch: Any,
    micro_batch: int | None = None,
    reduction: str = "mean",
) -> tuple[Any, list[Any]]:
    """(loss, gradients) of `loss_of(*batch)` by `variables`, computed in parts: the same result in less memory.

    `loss_of(*part)` returns the loss of the rows it is given: their mean (the default); their sum, with
    ``reduction="sum"``; or a pair (mean over some elements, how many these are) where the mean is not over
    rows: unmasked tokens, weighted samples. The parts are then weighed by that number, as the whole would be.

    `micro_batch` rows are computed at once; left out, as many as `guard` or `steps` found to fit, or all of
    them. Gradients come as TensorFlow gives them for the whole batch: sparse where they are sparse, None where
    there are none. Works in a `tf.function` and without; metrics may be updated inside `loss_of`.
    """
    _inside("loops").join(_heart())
    compute = _inside("accumulate").accumulate
    result: tuple[Any, list[Any]] = compute(loss_of, variables, *batch, micro_batch=micro_batch, reduction=reduction)
    return result


# AutoGraph leaves this function as it is (the loss function in it is still converted, as it would be outside).
accumulate.autograph_info__ = None  # type: ignore[attr-defined]


def guard(step: Step) -> Step:
    """The training step `step(*batch)`, with a heartbeat and, where `accumulate` is used in it, a budget."""
    guarded: Step = _inside("loops").guard(_heart(), step)
    return guarded


def steps(batches: Iterable[T], epochs: int = 1, *, state: Any = None) -> Iterator[T]:
    """Iterate over `batches`, `epochs` times: each one a step with a heartbeat and a budget.

    `state` is what the loop trains: models, optimizers, metrics, variables, generators, objects with `get_state`
    and `set_state`, alone or in a list or dictionary. With it, under `keepfit run`, the loop is saved between its
    steps, and after a death the re-run goes on with the very next batch.

        for x, y in keepfit.steps(dataset, epochs=3, state=[model, optimizer]):
            train_step(x, y)
    """
    if not isinstance(epochs, int) or epochs < 1:
        raise ValueError(f"epochs: a whole number from 1 was expected; received {epochs!r}")
    yielded: Iterator[T] = _inside("loops").steps(_heart(), batches, epochs, state)
    return yielded


def _inside(name: str) -> Any:
    """The part that speaks TensorFlow, which is imported by then, and not before."""
    return import_module(f".agent.tensorflow.{name}", __package__)


def _heart() -> Any:
    """The heart of the agent that keepfit run put into this process, or one that says nothing."""
    running = sys.modules.get("_keepfit.agent.heart")
    from .agent.heart import Heart

    return (running.CLAIMED if running is not None else None) or Heart.silent()
