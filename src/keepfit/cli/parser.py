"""argparse, with the contract's exit status and one line instead of a usage dump."""

from __future__ import annotations

import argparse
from importlib import import_module
from types import ModuleType
from typing import NoReturn

from . import VERBS, UserError


class Parser(argparse.ArgumentParser):
    @classmethod
    def of(cls, verb: str, module: ModuleType) -> Parser:
        """Of a verb's module: its docstring is the help."""
        parser = cls(
            prog=f"keepfit {verb}",
            description=module.__doc__,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(parser)
        return parser

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message} (try: {self.prog} --help)")


def whole() -> argparse.ArgumentParser:
    """All verbs in one parser, for completion scripts. (A command line is parsed by its verb's alone.)"""
    parser = argparse.ArgumentParser(prog="keepfit")
    verbs = parser.add_subparsers()
    for verb, help_ in VERBS.items():
        import_module(f".{verb}", __package__).add_arguments(verbs.add_parser(verb, help=help_))
    return parser
