"""Saved states: whatever happens to the files, a bad one is never loaded and a good one is never lost."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keepfit.blackbox import safetensors, states
from keepfit.blackbox.safetensors import Damaged, Slot
from keepfit.blackbox.states import Generation, Manifest, Vault

SLOTS = [Slot("model/00000/kernel", "F32", (2, 3)), Slot("model/00001/bias", "I64", ()), Slot("empty", "BF16", (0, 4))]
CONTENT = [bytes(range(24)), bytes(8), b""]


def generation(vault: Vault, number: int, epoch: int = 0, content=CONTENT) -> Generation:
    draft = vault.draft(number, 100)
    draft.write(states.STATE, lambda file: safetensors.write(file, SLOTS, content))
    Path(draft.path, "train.index").write_bytes(b"position %d" % number)
    draft.adopt()
    draft.complete(Manifest(number=0, fit=1, epoch=epoch, batch=number, state={"history": {"loss": [0.1]}}))
    return vault.generations()[-1]


def newest(vault: Vault) -> int | None:
    found = next(vault.good(), None)
    return found[1].number if found else None


def test_what_is_written_comes_back(tmp_path):
    made = generation(Vault(tmp_path), 7, epoch=3)
    manifest = made.verified()
    assert (manifest.number, manifest.epoch, manifest.batch) == (7, 3, 7)
    assert manifest.state == {"history": {"loss": [0.1]}}
    reader = safetensors.Reader(made.open_file(states.STATE))
    assert [bytes(reader.read(slot.name)) for slot in SLOTS] == CONTENT


def test_the_library_reads_it_too(tmp_path):
    numpy = pytest.importorskip("safetensors.numpy")
    path = tmp_path / "a.safetensors"
    with open(path, "wb") as file:
        safetensors.write(file, SLOTS[:2], CONTENT[:2])
    found = numpy.load_file(path)
    assert found["model/00000/kernel"].shape == (2, 3) and found["model/00001/bias"] == 0


def _truncate(path):
    os.truncate(path, path.stat().st_size * 9 // 10)


def _flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _older(path):
    shutil.copy(path.parent.parent / "000001" / path.name, path)


def _lose_the_tail(path):
    """A power cut: the name is there, what was not flushed is zeros."""
    size = path.stat().st_size
    os.truncate(path, size // 2)
    os.truncate(path, size)


@pytest.mark.parametrize("damage", [_truncate, _flip, os.remove, _older, _lose_the_tail])
@pytest.mark.parametrize("name", [states.MANIFEST, states.STATE, "train.index"])
def test_a_damaged_generation_is_passed_over_for_the_one_before(tmp_path, name, damage):
    vault = Vault(tmp_path)
    generation(vault, 1, content=[bytes(24), bytes(8), b""])
    generation(vault, 2)
    last = generation(vault, 3, epoch=1)
    damage(Path(last.path, name))
    with pytest.raises(Damaged):
        last.verified()
    assert newest(vault) == 2


def test_a_half_written_one_is_never_seen(tmp_path):
    vault = Vault(tmp_path)
    generation(vault, 1)
    draft = vault.draft(2, 100)
    draft.write(states.STATE, lambda file: safetensors.write(file, SLOTS, CONTENT))
    assert newest(vault) == 1  # killed here: no manifest, and not yet its name
    assert newest(Vault(tmp_path)) == 1
    vault.draft(2, 100)  # the next process begins the same number anew
    assert newest(vault) == 1


def test_two_stay_and_every_end(tmp_path):
    vault = Vault(tmp_path)
    for number in range(1, 6):
        generation(vault, number)
        vault.prune()
    draft = vault.draft(6, 10)
    draft.complete(Manifest(number=0, fit=1, kind="end"))
    vault.prune()
    generation(vault, 7)
    vault.prune()
    assert [g.number for g in vault.generations()] == [5, 6, 7]


@pytest.mark.parametrize("jump", [-400 * 86400, 400 * 86400], ids=["back", "ahead"])
def test_a_clock_that_jumps_changes_no_order(tmp_path, jump):
    """States are counted, not dated: what is newest, and what is pruned, does not ask the clock."""
    vault = Vault(tmp_path)
    for number in range(1, 5):
        made = generation(vault, number)
        os.utime(made.path, (os.stat(made.path).st_mtime + jump * number,) * 2)
        vault.prune()
    assert [g.number for g in vault.generations()] == [3, 4] and newest(vault) == 4


def test_no_room_is_said_before_anything_is_written(tmp_path):
    vault = Vault(tmp_path)
    with pytest.raises(OSError):
        vault.draft(1, 1 << 60)
    assert os.listdir(tmp_path) == []


def test_one_of_a_newer_keepfit_is_not_guessed_at(tmp_path):
    made = generation(Vault(tmp_path), 1)
    path = Path(made.path, states.MANIFEST)
    document = json.loads(path.read_text())
    document["manifest"]["format"] = states.FORMAT + 1
    path.write_text(json.dumps(document))
    with pytest.raises(Damaged, match="newer keepfit"):
        made.manifest()


@given(st.binary(max_size=300))
def test_no_bytes_make_the_manifest_reader_fail(content):
    with pytest.raises(Damaged):
        states.decode(content)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=300))
def test_no_bytes_make_the_tensor_reader_fail(tmp_path, content):
    path = tmp_path / "x"
    path.write_bytes(content)
    try:
        reader = safetensors.Reader(os.open(path, os.O_RDONLY))
    except Damaged:
        return
    for name, slot in reader.slots.items():
        assert len(reader.read(name)) == slot.bytes


_names = st.text(min_size=1, max_size=20)
_shapes = st.lists(st.integers(0, 5), max_size=3).map(tuple)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(
        _names.filter(lambda n: n != "__metadata__"), st.tuples(st.sampled_from(sorted(safetensors.SIZES)), _shapes)
    )
)
def test_any_tensors_come_back(tmp_path, table):
    slots = [Slot(name, dtype, shape) for name, (dtype, shape) in table.items()]
    contents = [os.urandom(slot.bytes) for slot in slots]
    with open(tmp_path / "y", "wb") as file:
        checksum = safetensors.write(file, slots, contents)
    with open(tmp_path / "y", "rb") as file:
        assert checksum == safetensors.sha256_of(file)
    reader = safetensors.Reader(os.open(tmp_path / "y", os.O_RDONLY))
    assert list(reader.slots.values()) == slots
    assert [bytes(reader.read(slot.name)) for slot in slots] == contents
    reader.close()
