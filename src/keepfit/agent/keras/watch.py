"""All that looks at the numbers of a training, put together: the gate, what follows from it, and the health."""

from importlib import import_module

from ..hooks import wrap
from ..tensorflow.parts import tf
from . import candid, gate
from .health import Health
from .inputs import Inputs
from .numbers import Numbers


def install(source, heart, missing, guarding, kept, orders):
    wanted = orders.get("clip")
    clip = None
    if wanted is not None:
        with tf().init_scope():
            most = float("inf") if wanted == "auto" else float(wanted)
            clip = tf().Variable(most, dtype=tf().float32, trainable=False, name="keepfit_clip")
    guarding.gate = made = gate.install(source, missing, clip)
    numbers = Numbers(heart, made, guarding, kept, source, orders)
    inputs = Inputs(heart, made, source, orders.get("bad_sample") == "skip")
    health = Health(heart, made, guarding, source, clip, wanted)

    def handed(watched, batch):
        try:
            if not batch.is_finite:
                numbers.handed(watched, batch)
            health.handed(watched, batch)
            inputs.handed(watched, batch)
        except Exception as error:  # called from within the step: that must not fail with us
            heart.failed("handed", error)

    def telling(original):
        """Around what an epoch's metrics are read by: of no steps at all they are not zero, they are not there."""

        def _get_metrics_result_or_logs(model, logs):
            result = original(model, logs)
            try:
                numbers.look()
                if heart.phase == "train" and isinstance(result, dict) and numbers.nothing_applied(model):
                    return dict.fromkeys(result, float("nan"))
            except Exception as error:
                heart.failed("watch", error)
            return result

        return _get_metrics_result_or_logs

    trainer = import_module(source + "trainers.trainer").Trainer
    wrap(trainer, "_get_metrics_result_or_logs", telling, missing)
    made.handed, made.failed = handed, heart.failed
    made.stands_aside = numbers.not_gated
    if not orders.get("hidden"):
        candour = candid.Candour(numbers, heart)
        heart.batch_told = candour.tell
        wrap(
            import_module(source + "backend.tensorflow.trainer").TensorFlowTrainer,
            "train_on_batch",
            candour.returning,
            missing,
            entered=True,
        )
    heart.at_ease += [numbers.look, health.look, inputs.look]
    heart.at_end += [numbers.look, inputs.epoch_ends]
    heart.at_error += [inputs.failed, lambda error: numbers.look()]
    heart.at_epoch += [inputs.epoch_begins, numbers.epoch_begins, health.epoch_begins]
