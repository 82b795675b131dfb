"""Who belongs to a group that trains together, by the environment alone."""

from __future__ import annotations

import json

import pytest

from keepfit.machine.group import membership

TF = {"chief": ["a:1"], "worker": ["b:1", "c:1"]}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"RANK": "1", "WORLD_SIZE": "2"}, "rank 1 of 2 (RANK, WORLD_SIZE)"),
        ({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "4"}, "rank 0 of 4"),
        ({"SLURM_PROCID": "3", "SLURM_NTASKS": "4"}, "rank 3 of 4 (SLURM_PROCID, SLURM_NTASKS)"),
        ({"JAX_COORDINATOR_ADDRESS": "a:1"}, "one of a group (JAX_COORDINATOR_ADDRESS)"),
        ({"JAX_COORDINATOR_ADDRESS": "a:1", "JAX_NUM_PROCESSES": "2", "JAX_PROCESS_ID": "1"}, "rank 1 of 2"),
        ({"TF_CONFIG": json.dumps({"cluster": TF, "task": {"type": "chief", "index": 0}})}, "rank 0 of 3"),
        ({"TF_CONFIG": json.dumps({"cluster": TF, "task": {"type": "worker", "index": 1}})}, "rank 2 of 3"),
        ({"TF_CONFIG": json.dumps({"cluster": TF})}, "one of 3 (TF_CONFIG)"),
    ],
)
def test_members(environment, expected):
    assert str(membership(environment)).startswith(expected)


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"RANK": "0", "WORLD_SIZE": "1"},
        {"RANK": "0"},
        {"WORLD_SIZE": "many", "RANK": "0"},
        {"SLURM_NTASKS": "4"},  # an allocation, and no task of it
        {"SLURM_NTASKS": "4", "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"},
        {"JAX_COORDINATOR_ADDRESS": "a:1", "JAX_NUM_PROCESSES": "1"},
        {"TF_CONFIG": "{"},
        {"TF_CONFIG": "[" * 100_000},
        {"TF_CONFIG": "5"},
        {"TF_CONFIG": '{"cluster": {"worker": ["a:1"]}}'},
        {"TF_CONFIG": '{"cluster": {"worker": 5}}'},
    ],
)
def test_those_on_their_own(environment):
    assert membership(environment) is None
