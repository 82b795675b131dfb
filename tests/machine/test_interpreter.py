"""What a command line tells of the Python that it starts."""

from __future__ import annotations

import pytest

from keepfit.machine import interpreter


@pytest.mark.parametrize(
    ("argv", "letter"),
    [
        (("python", "-I", "x.py"), "I"),
        (("/usr/bin/python3.11", "-sE", "x.py"), "E"),
        (("python", "-S"), "S"),
        (("/usr/bin/env", "A=1", "python3", "-S", "x.py"), "S"),
        (("python", "--check-hash-based-pycs", "always", "-I"), "I"),
        (("python", "-c", "-I"), None),
        (("python", "-m", "mod", "-E"), None),
        (("python", "x.py", "-I"), None),
        (("python", "-u", "-W", "ignore", "-S"), "S"),
        (("python", "-Wignore", "-S"), "S"),
        (("python", "-X", "importtime", "x.py", "-S"), None),
        (("bash", "-I"), None),
        ((), None),
    ],
)
def test_the_option_that_keeps_the_agent_out(argv, letter):
    assert interpreter.keeps_out(interpreter.options(argv)) == letter


@pytest.mark.parametrize(
    ("first", "letter"),
    [
        ("#!/usr/bin/python3 -S", "S"),
        ("#! /usr/bin/env -S python3 -IS", "I"),
        ("#!/usr/bin/env python3", None),
        ("#!/bin/sh -E", None),
        ("#!'", None),
        ("\x7fELF", None),
    ],
)
def test_a_script_names_its_interpreter(tmp_path, first, letter):
    path = tmp_path / "script"
    path.write_text(first + "\n")
    assert interpreter.keeps_out(interpreter.options_of_file(str(path), ("script",))) == letter
