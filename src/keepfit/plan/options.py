"""What would help when the model itself does not fit: options with their prices, in the model's own bytes."""

from __future__ import annotations

from ..facts import Remedy, Splitting


def lighter(known: Splitting | None) -> tuple[Remedy, ...]:
    """Ranked by what they cost the person; priced where the model's bytes are known."""
    model = known.model if known is not None else {}
    trainable, state = int(model.get("trainable") or 0), int(model.get("optimizer") or 0)
    activations = int(known.slope) if known is not None else 0
    frozen = trainable // 2 + state // 2
    found = [
        Remedy("give it more memory", "keepfit run --memory SIZE -- …"),
        Remedy(
            "a lighter optimizer (SGD keeps nothing, Lion one copy of the weights)",
            "model.compile(keras.optimizers.Lion(…))",
            saves_bytes=max(0, state - trainable) if state > trainable else None,
        ),
        Remedy(
            "freeze half of the model: no gradients, no optimizer state for it",
            "layer.trainable = False",
            saves_bytes=frozen or None,
        ),
        Remedy(
            "LoRA: gradients and optimizer state only for small factors",
            "layer.enable_lora(rank=8)",
            saves_bytes=(trainable + state) or None,
        ),
        Remedy(
            "mixed precision: activations take half",
            'keras.mixed_precision.set_global_policy("mixed_bfloat16")',
            saves_bytes=activations // 2 or None,
        ),
        Remedy(
            "recompute blocks in the backward pass instead of keeping their activations",
            "keras.RematScope(mode='full')",
            saves_bytes=activations or None,
        ),
        Remedy(
            "a smaller or distilled model: half the width is a quarter of the weights",
            "the same architecture with fewer units",
            saves_bytes=(3 * (2 * trainable + state)) // 4 or None,
        ),
    ]
    return tuple(found)
