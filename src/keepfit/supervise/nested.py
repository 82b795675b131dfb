"""A keepfit inside what another one plans: it stands aside, for what is planned is its command."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from . import launch


def stand_aside(
    argv: tuple[str, ...],
    environment: Mapping[str, str],
    budget: int | None,
    before: launch.Before,
    say: Callable[[str], None],
) -> None:
    """Where a plan is going on around this process the command takes its place; else nothing happens."""
    if not environment.get("KEEPFIT_PLAN"):
        return
    from ..conditions.reading import size
    from .planning import check_for_the_agent

    check_for_the_agent(argv, environment)
    if budget:
        say(f"--memory {size(budget)} of the keepfit inside is not what is planned for; give it to the one outside")
    launch.become(argv, environment, launch.Inherited.of_this_process(before))
