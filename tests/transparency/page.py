"""The page "What changes for your command": python -m tests.transparency.page > docs/what_changes.md"""

from __future__ import annotations

from .differences import BESIDES, DIFFERENCES
from .lines import LINES

HEAD = f"""# What changes for your command

Nothing but what stands here. In keepfit's tests {len(LINES)} command lines are run plainly and under it, through
pipes, files and terminals. Their output, files, exit status, environment, descriptors and signals are compared to the
byte, and only these differences are allowed.

| what is different | why |
|---|---|
"""

TAIL = """
No comparison of two outputs shows the following:

"""

END = """
`KEEPFIT_DISABLE=1` keeps the agent out of Python, and with it all that is said of Python above.

This page is made from the table that the tests use (`tests/transparency/differences.py`).
"""


def page() -> str:
    rows = "".join(f"| {each.what} | {each.why} |\n" for each in DIFFERENCES)
    return HEAD + rows + TAIL + "".join(f"- {text}\n" for text in BESIDES) + END


if __name__ == "__main__":
    print(page(), end="")
