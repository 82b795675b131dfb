"""Judgement on made-up facts: what each piece of evidence proves, and above all what it does not."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keepfit.conditions.verdict import judge
from keepfit.facts import ChildDeath, Disk, Exit, MemoryLimit, Notice, OomCounters

from .cases import GIB, PID, attempt, beat, error, kernel_kill, killed, record, samples, stall


def verdict(case):
    return judge(record(case))


def cause(case):
    found = verdict(case)
    return found.cause, found.confidence


MOVED = (OomCounters("/box", 1, 9, 4 * GIB, GIB),)


# --- a SIGKILL is not an OOM kill -------------------------------------------------------------------------


def test_kernel_line_with_this_pid_is_proof():
    assert cause(killed(kernel_log=kernel_kill())) == ("cgroup_oom", "certain")
    assert cause(killed(kernel_log=kernel_kill(constraint="NONE"))) == ("host_oom", "certain")


def test_kernel_line_about_another_pid_is_none():
    assert cause(killed(kernel_log=kernel_kill(pid=99, task="/other"), shares_cgroup=True))[0] == "killed_unknown"


def test_kernel_pids_of_another_namespace_prove_nothing():
    case = killed(kernel_log=kernel_kill(), kernel_pids_are_ours=False)
    assert cause(case) == ("killed_unknown", "likely")
    assert any("other pids" in word for word in verdict(case).lacked)


def test_counters_prove_it_where_the_log_is_closed():
    assert cause(killed(kernel_log=None, counters_after=MOVED)) == ("cgroup_oom", "certain")
    assert cause(killed(kernel_log=None, counters_after=MOVED, shares_cgroup=True)) == ("cgroup_oom", "likely")


def test_counters_without_a_limit_mean_the_host():
    before, after = (OomCounters("/box", 0, 0, None, GIB),), (OomCounters("/box", 1, 0, None, GIB),)
    assert cause(killed(kernel_log=None, counters_before=before, counters_after=after)) == ("host_oom", "likely")


def test_full_memory_without_any_proof_is_likely_at_most():
    case = killed(kernel_log=None, counters_before=(), counters_after=(), samples=samples([GIB, 4 * GIB - 1]))
    assert cause(case) == ("cgroup_oom", "likely")


def test_full_memory_with_a_silent_kernel_is_no_oom():
    assert cause(killed(samples=samples([GIB, 4 * GIB - 1])))[0] == "killed_unknown"


def test_bystander():
    assert cause(killed()) == ("killed_unknown", "certain")
    assert cause(killed(kernel_log=None)) == ("killed_unknown", "likely")
    assert cause(killed(kernel_log=None, counters_before=(), counters_after=())) == ("killed_unknown", "possible")


def test_a_killed_child_and_a_failed_parent():
    case = attempt(
        kernel_log=kernel_kill(pid=5000), child_deaths=(ChildDeath(5000, "python", 50.0),), exit=Exit(status=1)
    )
    found = verdict(case)
    assert (found.cause, found.confidence, found.where.process, found.where.pid) == (
        "cgroup_oom",
        "likely",
        "child",
        5000,
    )
    assert "worker_died" in found.because


def test_a_killed_child_and_a_parent_that_finished():
    case = attempt(kernel_log=kernel_kill(pid=5000), child_deaths=(ChildDeath(5000, "x", 5.0),), exit=Exit(status=0))
    assert cause(case) == ("finished", "certain")


def test_the_kernel_in_our_own_fence_is_the_budget():
    case = killed(kernel_log=kernel_kill(limit="/box/keepfit-r", task="/box/keepfit-r"), fence="/box/keepfit-r")
    assert cause(case) == ("memory_budget", "certain")


def test_a_parents_limit_beats_our_fence():
    case = killed(kernel_log=kernel_kill(limit="/box", task="/box/keepfit-r"), fence="/box/keepfit-r")
    assert cause(case) == ("cgroup_oom", "certain")


def test_a_shell_passes_a_kill_on():
    shell = {"argv": ("bash", "train.sh"), "child_deaths": (ChildDeath(5000, "python", 50.0),)}
    assert cause(attempt(exit=Exit(status=137), kernel_log=None, counters_after=MOVED, **shell))[0] == "cgroup_oom"
    assert cause(attempt(exit=Exit(status=137), **shell)) == ("killed_unknown", "likely")
    assert cause(attempt(exit=Exit(status=139), **shell)) == ("segfault", "likely")


def test_a_status_above_128_is_not_a_signal_by_itself():
    assert cause(attempt(exit=Exit(status=139))) == ("exit_nonzero", "certain"), "Python chose it"
    assert cause(attempt(exit=Exit(status=137), argv=("bash", "-c", "exit 137"))) == ("exit_nonzero", "certain")


def test_the_terminal_was_closed():
    assert cause(attempt(exit=Exit(signal=1))) == ("interrupted", "certain")


# --- what was printed ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ResourceExhaustedError: OOM when allocating tensor with shape[9,9]", "allocation_failed"),
        ("numpy._ArrayMemoryError: Unable to allocate 3.2 TiB for an array", "allocation_failed"),
        ("OSError: [Errno 28] No space left on device: 'ckpt'", "disk_full"),
        ("RuntimeError: unable to write to file </torch_1_2>: No space left on device (28)", "shm_full"),
        ("terminate called after throwing an instance of 'std::bad_alloc'", "allocation_failed"),
        ("OSError: [Errno 24] Too many open files", "too_many_files"),
        ("pthread_create failed: Resource temporarily unavailable", "threads_exhausted"),
        ("OOM when allocating tensor on /job:localhost/device:GPU:0 by allocator GPU_0_bfc", "gpu_oom"),
        ("ConnectionResetError: [Errno 104] Connection reset by peer", "network"),
        ("slurmstepd: error: *** JOB 1 CANCELLED AT x DUE TO TIME LIMIT ***", "time_limit"),
        ("something else entirely", "exit_nonzero"),
    ],
)
def test_signatures_in_the_last_lines(text, expected):
    found = verdict(attempt(stderr=f"epoch 1\n{text}\n"))
    assert found.cause == expected
    assert found.confidence in (("certain",) if expected == "exit_nonzero" else ("likely",))


@pytest.mark.parametrize(
    "line",
    [
        "Allocation of 98 exceeds 10% of free system memory.",
        "E cuInit: CUDA_ERROR_NO_DEVICE",
        "The caller indicates that this is not a failure, but may mean OOM when allocating tensor",
        "There appear to be 6 leaked semaphore objects to clean up at shutdown",
    ],
)
def test_harmless_lines_prove_nothing(line):
    assert cause(attempt(stderr=line + "\n")) == ("exit_nonzero", "certain")


def test_an_old_message_is_not_why_it_died():
    text = "OSError: [Errno 28] No space left on device\n" + "step ok\n" * 80
    assert cause(attempt(stderr=text)) == ("exit_nonzero", "certain")


def test_a_caught_error_does_not_hide_the_real_one():
    case = attempt(error=error("KeyError", "'label'"), stderr="warning: No space left on device\n")
    assert cause(case) == ("python_error", "certain")


def test_the_exception_itself_speaks():
    assert cause(attempt(error=error("OSError", "x", errno=28))) == ("disk_full", "certain")
    assert cause(attempt(error=error("MemoryError", ""))) == ("allocation_failed", "certain")
    assert cause(attempt(error=error("my.Error", "x", bases=("MemoryError",)))) == ("allocation_failed", "certain")
    assert cause(attempt(error=error("ModuleNotFoundError", "No module named 'x'"))) == ("import_error", "certain")
    missing = error("ImportError", "libcudnn.so.9: cannot open shared object file: No such file")
    assert cause(attempt(error=missing)) == ("missing_library", "certain")
    assert cause(attempt(error=error("TypeError", "x", chain=("ResourceExhaustedError",)))) == (
        "allocation_failed",
        "likely",
    )


TRACEBACK = """Epoch 1/3
Traceback (most recent call last):
  File "/home/me/train.py", line 12, in <module>
    main()
  File "/venv/lib/python3.11/site-packages/keras/trainer.py", line 3, in fit
    raise ValueError("bad shape")
ValueError: bad shape
and more words
"""


@pytest.mark.parametrize(
    ("words", "number", "expected"),
    [
        ("Connection reset by peer, retrying", 9, "killed_unknown"),
        ("Connection refused, retry 1/5", 11, "segfault"),
        ("No space left on device (cache), continuing", 15, "terminated"),
        ("Too many open files, closing some", 9, "killed_unknown"),
        ("pthread_create failed: Resource temporarily unavailable", 11, "threads_exhausted"),
        ("terminate called after throwing an instance of 'std::bad_alloc'", 6, "allocation_failed"),
    ],
)
def test_words_explain_a_signal_only_where_that_is_how_such_trouble_ends(words, number, expected):
    assert cause(attempt(exit=Exit(signal=number), stderr=words + "\n"))[0] == expected


def test_a_childs_error_is_not_the_commands():
    theirs = error("ModuleNotFoundError", "No module named 'x'", told_by="child")
    assert cause(killed(error=theirs)) == ("killed_unknown", "certain")
    assert cause(attempt(error=theirs, exit=Exit(status=3))) == ("import_error", "likely")


def test_a_traceback_in_the_log_without_the_agent():
    found = verdict(attempt(stderr=TRACEBACK))
    assert (found.cause, found.confidence) == ("python_error", "likely")
    assert (found.where.file, found.where.line, found.code_line) == ("/home/me/train.py", 12, "main()")


def test_a_traceback_that_was_handled():
    assert cause(attempt(stderr=TRACEBACK, ended_well=True)) == ("exit_nonzero", "certain")


def test_a_traceback_that_was_survived():
    assert cause(attempt(stderr=TRACEBACK + "step ok\n" * 50)) == ("exit_nonzero", "certain")


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=2000), st.text(max_size=500))
def test_no_text_makes_a_detector_raise(err, out):
    found = verdict(attempt(stderr=err + TRACEBACK[:150] + out, stdout=out))
    assert found.cause


def test_full_shm_explains_a_bus_error():
    full = (Disk("shm", "/dev/shm", 0, 64 << 20),)
    assert cause(attempt(exit=Exit(signal=7), disks=full)) == ("shm_full", "likely")
    assert cause(attempt(exit=Exit(signal=7))) == ("bus_error", "certain")


# --- ends that were asked for ----------------------------------------------------------------------------------


def test_who_sent_sigterm():
    sent = attempt(exit=Exit(signal=15), notices=(Notice(1.0, 15, 33, "slurmstepd"),))
    assert cause(sent) == ("preempted", "likely")
    assert cause(attempt(exit=Exit(signal=15), notices=(Notice(1.0, 15, 33, "bash"),))) == ("terminated", "certain")
    pod = attempt(exit=Exit(status=1), notices=(Notice(1.0, 15),), environment={"KUBERNETES_SERVICE_HOST": "10.0.0.1"})
    assert cause(pod) == ("preempted", "likely")


def test_a_program_that_handles_sigterm_and_ends_well_has_finished():
    assert cause(attempt(exit=Exit(status=0), notices=(Notice(1.0, 15, 33, "bash"),))) == ("finished", "certain")


def test_interrupted():
    assert cause(attempt(exit=Exit(signal=2))) == ("interrupted", "certain")
    assert cause(attempt(exit=Exit(status=1), error=error("KeyboardInterrupt", ""))) == ("interrupted", "certain")


def test_an_odd_signal_is_unknown_not_guessed():
    assert cause(attempt(exit=Exit(signal=31))) == ("unknown", "unknown")


# --- roots --------------------------------------------------------------------------------------------------------


def memory_death(**more):
    return killed(kernel_log=kernel_kill(), **more)


def test_batch_too_large_in_the_first_step():
    case = memory_death(samples=samples([GIB] * 10 + [4 * GIB]), beats=(beat(9.0, epoch=0, step=0, batch_size=1024),))
    found = verdict(case)
    assert found.because[0] == "batch_too_large" and any("batch 1024" in item.says for item in found.evidence)


def test_a_later_death_is_not_the_batch():
    case = memory_death(
        samples=samples([GIB] * 10 + [4 * GIB]), beats=(beat(2.0, epoch=0), beat(9.0, epoch=1, step=3, steps=50))
    )
    assert "batch_too_large" not in verdict(case).because


def test_data_before_the_first_step():
    uses = [GIB // 4 + n * GIB // 4 for n in range(16)]
    case = memory_death(samples=samples(uses), beats=(beat(1.0, phase="data"),))
    assert verdict(case).because[0] == "data_preloaded"


def test_a_spike_and_a_climb():
    spike = memory_death(
        samples=samples([GIB] * 30 + [3 * GIB, 4 * GIB]), beats=(beat(1.0, steps=0), beat(29.0, steps=99))
    )
    assert "spike" in verdict(spike).because
    climb = memory_death(
        samples=samples([GIB + n * GIB // 10 for n in range(31)]), beats=(beat(1.0), beat(29.0, steps=99))
    )
    assert "spike" not in verdict(climb).because


def test_others_used_the_memory():
    small = samples([GIB // 4] * 10, level_use=4 * GIB)
    assert "other_process" in verdict(memory_death(samples=small, shares_cgroup=True)).because
    assert "other_process" not in verdict(memory_death(samples=small)).because, "it is alone in there"
    mine = samples([3 * GIB] * 10, level_use=4 * GIB)
    assert "other_process" not in verdict(memory_death(samples=mine, shares_cgroup=True)).because


def test_a_limit_the_user_may_not_know():
    assert "limit_unknown_to_user" in verdict(memory_death()).because
    roomy = memory_death(limit=MemoryLimit(19 * GIB, "cgroup /box", "cgroup", "/box"))
    assert "limit_unknown_to_user" not in verdict(roomy).because


# --- hangs ----------------------------------------------------------------------------------------------------------


def test_why_it_hung():
    plain = killed(stall=stall())
    assert cause(plain) == ("hang", "certain") and verdict(plain).because == ()
    swapping = killed(stall=stall(swap_in_rate=50 << 20, memory_pressure=60.0))
    assert verdict(swapping).because == ("swap_thrash",)
    waiting = killed(stall=stall(waiting_in=("folio_wait_bit_common",)))
    assert verdict(waiting).because == ("io_stall",)
    under_pressure = killed(stall=stall(io_pressure=80.0))
    assert verdict(under_pressure).because == ("io_stall",)


def test_healthy_swap_use_is_no_thrash():
    assert verdict(killed(stall=stall(swap_in_rate=1 << 20, memory_pressure=2.0))).because == ()


STACKS = """Thread 0x1 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 327 in wait
  File "/home/me/train.py", line 17 in batches
"""


def test_a_hang_names_the_users_line():
    found = verdict(killed(stall=stall(stacks=STACKS)))
    assert (found.where.file, found.where.line) == ("/home/me/train.py", 17)


# --- odds and ends ---------------------------------------------------------------------------------------------------


def test_a_detector_that_fails_is_passed_over():
    from keepfit.conditions.catalogue import Condition, built_in

    def broken(_):
        raise RuntimeError("somebody else's bug")

    theirs = Condition("XX001", "broken", "broken", cause="unknown", autopsy=broken, because=broken, root="spike")
    assert judge(record(killed()), (*built_in(), theirs)).cause == "killed_unknown"


def test_evidence_always_says_something():
    for case in (killed(), attempt(), memory_death(), killed(stall=stall())):
        found = verdict(case)
        assert found.evidence and all(item.says for item in found.evidence)
        assert found.where.pid == PID or found.where.process == "child"


def test_a_run_that_trained_at_one_row_is_not_a_model_too_large():
    """At the line with micro-batches of one row: in the first step the model's fault, after many something else's."""
    from keepfit.conditions.memory import model_too_large
    from keepfit.facts import Attempt, Beat, Danger, Exit, Splitting

    def died_after(steps: int) -> Attempt:
        return Attempt(
            exit=Exit(signal=9),
            danger=Danger(2.0, 1 << 30, 1 << 30, "--memory", "cgroup-v1"),
            splittings=(Splitting("train", batch=64, rows=1, limit=1 << 30),),
            beats=(Beat(1.0, 1, "train", epoch=0, step=steps, steps=steps),),
        )

    assert model_too_large.autopsy(died_after(0)) is not None
    assert model_too_large.autopsy(died_after(500)) is None
