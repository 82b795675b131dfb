"""argparse, with the contract's exit status and one line instead of a usage dump."""

from __future__ import annotations

import argparse
from types import ModuleType
from typing import NoReturn

from . import UserError


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
