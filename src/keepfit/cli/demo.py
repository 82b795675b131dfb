"""The two-minute tour: a training that plain Python loses, and what keepfit says of it."""

from __future__ import annotations

import argparse
import sys

from ..report import style
from ..tour import Tour


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """No options: it only shows."""


def main(args: argparse.Namespace) -> int:
    return Tour(style.wanted(sys.stdout)).walk()
