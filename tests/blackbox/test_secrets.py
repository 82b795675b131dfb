"""Nothing secret reaches a record that people attach to bug reports."""

from __future__ import annotations

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keepfit.blackbox import secrets

from .. import stage

SECRET = "s3cr3tValue0123456789abcdef"


@pytest.mark.parametrize(
    "argv",
    [
        ["train.py", "--token", SECRET],
        ["train.py", f"--api-key={SECRET}"],
        ["train.py", f"--wandb_api_key={SECRET}"],
        ["train.py", f"password={SECRET}"],
        ["train.py", f"DB_PASSWORD={SECRET}"],
        ["train.py", f"https://user:{SECRET}@host/data"],
        ["train.py", f"s3://AKIA{SECRET.upper()[:16]}"],
        ["train.py", f"hf_{SECRET}"],
        ["sh", "-c", f"export API_KEY={SECRET}; python train.py"],
        ["curl", "-H", f"token: {SECRET}"],
        ["train.py", "--auth-token", SECRET, "--epochs", "3"],
    ],
)
def test_secrets_on_the_command_line_are_masked(argv):
    masked = secrets.mask_argv(argv)
    assert not any(SECRET in word or SECRET.upper()[:16] in word for word in masked)
    assert len(masked) == len(argv)


@pytest.mark.parametrize(
    "argv", [["train.py", "--epochs", "3"], ["a.py", "--tokenizer", "bert"], ["x", "--keys-file=a"]]
)
def test_ordinary_words_stay(argv):
    assert secrets.mask_argv(argv) == argv


@pytest.mark.parametrize("letter", ["a", "=", "token", "key=", "://"])
def test_long_arguments_are_cut_and_cost_little(letter):
    (masked,) = secrets.mask_argv([letter * 200_000])
    assert len(masked) <= secrets.LONGEST + 1


@given(st.dictionaries(st.text(min_size=1, max_size=20), st.text(max_size=20)))
def test_environment_is_by_allow_list(environment):
    assert set(secrets.allowed_environment(environment)) <= {
        name for name in environment if secrets.ALLOWED.fullmatch(name)
    }


def test_nothing_of_it_in_a_real_record(runs):
    environment = {"AWS_SECRET_ACCESS_KEY": SECRET, "MY_PASSWORD": SECRET, "HF_TOKEN": SECRET, "OMP_NUM_THREADS": "2"}
    outcome = stage.run(runs, [sys.executable, "-c", "pass", "--token", SECRET], **environment)
    for path in outcome.directory.rglob("*"):
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes(), path
    (head,) = outcome.events("run")
    assert head["environment"]["OMP_NUM_THREADS"] == "2"
    assert SECRET not in json.dumps(stage.keepfit_json(runs, "runs"))
