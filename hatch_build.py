"""What is made when the package is built: completion scripts, from the parsers themselves."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FILES, FOLDERS = ("FILE", "PATH", "SCHEMA", "-- CMD …"), ("DIR",)


class CompletionScripts(BuildHookInterface):  # type: ignore[misc]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        source = Path(self.root) / "src"
        sys.path.insert(0, str(source))
        try:
            write(source / "keepfit" / "completions")
        finally:
            sys.path.remove(str(source))


def write(folder: Path) -> None:
    import shtab

    from keepfit.cli.completions import SHELLS
    from keepfit.cli.parser import whole

    folder.mkdir(exist_ok=True)
    for shell in SHELLS:
        parser = whole()
        for verb in parser._subparsers._group_actions[0].choices.values():  # type: ignore[union-attr]
            for action in verb._actions:
                if action.metavar in FILES:
                    action.complete = shtab.FILE
                elif action.metavar in FOLDERS:
                    action.complete = shtab.DIRECTORY
        (folder / f"keepfit.{shell}").write_text(shtab.complete(parser, shell))
