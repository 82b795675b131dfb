"""What people read: snapshots, twelve lines at most, and text from outside that cannot hijack a terminal."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from keepfit.facts import AttemptLine, Evidence, Remedy, Verdict, Where
from keepfit.report import style, tables, verdict_text

DEATH = Verdict(
    run="20261115-031502-k7f3",
    outcome="died",
    cause="cgroup_oom",
    because=("batch_too_large", "limit_unknown_to_user"),
    code="KF101",
    confidence="certain",
    summary="killed by the kernel: the container's memory limit was reached",
    where=Where(epoch=0, step=3, phase="train", pid=4758),
    evidence=(
        Evidence("cgroup", "cgroup /box: oom_kill 0 → 1 while pid 4758 ran"),
        Evidence("kernel", "“Killed process 4758 (python)”, CONSTRAINT_MEMCG of cgroup /box"),
        Evidence("samples", "use 1.50 GiB of 1.50 GiB (cgroup /box)", "likely"),
    ),
    remedies=(Remedy("use a smaller batch", "model.fit(…, batch_size=…)"),),
    attempts=(AttemptLine(1, "cgroup_oom", None, 12.0, 3),),
)

SCREEN = """\
keepfit: killed by the kernel: the container's memory limit was reached                                KF101 · certain
  where      epoch 1, step 4, training
  evidence   cgroup: cgroup /box: oom_kill 0 → 1 while pid 4758 ran
             kernel: “Killed process 4758 (python)”, CONSTRAINT_MEMCG of cgroup /box
             samples: use 1.50 GiB of 1.50 GiB (cgroup /box)
  because    batch too large, limit unknown to user
  try        use a smaller batch: model.fit(…, batch_size=…)
  help       keepfit explain KF101; the record: keepfit why 20261115-031502-k7f3"""

ERROR_SCREEN = """\
keepfit: a Python exception: KeyError: 'label'                                                         KF510 · certain
  where      train.py:5
             > return sample["label"]
  evidence   agent: KeyError: 'label'
  not seen   kernel log not readable (Operation not permitted)
  help       keepfit explain KF510; the record: keepfit why 20261115-031502-k7f3"""


STORY_SCREEN = """\
keepfit: finished; at attempt 9 (resumed at epoch 7, batch 1)                                          KF500 · certain
  where      epoch 10, step 20, end, attempt 9
  evidence   exit: pid 2273 exited with status 0
  attempts   4 before: 3 × killed_unknown, 1 × segfault
             5: hang after 9 s, resumed at epoch 3, batch 2
             6: terminated after 8 s, resumed at epoch 5, batch 2
             7: killed_unknown after 8 s, resumed at epoch 6, batch 21
             8: memory_budget after 7 s, resumed at epoch 6, batch 25
             9: finished after 12 s, micro-batch 16 → 2, resumed at epoch 7, batch 1"""


def test_the_story_of_the_attempts():
    told = [
        AttemptLine(1, "killed_unknown", None, 12.0, 3),
        AttemptLine(2, "killed_unknown", "resumed at epoch 1, batch 2", 9.0, 3),
        AttemptLine(3, "segfault", "resumed at epoch 1, batch 9", 9.0, 3),
        AttemptLine(4, "killed_unknown", "resumed at epoch 2, batch 9", 9.0, 3),
        AttemptLine(5, "hang", "resumed at epoch 3, batch 2", 9.0, 3),
        AttemptLine(6, "terminated", "resumed at epoch 5, batch 2", 8.0, 3),
        AttemptLine(7, "killed_unknown", "resumed at epoch 6, batch 21", 8.0, 3),
        AttemptLine(8, "memory_budget", "resumed at epoch 6, batch 25", 7.0, 3),
        AttemptLine(9, "finished", "micro-batch 16 → 2, resumed at epoch 7, batch 1", 12.0, 3),
    ]
    verdict = Verdict(
        run="r",
        outcome="finished",
        cause="finished",
        because=(),
        code="KF500",
        confidence="certain",
        summary="finished; at attempt 9 (resumed at epoch 7, batch 1)",
        where=Where(attempt=9, epoch=9, step=19, phase="end", pid=2273),
        evidence=(Evidence("exit", "pid 2273 exited with status 0"),),
        attempts=tuple(told),
    )
    assert verdict_text.render(verdict) == STORY_SCREEN


def test_a_death():
    assert verdict_text.render(DEATH) == SCREEN


def test_an_exception_shows_the_users_line():
    verdict = replace(
        DEATH,
        code="KF510",
        because=(),
        remedies=(),
        summary="a Python exception: KeyError: 'label'",
        where=Where(file="train.py", line=5, pid=1),
        evidence=(Evidence("agent", "KeyError: 'label'"),),
        lacked=("kernel log not readable (Operation not permitted)",),
        code_line='return sample["label"]',
    )
    assert verdict_text.render(verdict) == ERROR_SCREEN


words = st.text(max_size=400)


@given(words, st.lists(words, max_size=9), st.lists(words, max_size=6), words, st.integers(40, 200))
def test_a_wide_screen_has_twelve_lines_and_a_narrow_one_the_same_words(summary, says, lacked, code, width):
    verdict = replace(
        DEATH,
        summary=summary,
        evidence=tuple(Evidence("log", text) for text in says),
        lacked=tuple(lacked),
        code_line=code,
    )
    screen, wide = verdict_text.render(verdict, width=width), verdict_text.render(verdict)
    assert len(wide.split("\n")) <= 12
    assert "".join(screen.split()) == "".join(wide.split()), "nothing is cut"
    assert all(len(line) <= width for line in screen.split("\n"))
    assert not any(ord(c) < 32 and c != "\n" for c in screen) and "\x1b" not in screen


def test_hostile_text_is_shown_not_obeyed():
    assert style.harmless("a\x1b[31mred\x07\u202e") == "a\\x1b[31mred\\x07\\x202e"


def test_tables_fit_and_escape():
    text = tables.render(("A", "B"), [["x\x1b", "y" * 300]], width=50)
    assert all(len(line) <= 50 for line in text.splitlines()) and "\x1b" not in text
    assert text.count("y") == 300, "it is wrapped, and nothing is cut"


def test_a_narrow_table_goes_on_in_the_next_line():
    header, row = ("RUN", "NAME", "STATE", "COMMAND"), ["2026-k7f3", "night", "died", "python train.py --rows 5"]
    assert tables.render(header, [row], width=30).splitlines() == [
        "RUN        NAME   STATE",
        "    COMMAND",
        "2026-k7f3  night  died",
        "    python train.py --rows 5",
    ]


def test_ages():
    assert [tables.age(s) for s in (3, 90, 7200, 200000, -5)] == ["3 s", "2 min", "2 h", "2 d", "0 s"]
