"""What `keepfit plan` prints, whole; text from outside cannot hijack a terminal."""

from __future__ import annotations

from dataclasses import replace

from keepfit.facts import MemoryLimit
from keepfit.plan import forecast, largest, whole
from keepfit.plan.micro_batch import Trial
from keepfit.report import plan_text

MIB = 1 << 20
FACTS = forecast.Facts.of(
    {
        "rows": 256, "in_use": 420 * MIB, "files": 250 * MIB, "epochs": 3, "preloaded": 100 * MIB,
        "model": {"weights": 40 * MIB, "trainable": 40 * MIB, "optimizer": 80 * MIB},
        "static": [(rows, 40 * MIB + rows * 3 * MIB) for rows in (1, 256, 512)],
        "layers": [
            {"name": "conv2d", "activation_bytes": 512 * MIB, "weight_bytes": MIB, "time_share": 0.7},
            {"name": "dense", "activation_bytes": 128 * MIB, "weight_bytes": 39 * MIB, "time_share": 0.3},
        ],
        "pipeline": [{"stage": "shuffle", "elements": 2000, "bytes": 60 * MIB}],
        "wrote": ["/data/run/\x1b[31mconfig.json"], "malloc": dict.fromkeys(forecast.LEAN_MALLOC),
    }
)  # fmt: skip
SCREEN = r"""
batch 256 needs about 1.64 GiB (1.51 GiB to 1.83 GiB in 84% of trainings), 250 MiB of it program code, which gives way; there are 1.17 GiB (--memory): it most likely does not fit
measured in small; its graph alone says 1.74 GiB

  framework and program                      390 MiB  █████████
  weights                                     40 MiB  █
  gradients                                   40 MiB  █
  optimizer state                             80 MiB  ██
  activations                                768 MiB  ██████████████████
  workspace and what the allocator keeps     206 MiB  █████
  input pipeline                              60 MiB  █
  data held in memory                        100 MiB  ██

LAYER   ACTIVATIONS  WEIGHTS  SHARE OF THE WORK
conv2d  512 MiB      1 MiB    70%
dense   128 MiB      39 MiB   30%

OPTION                          NEEDS (ESTIMATE)  TIME (ESTIMATE)  SAME RESULTS  FITS
streaming                       1.55 GiB          ?                yes           no
micro_batch 128                 1.28 GiB          x 1.01           yes           yes
lean_malloc                     1.55 GiB          x 1.05           yes           no
machine 2GiB                    1.64 GiB          x 1.00           yes           yes
smaller_model 0.5               1.15 GiB          x 0.40           no            yes
freeze 0.5                      1.59 GiB          x 0.80           no            no
mixed_precision mixed_bfloat16  1.39 GiB          ?                no            no
optimizer SGD                   1.57 GiB          x 1.00           no            no
lora 8                          1.57 GiB          x 1.00           no            no
optimizer Adafactor             1.57 GiB          x 1.10           no            no
  streaming: read it from files while it trains: tf.data.TFRecordDataset, keras.utils.image_dataset_from_directory
  micro_batch: keepfit run does it by itself; keepfit run --memory SIZE holds it to a budget
  lean_malloc: export MALLOC_ARENA_MAX=1 MALLOC_MMAP_THRESHOLD_=1048576: what is freed is used again or goes back
  machine: batch 256 fits on 2 GiB, by the upper end of the forecast
  smaller_model: the same architecture at half the width, by itself or as a student of the large one
  freeze: layer.trainable = False for the first half of the weights
  mixed_precision: keras.mixed_precision.set_global_policy("mixed_bfloat16"); float16 is slow on a CPU
  optimizer: keras.optimizers.SGD(…)
  lora: layer.enable_lora(rank=8)
  optimizer: keras.optimizers.Adafactor(…)

BATCH TRIED  PEAK (WITHOUT CODE)  ROWS A SECOND
8            500 MiB              160
128          920 MiB              320
200          1.12 GiB             250
the largest is not the fastest: of those tried, 128 rows at a time are

written by the script before its training call: /data/run/\x1b[31mconfig.json
not counted: what callbacks and the script's own code take while it trains
not counted: what the script does behind its first training call: another model that it trains there may need more
not counted: what malloc keeps of later steps, which may be more than of those that were tried"""  # noqa: E501


def test_a_plan_that_does_not_fit():
    tried = [Trial(8, 500 * MIB, 0.05), Trial(128, 920 * MIB, 0.4)]
    made = whole.Plan(
        MemoryLimit(1200 * MIB, "--memory"), FACTS, tried, [largest.Attempt((Trial(200, 1150 * MIB, 0.8),))],
        wanted=largest.Wanted(1200 * MIB),
    )  # fmt: skip
    assert plan_text.render(whole.document(made), colours=False, width=100) == SCREEN.strip()


def test_a_largest_batch_that_was_tried_for_few_steps_is_said_to_be_one():
    trials = [Trial(8, 500 * MIB, 0.05), Trial(128, 920 * MIB, 0.4)]
    found = [largest.Attempt((Trial(300, 1500 * MIB, 0.8),))]
    lean, other = (replace(FACTS, told={**FACTS.told, "malloc": told}) for told in (forecast.LEAN_MALLOC, {}))
    made = (
        whole.Plan(MemoryLimit(2 << 30, "--memory"), facts, trials, found, wanted=largest.Wanted(2 << 30))
        for facts in (FACTS, lean, other)
    )
    said = "largest batch that was tried and fits: 300"
    longer = f"{said}, in its first steps: more may be kept in later ones"
    texts = [plan_text.render(whole.document(one), colours=False, width=100) for one in made]
    lines = [next(line for line in text.splitlines() if line.startswith(said)) for text in texts]
    assert lines == [f"{longer} (lean_malloc: set it, and plan again)", longer, said]


def test_room_for_later_steps_is_said():
    """A pool grows a little, and that is left free: the steps that were tried speak for the others."""
    pooled = replace(FACTS, told={**FACTS.told, "pool": True})
    wanted = largest.Wanted(2 << 30).of(pooled)
    made = whole.Plan(MemoryLimit(2 << 30, "--memory"), pooled, [], [largest.Attempt((Trial(300, 1850 * MIB, 0.8),))],
                      wanted=wanted)  # fmt: skip
    text = plan_text.render(whole.document(made), colours=False, width=100)
    assert "largest batch that was tried and fits: 300, with at least 41 MiB left for what later steps keep\n" in text


def test_what_of_the_limit_is_not_there_is_said():
    limit = MemoryLimit(4 << 30, "what is left")
    made = whole.Plan(limit, FACTS, [], wanted=largest.Wanted(3 << 30), budget=1 << 40)
    text = plan_text.render(whole.document(made), colours=False, width=100)
    assert "there are 4.00 GiB (what is left), of which 1.00 GiB are kept free: it" in text
    assert "by its graph alone" in text
    assert "not counted: what of --memory is more than there is here (what is left)" in text


def test_the_fastest_is_one_that_fits():
    pooled = replace(FACTS, told={**FACTS.told, "pool": True})
    for seconds, said in ((1.0, False), (0.5, True)):
        trials = [Trial(8, 500 * MIB, 0.05), Trial(128, 920 * MIB, 0.9 * seconds)]
        found = [largest.Attempt((Trial(300, 1700 * MIB, 2.0), Trial(320, 1800 * MIB, 0.1)))]
        made = whole.Plan(MemoryLimit(2 << 30, "--memory"), pooled, trials, found, wanted=largest.Wanted(2 << 30))
        text = plan_text.render(whole.document(made), colours=False, width=100)
        assert ("the largest is not the fastest: of those tried, 128 rows at a time are" in text) is said


def test_a_size_that_ran_behind_others_is_said_not_to_count():
    pooled = replace(FACTS, told={**FACTS.told, "pool": True})
    found = [largest.Attempt((Trial(300, 1700 * MIB, 0.8), Trial(320, 1800 * MIB, 0.9)))]
    made = whole.Plan(MemoryLimit(2 << 30, "--memory"), pooled, [], found, wanted=largest.Wanted(2 << 30))
    text = plan_text.render(whole.document(made), colours=False, width=100)
    assert "largest batch that was tried and fits: 300" in text
    assert "320 rows ran behind other sizes in the same process, and may need more alone: they do not count" in text


def test_what_a_forecast_comes_to():
    """Beside the point lies its interval: only where all of that is beyond the limit is it said not to fit."""
    tried = [Trial(8, 500 * MIB, 0.05), Trial(128, 920 * MIB, 0.4)]
    made = (whole.Plan(MemoryLimit(limit * MIB, "--memory"), FACTS, tried, wanted=largest.Wanted(limit * MIB))
            for limit in (1200, 1450, 2048))  # fmt: skip
    assert [one.outlook for one in made] == ["does_not_fit", "may_not_fit", "fits"]
    nothing = replace(FACTS, static=())
    assert whole.Plan(MemoryLimit(MIB, "x"), nothing, [], wanted=largest.Wanted(MIB)).outlook == "unknown"
