"""A completion script for your shell, on stdout.

bash   eval "$(keepfit completions bash)"        in ~/.bashrc
zsh    eval "$(keepfit completions zsh)"         in ~/.zshrc, after compinit
fish   keepfit completions fish | source         in ~/.config/fish/config.fish
"""

from __future__ import annotations

import argparse
from pathlib import Path

from . import UserError

FOLDER = Path(__file__).parents[1] / "completions"  # made when the package is built
SHELLS = ("bash", "zsh", "fish")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))


def main(args: argparse.Namespace) -> int:
    try:
        print((FOLDER / f"keepfit.{args.shell}").read_text(), end="")
    except FileNotFoundError:
        raise UserError("no completion scripts were made for this installation; install keepfit again by pip") from None
    return 0
