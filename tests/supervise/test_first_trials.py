"""What a plan's first process is asked to try, and in how much time; a clock that is set stands for a slow machine."""

from __future__ import annotations

from dataclasses import replace

from keepfit.facts import MemoryLimit
from keepfit.plan import forecast, largest, whole
from keepfit.plan.micro_batch import Trial
from keepfit.supervise import searching
from keepfit.supervise.earlier import EarlierPlans
from keepfit.supervise.first_trials import CLIMBING, MEASURING, FirstTrials
from keepfit.supervise.options import PlanOptions
from keepfit.supervise.rehearsal import Rehearsal

MIB = 1 << 20
EVENT = {
    "rows": 256, "in_use": 300 * MIB, "files": 250 * MIB, "key": "k", "likeness": "l", "versions": ["2.21", "3.15"],
    "model": {"weights": 40 * MIB, "trainable": 40 * MIB, "optimizer": 80 * MIB},
    "static": [(count, count * MIB) for count in (1, 256, 512)],
}  # fmt: skip
LIMIT = MemoryLimit(4 << 30, "--memory")


class Played:
    """A process that comes to its training call at once, and takes so many seconds for a row."""

    def __init__(self, seconds_a_row, came=0.0, **options):
        self.said, self.asked = [], []
        self._seconds, self._clock = seconds_a_row, 0.0
        wanted = PlanOptions(("train",), say=self.said.append, **options)
        asked = largest.Wanted(LIMIT.bytes)
        earlier = EarlierPlans(None, asked, wanted.search, stated=True)
        self.trials = FirstTrials(wanted, LIMIT, asked, earlier, lambda: self._clock)
        self._clock = came
        self.heard = Rehearsal(facts=dict(EVENT), came=came)

    def ask(self):
        self.heard.asked = self.trials.next(self.heard)
        self.asked.append(self.heard.asked)
        return self.heard.asked

    def run(self, rows):
        """It takes twice as long as its three steps: the first is not like the others."""
        self._clock += 6 * self._seconds * rows
        took = {"rows": rows, "peak": (350 + rows) * MIB, "seconds": self._seconds * rows, "spread": 0}
        self.heard.tried.append(took)

    def play(self):
        while (asked := self.ask()) is not None:
            if asked.by is not None and self._clock + 6 * self._seconds * asked.rows > asked.by:
                self.heard.late = True
                return
            self.run(asked.rows)


def test_the_graphs_forecast_is_said_before_anything_is_tried():
    played = Played(0.001)
    assert played.ask().rows == 8
    assert len(played.said) == 1
    assert played.said[0].startswith("from the graph alone: batch 256 needs about 905 MiB (679 MiB to 1.19 GiB), ")
    assert "there are 4.00 GiB; small batches are tried now" in played.said[0]


def test_without_a_search_it_ends_behind_the_small_batches():
    played = Played(0.001)
    played.play()
    assert [trial.rows for trial in played.heard.trials] == [8, 128]
    assert played.trials.hurried(played.heard) == "" and played.trials.ends is None


def test_a_slow_second_batch_is_made_as_small_as_the_time_is():
    played = Played(0.1)
    played.play()
    first, second = (trial.rows for trial in played.heard.trials)
    assert first == 8 and 8 < second < 128
    assert f"a trial of batch 128 takes more than the 28 s for small ones; batch {second} was tried instead" == (
        played.trials.hurried(played.heard)
    )


def test_where_there_is_no_time_for_a_second_one_it_is_left_out():
    played = Played(0.4)
    played.play()
    assert [trial.rows for trial in played.heard.trials] == [8]
    assert "nothing more was tried" in played.trials.hurried(played.heard)


def test_a_first_one_that_does_not_end_is_ended():
    played = Played(10.0)
    played.play()
    assert played.heard.late and not played.heard.tried
    said = played.trials.hurried(played.heard)
    assert said == f"the trial of batch 8 was ended when the {MEASURING:.0f} s for small ones were over"


def test_ctrl_c_in_a_small_one_is_told():
    played = Played(0.001)
    played.ask()
    played.heard.interrupted = True
    assert played.trials.hurried(played.heard) == "Ctrl-C ended the trial of batch 8"


def test_a_single_small_batch_for_want_of_time_leaves_the_graphs_forecast():
    facts = forecast.Facts.of(EVENT)
    made = whole.Plan(LIMIT, facts, [Trial(8, 350 * MIB, 3.0)], wanted=largest.Wanted(LIMIT.bytes), hurried="why")
    assert made.point.how == "static" and made.point == forecast.static(facts, 256)
    assert "what small batches would have shown: why" in whole.not_counted(made)
    assert replace(made, hurried="").point.how == "measured"
    eager = replace(made, facts=replace(facts, static=()))  # nothing else is known of that
    assert eager.point.how == "measured"


def test_the_search_begins_with_what_was_measured_and_leaves_half_of_its_time_to_the_attempts():
    played = Played(0.001, search=True, search_for=100.0)
    played.play()
    assert "measured in small: batch 256 needs about" in played.said[1] and "for 100 s at most" in played.said[1]
    climbs = [asked for asked in played.asked[2:] if asked is not None]
    assert climbs and {asked.by for asked in climbs} == {played.trials.ends - (1 - CLIMBING) * 100.0}


def test_it_does_not_climb_where_the_attempts_need_the_time_to_come_to_their_training_call():
    played = Played(0.001, came=40.0, search=True, search_for=100.0)
    played.play()
    assert [trial.rows for trial in played.heard.trials] == [8, 128] and played.trials.ends is not None


def planned(**more):
    trials = [Trial(8, 350 * MIB, 0.1), Trial(128, 480 * MIB, 1.28)]
    return whole.Plan(LIMIT, forecast.Facts.of(EVENT), trials, wanted=largest.Wanted(LIMIT.bytes), **more)


def test_an_attempt_is_as_large_as_the_time_is():
    made = planned(came_after=20.0)
    assert searching.in_time(made, 1000, 120.0) == 1000
    assert 128 < searching.in_time(made, 1000, 40.0) < 1000
    assert searching.in_time(made, 1000, 25.0) == 0  # no more than what has run already
    assert searching.in_time(made, 1000, 10.0) == 0  # it would not even come to its training call


def test_what_a_search_that_was_ended_has_found_is_told_with_how_it_ended():
    made = planned(climbed=[Trial(600, 1000 * MIB, 1.0)], ended="the search had 120 s (--search-for)")
    document = whole.document(made)
    assert document["largest_batch"] == 600 and document["trials"] == 0
    assert document["search_ended"] == "the search had 120 s (--search-for)"
    said = "batches larger than those that were tried: the search had 120 s (--search-for)"
    alone = "what 600 rows need in a process of their own: they ran behind others, and may need more"
    assert said in document["not_counted"] and alone not in document["not_counted"]
    pooled = replace(made, facts=replace(made.facts, told={**made.facts.told, "pool": True}))
    assert alone in whole.not_counted(pooled)


def test_a_plan_that_was_cut_short_is_not_remembered(tmp_path):
    earlier = EarlierPlans(tmp_path, largest.Wanted(LIMIT.bytes), search=True, stated=True)
    for cut in ({"hurried": "why"}, {"ended": "how"}):
        earlier.keep(planned(**cut))
        assert earlier.tried(forecast.Facts.of(EVENT)) is None
    earlier.keep(planned())
    assert earlier.tried(forecast.Facts.of(EVENT)) is not None
