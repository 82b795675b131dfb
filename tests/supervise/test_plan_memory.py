"""What is made of a rehearsal, without one: remembered plans, a fence that was not built, trials on either side."""

from __future__ import annotations

from dataclasses import replace

from keepfit.facts import MemoryLimit
from keepfit.plan import forecast, largest, whole
from keepfit.plan.micro_batch import Trial
from keepfit.supervise import planning
from keepfit.supervise.earlier import EarlierPlans

MIB = 1 << 20
FACTS = forecast.Facts.of(
    {
        "rows": 256, "in_use": 300 * MIB, "files": 250 * MIB, "key": "k", "likeness": "l", "versions": ["2.21", "3.15"],
        "model": {"weights": 40 * MIB, "trainable": 40 * MIB, "optimizer": 80 * MIB},
        "static": [(count, count * MIB) for count in (1, 256, 512)],
    }
)  # fmt: skip
TRIALS = [Trial(8, 350 * MIB, 0.1), Trial(128, 480 * MIB, 0.3)]


def made(facts=FACTS, **more):
    limit = MemoryLimit(4 << 30, "--memory")
    return whole.Plan(limit, facts, list(TRIALS), wanted=largest.Wanted(4 << 30), **more)


def test_the_same_training_is_remembered_and_one_whose_graph_keeps_more_is_not(tmp_path):
    earlier = EarlierPlans(tmp_path, largest.Wanted(4 << 30), search=True, stated=True)
    earlier.keep(made())
    assert earlier.tried(FACTS) == (TRIALS, [])
    stride = replace(FACTS, static=tuple((rows, 2 * size) for rows, size in FACTS.static))
    assert earlier.tried(stride) is None
    assert earlier.tried(replace(FACTS, in_use=FACTS.in_use + 2 * forecast.CHANCE)) is None
    assert earlier.tried(replace(FACTS, samples=100)) is None  # the search went beyond that
    smaller = EarlierPlans(tmp_path, largest.Wanted(2 << 30), search=True, stated=True)
    assert smaller.tried(FACTS) is None


def test_what_a_machine_has_left_need_not_be_the_same_to_the_byte(tmp_path):
    EarlierPlans(tmp_path, largest.Wanted(4 << 30), search=True, stated=False).keep(made())
    for limit, known in ((4.2, True), (3.8, True), (5, False), (3.2, False)):
        later = EarlierPlans(tmp_path, largest.Wanted(int(limit * (1 << 30))), search=True, stated=False)
        assert (later.tried(FACTS) is not None) is known
    assert EarlierPlans(tmp_path, largest.Wanted(4 << 30), search=True, stated=True).tried(FACTS) is None
    EarlierPlans(tmp_path, largest.Wanted(4 << 30), search=True, stated=False).keep(
        made(attempts=[largest.Attempt((Trial(1000, 4000 * MIB, 1.0),))])
    )
    for limit, known in ((4.0, True), (3.8, False)):  # less than what was found needs
        later = EarlierPlans(tmp_path, largest.Wanted(int(limit * (1 << 30))), search=True, stated=False)
        assert (later.tried(FACTS) is not None) is known


def test_sizes_behind_one_another_are_remembered_as_one_attempt(tmp_path):
    earlier = EarlierPlans(tmp_path, largest.Wanted(4 << 30), search=True, stated=True)
    first, second, behind = (Trial(rows, rows * MIB, 1.0) for rows in (1000, 1400, 1450))
    attempts = [largest.Attempt((first,)), largest.Attempt((second, behind), overshot=1500)]
    earlier.keep(made(attempts=attempts))
    assert earlier.tried(FACTS) == (TRIALS, attempts)


def test_an_attempt_that_only_came_to_the_limit_is_not_remembered(tmp_path):
    earlier = EarlierPlans(tmp_path, largest.Wanted(4 << 30), search=True, stated=True)
    earlier.keep(made(attempts=[largest.Attempt((Trial(1000, 1000 * MIB, 1.0),)), largest.Attempt(overshot=1500)]))
    assert earlier.tried(FACTS) is None


def test_without_a_fence_it_says_what_that_leaves_out():
    said = "the largest batch: no cgroup could be made to hold it at the limit (none is writable)"
    assert said in whole.not_counted(made(unfenced="none is writable"))
    assert said not in whole.not_counted(made())


def test_in_a_pool_a_batch_close_to_the_limit_is_not_said_to_run_each_time():
    pooled = replace(FACTS, told={**FACTS.told, "pool": True})
    assert pooled.pooled and not FACTS.pooled

    def is_told(facts, peak):
        attempts = [largest.Attempt((Trial(1000, peak * MIB, 1.0),))]
        return any(
            "1000 rows may not run each time" in line for line in whole.not_counted(made(facts, attempts=attempts))
        )

    assert is_told(pooled, 3900) and not is_told(pooled, 3000)  # of 4096
    assert not is_told(FACTS, 3900)
    assert not any("each time" in line for line in whole.not_counted(made(pooled)))  # nothing was tried


def test_a_larger_batch_that_was_tried_tells_of_a_smaller_one():
    """The line between two trials is better than one beyond them."""
    behind = Trial(530, 1900 * MIB, 1.0)  # in the same process, where it needs more
    known = made(attempts=[largest.Attempt((Trial(512, 1500 * MIB, 1.0), behind))])
    between = 480 + (1500 - 480) * (256 - 128) / (512 - 128)
    assert known.point.peak == FACTS.files + int(between * MIB) and known.point.how == "measured"
    assert made().point.peak < known.point.peak


KEEPS = {**FACTS.told, "malloc": dict.fromkeys(forecast.LEAN_MALLOC)}


def test_malloc_keeps_less_of_earlier_epochs_where_that_helps_and_is_needed():
    few = {**KEEPS, "steps": 6}  # so that only the buffers count
    shuffled = replace(FACTS, told=few, epochs=3, pipeline=({"stage": "shuffle", "elements": 100, "bytes": 400 * MIB},))
    tight = whole.Plan(MemoryLimit(800 * MIB, "--memory"), shuffled, list(TRIALS), wanted=largest.Wanted(800 * MIB))
    assert planning._malloc(tight) == forecast.LEAN_MALLOC
    assert planning._malloc(made(shuffled)) == {}  # it fits anyway
    assert planning._malloc(replace(tight, facts=replace(FACTS, told=few))) == {}  # nothing is shuffled


def test_malloc_keeps_less_of_a_step_where_later_ones_might_not_fit():
    grows = replace(FACTS, told=KEEPS)
    tight = {"limit": MemoryLimit(1100 * MIB, "--memory"), "trials": list(TRIALS), "wanted": largest.Wanted(760 * MIB)}
    planned = whole.Plan(facts=grows, **tight)
    assert planned.fits and planning._malloc(planned) == forecast.LEAN_MALLOC
    chosen = replace(FACTS, told={**FACTS.told, "malloc": {**KEEPS["malloc"], "MALLOC_MMAP_THRESHOLD_": "4096"}})
    assert planning._malloc(whole.Plan(facts=chosen, **tight)) == {"MALLOC_ARENA_MAX": "1"}
    assert planning._malloc(made(grows)) == {}  # there is room for twice as much
    assert planning._malloc(whole.Plan(facts=FACTS, **tight)) == {}
    said = "what malloc keeps of later steps, which may be more than of those that were tried"
    assert said in whole.not_counted(planned) and said not in whole.not_counted(made())


def test_a_plan_is_not_remembered_for_another_malloc(tmp_path):
    earlier = EarlierPlans(tmp_path, largest.Wanted(4 << 30), search=True, stated=True)
    earlier.keep(made())
    assert earlier.tried(FACTS) and earlier.tried(replace(FACTS, told=KEEPS)) is None


def test_a_coverage_is_told_only_of_forecasts_such_as_were_measured():
    assert made().coverage == forecast.COVERAGE["measured"]
    assert replace(made(), trials=[]).coverage == forecast.COVERAGE["static"]
    eager, loop = replace(FACTS, static=()), replace(FACTS, told={**FACTS.told, "loop": True})
    validating = replace(FACTS, validation=4 << 30)
    assert [made(facts).coverage for facts in (eager, loop, validating)] == [None, None, None]
    assert made(reached=True).coverage is None
