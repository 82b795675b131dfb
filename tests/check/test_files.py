"""Every kind of file, good and bad: what is found, in which row and column, and with which exit status."""

from __future__ import annotations

import csv
import json
import os
import struct
import subprocess
import sys
import threading

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image

from keepfit.check import fix, records
from keepfit.check.columns import Columns, extremes
from keepfit.check.rows import Rows, hashes_of
from keepfit.check.run import check


def codes(*paths, **options):
    return sorted({finding.code for finding in check([str(path) for path in paths], **options).findings})


def messages(*paths, **options):
    return [finding.message for finding in check([str(path) for path in paths], **options).findings]


@pytest.fixture
def table():
    return np.random.default_rng(0).random((1000, 8), dtype="float32")


@pytest.fixture
def poisoned(table):
    table[812, 3] = np.nan
    table[5, 0] = np.inf
    return table


def save(path, array):
    np.save(path, array)
    return path


# --- arrays --------------------------------------------------------------------------------------------------


def test_a_good_array_is_nothing_to_complain_about(tmp_path, table):
    assert codes(save(tmp_path / "x.npy", table)) == []


@pytest.mark.parametrize("order", ["C", "F"])
def test_nan_and_inf_are_named_by_row_and_feature(tmp_path, poisoned, order):
    path = save(tmp_path / "x.npy", np.asarray(poisoned, order=order))
    (message,) = messages(path)
    assert message == "1 NaN and 1 Inf; the first in row 5, feature 0: inf"


def test_pictures_in_an_array_are_named_by_their_place(tmp_path):
    pictures = np.zeros((10, 4, 4, 3), "float32")
    pictures[7, 1, 2, 0] = np.nan
    assert messages(save(tmp_path / "x.npy", pictures))[0].endswith("row 7, feature (1, 2, 0): nan")


def test_an_archive_is_streamed(tmp_path, poisoned):
    labels = np.r_[np.zeros(990, int), np.full(5, 1), np.full(5, 3)]
    np.savez(tmp_path / "a.npz", x=poisoned, y=labels)
    np.savez_compressed(tmp_path / "b.npz", x=poisoned, y=labels)
    for name in ("a.npz", "b.npz"):
        found = messages(tmp_path / name)
        assert "1 NaN and 1 Inf; the first in row 5, x[0]: inf" in found
        assert "y: labels that never come: 2; rare: 1 (5), 3 (5); the most frequent comes 990 times" in found
    np.savez(tmp_path / "c.npz", x=poisoned, y=labels[:10])
    assert "KF321" in codes(tmp_path / "c.npz")
    np.savez(tmp_path / "d.npz", x=np.asfortranarray(poisoned))
    assert messages(tmp_path / "d.npz") == ["1 NaN and 1 Inf; the first in row 5, x[0]: inf"]


def test_the_third_version_of_the_format(tmp_path):
    with open(tmp_path / "x.npy", "wb") as file:
        np.lib.format.write_array(file, np.array([1.0, np.nan]), version=(3, 0))
    assert messages(tmp_path / "x.npy") == ["1 NaN; the first in row 1: nan"]


def test_objects_are_never_unpickled(tmp_path):
    path = save(tmp_path / "x.npy", np.array([print, "a"], dtype=object))
    (message,) = messages(path)
    assert "refused" in message


@pytest.mark.parametrize("keep", [0, 3, 60, 200, 4000])
def test_a_torn_array_is_one_clear_line(tmp_path, table, keep):
    path = save(tmp_path / "x.npy", table)
    os.truncate(path, keep)
    assert codes(path) == ["KF329"]


def test_no_rows_and_no_columns(tmp_path):
    assert codes(save(tmp_path / "a.npy", np.zeros((0, 4)))) == ["KF329"]
    assert codes(save(tmp_path / "b.npy", np.float32(3))) == []
    assert codes(save(tmp_path / "c.npy", np.zeros((4, 0)))) == []


@given(hnp.arrays(np.float32, st.tuples(st.integers(1, 3000), st.integers(1, 5)), elements=st.floats(width=32)))
def test_what_is_seen_in_chunks_is_what_is_there(array):
    columns = Columns("", "float32", (array.shape[1],))
    for start in range(0, len(array), 700):
        columns.see(start, array[start : start + 700])
    finite = np.where(np.isfinite(array), array, np.nan)
    assert columns.bad.nan == np.isnan(array).sum() and columns.bad.inf == np.isinf(array).sum()
    for column in range(array.shape[1]):
        some = finite[:, column][~np.isnan(finite[:, column])]
        if len(some):
            assert (columns.low[column], columns.high[column]) == (some.min(), some.max())
    if columns.bad.first:
        row, column, _ = columns.bad.first[0]
        assert (row, column) == tuple(np.argwhere(~np.isfinite(array))[0])


@given(st.integers(1, 40), st.integers(1, 3000))
def test_folding_changes_nothing(width, rows):
    block = np.random.default_rng(rows).random((rows, width))
    low, high = extremes(block)
    assert (low == block.min(axis=0)).all() and (high == block.max(axis=0)).all()


# --- tables --------------------------------------------------------------------------------------------------


@pytest.fixture
def columns(poisoned):
    return pa.table(
        {
            "a": poisoned[:, 0].astype(float),
            "b": poisoned[:, 3].astype(float),
            "again": poisoned[:, 3].astype(float),
            "word": ["u", "v"] * 500,
            "gaps": pa.array([None if i % 100 == 0 else i for i in range(1000)]),
            "same": [1] * 1000,
        }
    )


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_tables_name_rows_and_columns(tmp_path, columns, kind):
    path = tmp_path / f"t.{kind}"
    pc.write_csv(columns, path) if kind == "csv" else pq.write_table(columns, path)
    assert messages(path) == [
        "1 Inf; the first in row 5, a: inf",
        "1 NaN; the first in row 812, b: nan",
        "1 NaN; the first in row 812, again: nan",
        "column 'gaps': 10 of 1000 values are missing",
        "never changes: same",
        "the same in every row: b and again",
    ]


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "empty"),
        (b"a,b\n", "holds no rows"),
        (b"a,b\n1,2\n3\n4,5,6\n7,8\n", "2 lines have another number of fields and were left out: 3 (1 of 2 fields)"),
        (b"a,b\n1,caf\xe9\n", "column 'b' is not UTF-8"),
        (b"a,b\n" + b"1,2\n" * 100 + b"x,2\n", "column 'a' holds numbers, but for 'x' in row 100"),
        (b"a,b\n" + b"1,2\n" * 1_500_000 + b"x,2\n", "column 'a' changes its type"),
        (b"\x00\x01\x02\xff\n\n\xfe", ""),
    ],
    ids=["empty", "header only", "ragged", "latin-1", "one word", "a word far below", "no text"],
)
def test_awkward_csv(tmp_path, content, found):
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    said = messages(path)
    assert said and any(found in message for message in said), said


@pytest.mark.parametrize("keep", [0, 4, 100, -100, -4])
def test_torn_parquet(tmp_path, columns, keep):
    path = tmp_path / "t.parquet"
    pq.write_table(columns, path)
    os.truncate(path, keep % path.stat().st_size if keep else 0)
    assert codes(path) == ["KF329"]


def test_rows_of_a_table_are_whole_rows(tmp_path):
    one, other = tmp_path / "1.csv", tmp_path / "2.csv"
    one.write_text("a,b,c\n1,0,x\n2,1,y\n3,0,x\n")
    other.write_text("a,b,c\n4,0,x\n2,1,y\n6,1,\n")
    assert messages(one, other, duplicates=True) == [f"1 of 3 rows are in {one} too (row 1 is 1 there)"]


def test_a_table_that_is_read_twice_has_its_rows_once(tmp_path):
    rows = [f"{number},{number}" for number in range(200_000)]
    rows[150_000] = "150000,many"  # far behind the block that the types were told from
    (tmp_path / "x.csv").write_text("\n".join(["a,b", *rows]) + "\n")
    found = messages(tmp_path / "x.csv", duplicates=True)
    assert any("changes its type" in message for message in found)
    assert not any("twice" in message or "rows are" in message for message in found), found


def test_a_line_longer_than_a_block(tmp_path):
    long = "x" * (3 << 20)
    (tmp_path / "x.csv").write_text(f"a,b\n1,short\n2,{long}\n3,nan\n")
    seen = check([str(tmp_path / "x.csv")]).seen
    assert [each.rows for each in seen] == [3]


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"a;b\n1;2\n", "one column only, 'a;b'"),
        (b"1,2\n3,4\n", "the first line looks like data"),
        (b"a,b\n1,\0\n", "no text: it holds zero bytes"),
    ],
)
def test_files_that_are_not_what_they_seem(tmp_path, content, found):
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    assert any(found in message for message in messages(path))


def test_what_is_not_looked_at_is_said(tmp_path):
    structured = np.zeros(3, [("a", "i4"), ("b", "f4")])
    assert codes(save(tmp_path / "s.npy", structured)) == ["KF331"]
    assert codes(save(tmp_path / "d.npy", np.array(["NaT", "2026-01-01"], "datetime64[D]"))) == ["KF331"]
    assert codes(save(tmp_path / "c.npy", np.array([1 + 2j, complex("nan")], "complex64"))) == ["KF320"]


def test_a_damaged_archive_is_one_clear_line(tmp_path, table):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, x=table)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255
    path.write_bytes(content)
    assert codes(path) == ["KF305"]


# --- records -------------------------------------------------------------------------------------------------


def record(content: bytes) -> bytes:
    head = struct.pack("<Q", len(content))
    return head + struct.pack("<I", records.masked_crc(head)) + content + struct.pack("<I", records.masked_crc(content))


def test_records_without_tensorflow_are_as_tensorflow_writes_them(tmp_path, needs):
    needs("tensorflow")
    import tensorflow as tf

    def example(values, name=b"a"):
        feature = {
            "x": tf.train.Feature(float_list=tf.train.FloatList(value=values)),
            "n": tf.train.Feature(int64_list=tf.train.Int64List(value=[1, 300])),
            "name": tf.train.Feature(bytes_list=tf.train.BytesList(value=[name])),
        }
        return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()

    path = tmp_path / "r.tfrecord"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for _ in range(20):
            writer.write(example([1.0, 2.0, 3.0]))
    assert codes(path) == []
    found = records.features(example([1.0, 2.0, 3.0]))
    assert {name: told[:2] for name, told in found.items()} == {
        "x": ("float", 3),
        "n": ("int64", 2),
        "name": ("bytes", 1),
    }
    with tf.io.TFRecordWriter(str(path)) as writer:
        writer.write(example([1.0, 2.0, 3.0]))
        writer.write(example([1.0, 2.0]))
    assert messages(path) == ["feature 'x' has 2 values in record 1 and 3 in the first"]
    with tf.io.TFRecordWriter(str(path)) as writer:
        writer.write(example([1.0, 2.0, 3.0]))
        writer.write(example([1.0, float("nan")]))
    assert "1 NaN; the first in row 1, x: nan" in messages(path)  # of values without places of their own
    with tf.io.TFRecordWriter(str(path)) as writer:
        writer.write(example([]))
        writer.write(example([]))
        writer.write(example([1.0]))
    assert messages(path) == ["feature 'x' has 1 values in record 2 and 0 in the first"]
    with tf.io.TFRecordWriter(str(path)) as writer:
        for number in range(3000):
            writer.write(example([1.0, float("nan") if number == 2345 else 2.0, 3.0]))
    assert codes(path) == ["KF320"]
    assert messages(path) == ["1 NaN; the first in row 2345, x[1]: nan"]


def test_damaged_records_are_named(tmp_path):
    path = tmp_path / "r.tfrecord"
    content = bytearray(record(b"one") + record(b"two") + record(b"three"))
    content[len(record(b"one")) + 13] ^= 1
    path.write_bytes(content)
    assert messages(path) == ["record 1 (byte 19): its checksum is wrong"]
    path.write_bytes(record(b"one") + record(b"two")[:-2])
    assert messages(path) == ["truncated in record 1 (byte 19)"]
    path.write_bytes(b"\xff" * 64)
    assert codes(path) == ["KF305"]


@given(st.binary(max_size=200))
def test_no_bytes_at_all_make_the_reader_of_examples_fail(content):
    try:
        records.features(content)
    except (ValueError, IndexError, KeyError, UnicodeDecodeError):
        return


# --- pictures ------------------------------------------------------------------------------------------------


def test_pictures_are_really_decoded(tmp_path):
    for folder in ("cat", "dog"):
        (tmp_path / folder).mkdir()
    random = np.random.default_rng(0)
    for number in range(6):
        picture = Image.fromarray(random.integers(0, 255, (9, 9, 3)).astype("uint8"))
        picture.save(tmp_path / ("cat" if number % 2 else "dog") / f"{number}.jpg")
    content = (tmp_path / "dog" / "0.jpg").read_bytes()
    (tmp_path / "dog" / "torn.jpg").write_bytes(content[: len(content) // 2])
    (tmp_path / "cat" / "copy.jpg").write_bytes(content)
    (tmp_path / "cat" / "empty.png").write_bytes(b"")
    Image.new("CMYK", (4, 4)).save(tmp_path / "cat" / "print.jpg")
    Image.new("RGB", (4, 4)).save(tmp_path / "cat" / "odd.jpg", "PNG")
    os.symlink(".", tmp_path / "loop")
    found = {os.path.relpath(f.file, tmp_path): (f.code, f.message) for f in check([str(tmp_path)]).findings}
    assert found["dog/torn.jpg"][0] == found["cat/empty.png"][0] == "KF305"
    assert found["cat/odd.jpg"] == ("KF327", "a PNG, not a JPEG")
    assert found["."][1] == "pictures that are neither RGB nor grey: 1 CMYK"
    assert {"cat/copy.jpg", "dog/0.jpg"} & found.keys()


def test_what_is_no_file_is_not_waited_for(tmp_path):
    (tmp_path / "a").mkdir()
    os.mkfifo(tmp_path / "a" / "f.jpg")
    assert codes(tmp_path / "a") == ["KF329"]
    os.mkfifo(tmp_path / "f.npy")
    assert messages(tmp_path / "f.npy") == ["no regular file"]


def test_a_folder_without_pictures(tmp_path):
    assert codes(tmp_path) == ["KF329"]


# --- rows ----------------------------------------------------------------------------------------------------


def test_rows_that_come_twice_and_rows_in_two_files(tmp_path, table):
    train, valid = save(tmp_path / "train.npy", table[:800]), save(tmp_path / "valid.npy", table[700:])
    (message,) = messages(train, valid, duplicates=True)
    assert message.startswith(f"100 of 300 rows are in {train} too (row ")
    twice = save(tmp_path / "twice.npy", np.concatenate([table, table[:3]]))
    (message,) = messages(twice, duplicates=True)
    assert message.startswith("3 of 1003 rows come more than once")


@given(st.integers(1, 2000), st.integers(1, 20), st.integers(1, 7))
def test_hashes_agree_where_rows_do(rows, width, distinct):
    picks = np.random.default_rng(rows).integers(0, distinct, rows)
    found = hashes_of(np.random.default_rng(7).random((distinct, width), dtype="float32")[picks])
    for value in range(distinct):
        assert len(set(found[picks == value])) <= 1
    assert len(set(found)) == len(set(picks))


def test_hashes_that_went_to_disk_are_the_same(monkeypatch):
    from keepfit.check import rows

    block = np.random.default_rng(0).integers(0, 40, (5000, 1))
    held = Rows("held")
    held.add(block)
    monkeypatch.setattr(rows, "IN_MEMORY", 100)
    monkeypatch.setattr(rows, "AT_ONCE", 700)
    spilt = Rows("spilt")
    for start in range(0, 5000, 300):
        spilt.add(block[start : start + 300])
    assert spilt.twice()[0] == held.twice()[0] == 4960
    for row, first in spilt.twice()[1]:
        assert row != first and block[row] == block[first]
    assert spilt.shared_with(held)[0] == 5000
    spilt.close()


# --- schema and fix ------------------------------------------------------------------------------------------


def keepfit(*words, status=0, **options):
    done = subprocess.run(
        [sys.executable, "-m", "keepfit", *map(str, words)], capture_output=True, text=True, check=False, **options
    )
    assert done.returncode == status, done.stderr + done.stdout
    return done


def test_what_was_learnt_is_asserted(tmp_path, table, poisoned):
    good, bad, schema = save(tmp_path / "g.npy", np.abs(table[:100])), tmp_path / "b.npy", tmp_path / "s.json"
    keepfit("check", good, "--learn", schema, status=1 if not np.isfinite(table[:100]).all() else 0)
    save(bad, np.concatenate([poisoned[:3] * 100, poisoned[812:813]]).astype("float64"))
    found = json.loads(keepfit("check", bad, "--against", schema, "--json", status=1).stdout)
    assert found["schema"] == "keepfit.findings/1"
    broken = [finding["message"] for finding in found["findings"] if finding["code"] == "KF328"]
    assert any("float64 where float32 is normal" in message for message in broken)


@pytest.mark.parametrize("kind", ["npy", "csv", "parquet"])
@pytest.mark.parametrize("how", fix.HOW)
def test_a_cleaned_copy_leaves_the_original_alone(tmp_path, columns, poisoned, kind, how):
    path, out = tmp_path / f"t.{kind}", tmp_path / f"clean.{kind}"
    if kind == "npy":
        save(path, poisoned)
    else:
        pc.write_csv(columns, path) if kind == "csv" else pq.write_table(columns, path)
    before = path.read_bytes()
    fix.fix(str(path), str(out), how)
    assert path.read_bytes() == before
    wrong = [message for message in messages(out) if "NaN" in message or "Inf" in message]
    assert wrong == [] if how != "clip" else all("Inf" not in message for message in wrong)
    if kind == "npy":
        cleaned, finite = np.load(out), np.where(np.isfinite(poisoned), poisoned, np.nan)
        if how == "drop":
            assert len(cleaned) == 998
        elif how == "clip":
            assert cleaned[5, 0] == np.nanmax(finite[:, 0])
        else:
            middle = getattr(np, f"nan{how}")(finite.astype("float64"), axis=0)
            assert cleaned[812, 3] == pytest.approx(middle[3], rel=1e-3)
            untouched = np.isfinite(poisoned)
            assert (cleaned[untouched] == poisoned[untouched]).all()


def test_what_is_no_float_stays_as_it_is_written(tmp_path):
    path, out = tmp_path / "t.csv", tmp_path / "o.csv"
    path.write_text("id,v\n007,1.0\n0012,nan\n")
    fix.fix(str(path), str(out), "mean")
    assert [line.replace('"', "") for line in out.read_text().split()] == ["id,v", "007,1", "0012,1"]


@pytest.mark.parametrize("shape", [(0, 5), (5, 0)])
def test_nothing_to_fix_is_said(tmp_path, shape):
    with pytest.raises(fix.CannotFix, match="holds no values"):
        fix.fix(str(save(tmp_path / "x.npy", np.zeros(shape))), str(tmp_path / "o.npy"), "mean")


def test_a_column_without_a_finite_value_has_no_mean(tmp_path):
    array = np.array([[1.0, np.nan], [2.0, np.inf]])
    for how, words in (("mean", "take a mean of"), ("median", "take a median of"), ("clip", "clip to")):
        with pytest.raises(fix.CannotFix, match=f"feature 1 has no finite value to {words}"):
            fix.fix(str(save(tmp_path / "x.npy", array)), str(tmp_path / "o.npy"), how)
    assert not (tmp_path / "o.npy").exists()


def test_a_missing_value_that_was_not_asked_for_stays_missing(tmp_path):
    (tmp_path / "t.csv").write_text('a,"b,c",n\n1.5,x,\ninf,y,2.5\n0.5,z,3.5\n')
    assert fix.fix(str(tmp_path / "t.csv"), str(tmp_path / "o.csv"), "clip") == 1
    with open(tmp_path / "o.csv", newline="") as file:
        assert list(csv.reader(file)) == [["a", "b,c", "n"], ["1.5", "x", ""], ["1.5", "y", "2.5"], ["0.5", "z", "3.5"]]


@given(hnp.arrays(np.float64, st.tuples(st.integers(1, 40), st.integers(1, 3))))
def test_medians_are_numpys(values):
    finite = np.where(np.isfinite(values), values, np.nan)
    counts = np.isfinite(values).sum(axis=0)
    with np.errstate(all="ignore"):
        wanted = np.array([np.nanmedian(finite[:, i]) if counts[i] else 0.0 for i in range(values.shape[1])])
    for found in (
        fix.medians(lambda: iter([values[:7], values[7:]]), counts),
        fix.exact_medians(lambda: iter([values]), values.shape[1]),
    ):
        exact = np.isfinite(wanted)  # NumPy's own middle of two numbers may overflow
        assert np.allclose(found[exact], wanted[exact], rtol=1e-15, atol=0)


def test_a_mean_that_would_overflow(tmp_path):
    path = save(tmp_path / "x.npy", np.array([1e308, 1.2e308, np.nan, 1.1e308]))
    assert fix.fix(str(path), str(tmp_path / "o.npy"), "mean") == 1
    assert np.load(tmp_path / "o.npy")[2] == pytest.approx(1.1e308)


# --- the verb ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--fix", "mean"], "--fix HOW and --out FILE belong together"),
        (["--fix", "magic", "--out", "o.npy"], "mean, median, drop or clip was expected; received 'magic'"),
        (["--learn", "a", "--against", "b"], "not both"),
        (["--against", "missing.json"], "missing.json: No such file or directory"),
    ],
    ids=["no out", "unknown way", "both", "no schema"],
)
def test_bad_usage_is_one_clear_line(tmp_path, table, words, said):
    save(tmp_path / "x.npy", table)
    done = keepfit("check", "x.npy", *words, status=64, cwd=tmp_path)
    assert said in done.stderr and len(done.stderr.splitlines()) == 1


def test_exit_statuses(tmp_path, table):
    good = save(tmp_path / "g.npy", table)
    keepfit("check", good)
    keepfit("check", tmp_path / "nothing.npy", status=2)
    save(tmp_path / "b.npy", np.array([np.nan]))
    keepfit("check", tmp_path / "b.npy", status=1)
    keepfit("check", good, tmp_path / "nothing.npy", status=1)
    keepfit("check", good, "--fix", "mean", "--out", good, status=73)


def test_a_python_object_in_an_interpreter_of_its_own(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import numpy as np\nx = np.ones((9, 2)); x[4, 1] = np.nan\n"
        "def batches():\n    for i in range(3):\n        yield x[3 * i : 3 * i + 3], np.arange(3)\n"
    )
    found = json.loads(keepfit("check", "mine:batches", "--json", status=1, cwd=tmp_path).stdout)["findings"]
    assert "1 NaN; the first in row 4, x[1]: nan" in [finding["message"] for finding in found]
    assert "No module named" in keepfit("check", "nowhere:x", status=2, cwd=tmp_path).stdout


def test_a_file_that_grows_while_it_is_read(tmp_path, table):
    path = tmp_path / "g.csv"
    path.write_text("a\n" + "1\n" * 10)
    grew = threading.Event()

    def advance(count):
        if not grew.is_set():
            grew.set()
            with path.open("a") as file:
                file.write("2\n" * 100)

    findings = check([str(path)], advance=advance).findings
    assert any("changed while it was read" in finding.message for finding in findings)


def test_names_that_would_hijack_a_terminal_are_shown_not_obeyed(tmp_path):
    path = save(tmp_path / "a\x1b[31m\nall is well.npy", np.array([np.nan]))
    shown = keepfit("check", path, status=1).stdout
    assert "\x1b" not in shown and "\\x1b" in shown
    assert "\nall is well" not in shown
