"""keepfit.check, compare and clean, as a notebook uses them."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import keepfit


@pytest.fixture
def rows():
    found = np.random.default_rng(0).random((50, 3), dtype="float32")
    found[4, 1], found[9, 0] = np.nan, np.inf
    return found


def test_nothing_heavy_is_imported_before_it_is_used():
    code = (
        "import sys, keepfit; assert 'numpy' not in sys.modules; keepfit.check; assert 'tensorflow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_check_names_row_and_feature(rows):
    report = keepfit.check((rows, np.arange(50) % 3))
    assert not report.ok and "1 NaN and 1 Inf; the first in row 4, x[1]: nan" in str(report)
    assert keepfit.check({"a": rows[10:]}).ok


def test_check_of_batches_sees_drift():
    def batches():
        yield np.zeros((4, 2), "float32"), np.zeros(4)
        yield np.zeros((4, 2), "float64"), np.zeros(4)

    assert "x is float64 after 4 rows, and float32 before" in str(keepfit.check(batches()))


def test_compare_says_what_an_augmentation_did(rows):
    good = rows[10:]
    assert keepfit.compare(good, good[::-1]).ok
    assert "where it was" in str(keepfit.compare(good, good * 255))
    assert "became float64" in str(keepfit.compare(good, good.astype("float64")))
    assert "NaN or Inf" in str(keepfit.compare(good, rows))
    with pytest.raises(ValueError, match="augmented: data with at least one row was expected; received none"):
        keepfit.compare(good, good[:0])


@pytest.mark.parametrize("batch", [0, 8])
@pytest.mark.parametrize("how", ["mean", "drop", 0.5])
def test_clean_inside_the_graph(rows, how, batch, needs):
    needs("tensorflow")
    import tensorflow as tf

    dataset = tf.data.Dataset.from_tensor_slices((rows, np.arange(50)))
    cleaned = keepfit.clean(dataset.batch(batch) if batch else dataset, how)
    found = list(cleaned.as_numpy_iterator())
    x = np.concatenate([one[0] if batch else one[0][None] for one in found])
    assert np.isfinite(x).all() and len(x) == (48 if how == "drop" else 50)
    if how == "mean":
        assert x[4, 1] == pytest.approx(np.nanmean(np.where(np.isinf(rows), np.nan, rows)[:, 1]), rel=1e-5)
        assert x[9, 0] == pytest.approx(np.mean(np.delete(rows[:, 0], 9)), rel=1e-5)


def test_clean_says_what_it_wants(needs):
    needs("tensorflow")
    import tensorflow as tf

    for how in ("median", float("nan")):
        with pytest.raises(ValueError, match=f"mean, drop or a finite number was expected; received {how!r}"):
            keepfit.clean(tf.data.Dataset.range(3), how)
    with pytest.raises(TypeError, match=r"a tf\.data\.Dataset was expected; received list"):
        keepfit.clean([1.0])


def test_a_file_by_its_name_is_read(tmp_path):
    np.save(tmp_path / "x.npy", np.array([1.0, np.nan]))
    report = keepfit.check(tmp_path / "x.npy")
    assert not report.ok and "1 NaN" in str(report)
    assert not keepfit.check(str(tmp_path / "none.npy")).ok


@pytest.mark.parametrize("data", [np.array([None, "a"], dtype=object), np.zeros((0, 3)), {}, []], ids=str)
def test_nothing_seen_is_not_nothing_wrong(data):
    assert not keepfit.check(data).ok


def test_what_is_no_data_is_refused_in_a_line():
    with pytest.raises(TypeError, match="were expected; received NoneType"):
        keepfit.check(None)
