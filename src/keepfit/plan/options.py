"""What would help when the model itself does not fit: options with their prices, in the model's own bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, groupby
from typing import Any

from ..facts import Remedy, Splitting
from ..quick import dataclass
from .forecast import LEAN_MALLOC, Facts, Point, forecast, largest_on_device, line, on_device, training, untried_line
from .micro_batch import Room, Trial, choose

RECOMPUTED = 1.3  # time of a step whose blocks are computed twice: one more forward pass
MACHINES = (1, 2, 4, 8, 16, 24, 32, 48, 64, 80, 96, 128, 192, 256, 384, 512, 768, 1024)  # GiB, as they are to be had
WORTH = 0.01  # of the peak: what saves less is no option
PADDED = 0.1  # share of padding from which buckets of like lengths are worth it
# Why a training in parts is another one.
DIFFERS = {
    "batch-statistics": "BatchNormalization sees the rows of a part, not of the batch",
    "random-draws": "dropout and the like draw other numbers",
}
# Of the activations, what mixed precision saves: half by their type; on a CPU less was seen (`bench options`, the two
# models it was chosen by: 0.18 and 0.43).
MIXED_ON_HOST, MIXED_ON_DEVICE = 1 / 3, 1 / 2
BLOCKS = 4  # that recomputation keeps the borders of: fewer keep less, and peak higher in the block that is recomputed
LEANER = 1.05  # the time of a step where malloc keeps little
KEEPS = 1 / 8  # of the weights, from which an optimizer keeps something: all of them count their steps
ADAFACTOR = 0.98  # of Adam's state that it does without: rows and columns instead of whole slots
# Copies of the weights that Lion computes on a CPU before its gradients are there, for the products of its momentum
# wait for nothing: it peaked above Adam on both machines (`bench options`). XLA, which Keras takes on a GPU, does not.
LION_AHEAD = 2
SPANNED = 3  # layers in a block, at least: three convolutions in four blocks saved nothing (`bench options`)


def lighter(known: Splitting | None) -> tuple[Remedy, ...]:
    """Ranked by what they cost the person; priced where the model's bytes are known."""
    model = known.model if known is not None else {}
    trainable, state = int(model.get("trainable") or 0), int(model.get("optimizer") or 0)
    state = state if state > KEEPS * trainable else 0  # not built yet, perhaps: it is not known what it will keep
    activations = int(known.slope) if known is not None else 0
    frozen = trainable // 2 + state // 2
    found = [
        Remedy("give it more memory", "keepfit run --memory SIZE -- …"),
        Remedy(
            "a lighter optimizer (SGD keeps nothing, Adafactor next to nothing)",
            "model.compile(keras.optimizers.Adafactor(…))",
            saves_bytes=int(ADAFACTOR * state) or None,
        ),
        Remedy(
            "freeze half of the model: no gradients, no optimizer state for it",
            "layer.trainable = False",
            saves_bytes=frozen or None,
        ),
        Remedy(
            "LoRA: optimizer state only for small factors",
            "layer.enable_lora(rank=8)",
            saves_bytes=state or None,
        ),
        Remedy(
            "mixed precision: activations take less",
            'keras.mixed_precision.set_global_policy("mixed_bfloat16")',
            saves_bytes=int(MIXED_ON_HOST * activations) or None,
        ),
        Remedy(
            "recompute blocks in the backward pass instead of keeping their activations",
            "keras.remat(a function of several layers)",
            saves_bytes=activations or None,
        ),
        Remedy(
            "a smaller or distilled model: half the width is a quarter of the weights",
            "the same architecture with fewer units",
            saves_bytes=(3 * (2 * trainable + state)) // 4 or None,
        ),
    ]
    return tuple(found)


@dataclass(frozen=True)
class Option:
    """One way to need less, with its price."""

    name: str
    value: Any
    peak: int  # bytes that are predicted with it
    slowdown: float | None  # time of a step, as a multiple; None: not known
    exact: bool  # whether the results stay those of the batch as it is
    how: str
    prepares: bool = False  # whether it changes what the script does before its training call, too
    later: bool = False  # whether it saves in later steps, whatever it does in the first

    def document(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "value": self.value,
            "predicted_peak_bytes": self.peak,
            "slowdown": self.slowdown,
            "exact": self.exact,
            "how": self.how,
        }


def priced(facts: Facts, trials: Sequence[Trial], limit: int) -> list[Option]:
    """What would bring the training below the limit, or closer to it; the cheapest first."""
    point, step = forecast(facts, trials, facts.rows), training(facts, trials, facts.rows).peak
    lighter = [*_mixed_on_host(facts, step), *_lighter(facts, step, LION_AHEAD)]
    found = [*_micro_batches(facts, trials, limit), *_lean_malloc(facts, step), *lighter, *_pipeline(facts, step)]
    # What a step that needs less does not change: the script's preparation, and the validation.
    validation = facts.in_use + facts.validation + facts.later if facts.validation else 0
    others = facts.files + max(facts.prepared, validation)
    found = [option if option.prepares else replace(option, peak=max(option.peak, others)) for option in found]
    return _ranked(found, point.peak, _machine(facts, point, limit + facts.files))


def priced_on_device(facts: Facts, limit: int) -> list[Option]:
    """The same for an accelerator that is not here: by the graph alone."""
    point = on_device(facts, facts.rows)
    how = "; on Ampere and later mixed_bfloat16 needs no loss scale"
    mixed = _mixed(facts, point.peak, "mixed_float16", MIXED_ON_DEVICE, how)
    found = [*_micro_batch_on_device(facts, limit), *mixed, *_lighter(facts, point.peak)]
    return _ranked(found, point.peak, (*_machine(facts, point, limit), *_allocators(point.peak)))


def _ranked(found: list[Option], peak: int, elsewhere: Iterable[Option]) -> list[Option]:
    """Those that save something: exact ones first, the cheaper before the dearer; `elsewhere` changes no training."""
    worth = [option for option in found if option.later or option.peak < (1 - WORTH) * peak]
    worth.sort(key=lambda option: (not option.exact, option.slowdown or 1.0, option.peak))
    exact = sum(option.exact for option in worth)
    return [*worth[:exact], *elsewhere, *worth[exact:]]


def _allocators(peak: int) -> Iterator[Option]:
    """TensorFlow takes a whole device for itself, unless it is told otherwise; the need of a step stays what it is."""
    how = "tf.config.experimental.set_memory_growth(gpu, True): takes what it needs, and leaves the rest to others"
    yield Option("memory_growth", True, peak, 1.0, True, how)
    how = "export TF_GPU_ALLOCATOR=cuda_malloc_async: where a step fails although less is in use than there is"
    yield Option("async_allocator", "cuda_malloc_async", peak, None, True, how)


def _machine(facts: Facts, point: Point, room: int) -> Iterator[Option]:
    """Another one, where this training does not fit."""
    if point.high <= room:
        return
    size = next((size for size in MACHINES if size << 30 >= point.high), 0)
    if size:
        how = f"batch {facts.rows} fits on {size} GiB, by the upper end of the forecast"
        yield Option("machine", f"{size}GiB", point.peak, 1.0, True, how)


def _micro_batches(facts: Facts, trials: Sequence[Trial], limit: int) -> Iterator[Option]:
    own = bool(facts.told.get("loop"))
    known = untried_line(facts) if own else line(facts, trials)
    if known is None or facts.rows < 2:
        return
    summed = facts.model["trainable"]  # the sum of the parts' gradients is held beside those of a part
    room = Room(max(1, limit - summed - facts.later), 0)
    rows = choose(room, facts.rows, known)
    if rows == facts.rows:
        rows = -(-facts.rows // 2)
    known = known if own else line(facts, trials, rows) or known
    peak = facts.files + known.peak(rows) + summed + facts.later
    how = "keepfit run does it by itself; keepfit run --memory SIZE holds it to a budget"
    if own:
        how = "in the loop: loss, gradients = keepfit.accumulate(loss_of, variables, x, y)"
    differs = _differs(facts)
    yield Option("micro_batch", rows, peak, _slowdown(trials, rows), not differs, "; ".join([how, *differs]))


def _lean_malloc(facts: Facts, peak: int) -> Iterator[Option]:
    """glibc gives each thread an arena that keeps what was freed in it, and raises by itself, up to 32 MiB, the size
    from which a freed block goes back to the system instead. So the buffers of earlier epochs stay, and step by step
    what more and more threads have freed (`bench growth`). One arena serves them all; a size that one has chosen is
    not raised. Where tensors lie in a pool, it is only about a pipeline's."""
    kept = facts.retained if "MALLOC_ARENA_MAX" in facts.unchosen else 0
    grows = facts.grows and bool(facts.unchosen) and not facts.pooled
    if not (grows or kept > peak // 20):
        return
    step = facts.files + facts.in_use + facts.needs_of_lean_malloc(facts.rows) + facts.later
    step = step if facts.static and not facts.pooled else peak
    settings = " ".join(f"{setting}={LEAN_MALLOC[setting]}" for setting in facts.unchosen)
    how = f"export {settings}: what is freed is used again or goes back"
    yield Option("lean_malloc", None, min(peak, step) - kept, LEANER, True, how, later=grows)


def _differs(facts: Facts) -> list[str]:
    return [DIFFERS[note["kind"]] for note in facts.told.get("notes") or ()]


def _micro_batch_on_device(facts: Facts, limit: int) -> Iterator[Option]:
    if facts.rows < 2 or not facts.static:
        return
    summed = facts.model["trainable"]
    rows = min(largest_on_device(facts, limit - summed), -(-facts.rows // 2))
    if rows:
        differs = _differs(facts)
        how = "; ".join(["keepfit.accumulate, or keepfit run on that machine", *differs])
        yield Option("micro_batch", rows, on_device(facts, rows).peak + summed, None, not differs, how)


def _slowdown(trials: Sequence[Trial], rows: int) -> float | None:
    """Time for a row in parts of so many rows, beside that of the largest that was measured."""
    timed = sorted((trial for trial in trials if trial.seconds), key=lambda trial: trial.rows)
    if not timed or timed[0].rows == timed[-1].rows:
        return None
    small, large = timed[0], timed[-1]
    # Time = fixed + rows x each, through both.
    each = max(1e-12, (large.seconds - small.seconds) / (large.rows - small.rows))
    fixed = max(0.0, large.seconds - each * large.rows)
    return round((fixed / rows + each) / (fixed / large.rows + each), 2)


def _mixed_on_host(facts: Facts, peak: int) -> Iterator[Option]:
    how = "; float16 is slow on a CPU"
    if facts.told.get("bfloat16") is False:
        how += ", and on this one bfloat16 may be too: trainings took up to seven times as long on such a one"
    return _mixed(facts, peak, "mixed_bfloat16", MIXED_ON_HOST, how)


def _mixed(facts: Facts, peak: int, policy: str, saved: float, remark: str) -> Iterator[Option]:
    if "mixed" not in str(facts.told.get("dtype")) and (activations := _activations(facts)):
        how = f'keras.mixed_precision.set_global_policy("{policy}"){remark}'
        yield Option("mixed_precision", policy, peak - int(saved * activations), None, False, how)


def _activations(facts: Facts) -> int:
    return max(0, facts.alive(facts.rows) - facts.model["trainable"])


def _lighter(facts: Facts, peak: int, ahead: int = 0) -> Iterator[Option]:
    model, activations = facts.model, _activations(facts)
    trainable, state = model["trainable"], model["optimizer"]
    if state > trainable:
        lion = peak - state + (1 + ahead) * trainable
        yield Option("optimizer", "Lion", lion, 1.0, False, "keras.optimizers.Lion(…)")
        yield Option(
            "optimizer", "Adafactor", peak - int(ADAFACTOR * state), 1.1, False, "keras.optimizers.Adafactor(…)"
        )
    if state > KEEPS * trainable:
        yield Option("optimizer", "SGD", peak - state, 1.0, False, "keras.optimizers.SGD(…)")
    yield from _recomputed(facts, peak)
    if trainable:
        how = "layer.trainable = False for the first half of the weights"
        yield Option("freeze", 0.5, peak - (trainable + state) // 2, 0.8, False, how)
        # The sum of the weights and their factors' product is there where the gradients would have been.
        yield Option("lora", 8, peak - int(0.95 * state), 1.0, False, "layer.enable_lora(rank=8)")
        saved = 3 * (model["weights"] + trainable + state) // 4 + activations // 2
        how = "the same architecture at half the width, by itself or as a student of the large one"
        yield Option("smaller_model", 0.5, peak - saved, 0.4, False, how)


def _recomputed(facts: Facts, peak: int) -> Iterator[Option]:
    """Blocks of layers that hold about the same: one is there while it is recomputed, of the others their borders."""
    layers = sorted(facts.layers, key=lambda layer: int(layer.get("place") or 0))
    blocks = _blocks([int(layer["activation_bytes"]) for layer in layers])
    borders = [layers[block[-1]] for block in blocks[:-1]]
    kept = max((_going_back([layers[place] for place in block]) for block in blocks), default=0)
    kept += sum(int(layer["activation_bytes"]) for layer in borders)
    activations = _activations(facts)
    if activations <= kept or len(layers) < SPANNED * BLOCKS:
        return
    names = ", ".join(str(layer.get("name")) for layer in borders)
    how = f"keras.remat around {len(blocks)} blocks of layers, with borders after {names}; a single layer saves nothing"
    if notes := facts.told.get("notes"):  # tried: another mask in the backward pass, a moving mean that moved twice
        how += "; dropout would draw, and BatchNormalization count, a second time: leave them outside"
    yield Option("recompute", len(blocks), peak - (activations - kept), RECOMPUTED, not notes, how)


def _going_back(block: Sequence[Mapping[str, Any]]) -> int:
    """Bytes, at most, while the gradients of a block are computed from its end to its beginning: what the layers up to
    one have made, and the gradients on both sides of it."""
    made = accumulate(int(layer["activation_bytes"]) for layer in block)
    gradients = (2 * int(layer.get("largest_tensor_bytes") or 0) for layer in block)
    return max(map(sum, zip(made, gradients, strict=True)))


def _blocks(sizes: Sequence[int]) -> list[list[int]]:
    """Places in their order, in so many runs of about the same sum; fewer where single ones are too large."""
    whole = max(1, sum(sizes))
    middles = [end - size / 2 for end, size in zip(accumulate(sizes), sizes, strict=True)]
    numbers = [min(BLOCKS - 1, int(BLOCKS * middle / whole)) for middle in middles]
    return [list(run) for _, run in groupby(range(len(sizes)), key=numbers.__getitem__)]


def _pipeline(facts: Facts, peak: int) -> Iterator[Option]:
    shapes = facts.told.get("shapes") or {}
    padding = float(shapes.get("padding") or 0.0)
    if padding > PADDED:
        how = (
            f"bucket_by_sequence_length, with smaller batches of longer sequences; {padding:.0%} of the words are 0 now"
        )
        saved = int(padding * _activations(facts))
        yield Option("length_bucketing", round(padding, 2), peak - saved, round(1 - padding, 2), False, how)
    if facts.preloaded > peak // 20:
        how = "read it from files while it trains: tf.data.TFRecordDataset, keras.utils.image_dataset_from_directory"
        yield Option("streaming", None, max(0, peak - facts.preloaded), None, True, how, prepares=True)
    for place, stage in enumerate(facts.pipeline):
        size, elements = int(stage["bytes"]), int(stage["elements"])
        before, after = facts.pipeline[:place], facts.pipeline[place + 1 :]
        if stage["stage"] == "shuffle" and size > peak // 20:
            smaller = max(1, elements // 4)
            less = {**stage, "elements": smaller, "bytes": size * smaller // max(1, elements)}
            saved = _saved(facts, (*before, less, *after))
            yield Option("shuffle_buffer", smaller, peak - saved, 1.0, False, f".shuffle({smaller})")
        if stage["stage"] == "cache" and size > peak // 20:
            saved = _saved(facts, (*before, *after))
            yield Option("cache_on_disk", None, peak - saved, None, True, '.cache("a file")')


def _saved(facts: Facts, pipeline: tuple[Mapping[str, Any], ...]) -> int:
    """Bytes that another pipeline would hold less."""
    other = replace(facts, pipeline=pipeline)
    return facts.filled + facts.later - other.filled - other.later
