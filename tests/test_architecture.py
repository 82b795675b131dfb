"""The floors hold: nothing imports upward, the agent stands alone, no framework is imported by the supervisor."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import keepfit

SOURCE = Path(keepfit.__file__).parent
# Ground first; a room may import from floors below its own.
FLOORS = [
    "quick",
    "facts",
    "machine",
    "blackbox",
    "agent",
    "plan",
    "conditions",
    "check",
    "supervise",
    "report",
    "tour",
    "cli",
]
STANDARD = set(sys.stdlib_module_names)
SHARED = ("wire", "folder", "journal", "secrets", "states", "safetensors")  # what of the record the agent uses too
OF_THE_RECORD = tuple(f"keepfit.blackbox.{name}" for name in SHARED)


def room(path: Path) -> str:
    first = path.relative_to(SOURCE).parts[0]
    return first.removesuffix(".py")


def imports(path: Path) -> list[tuple[str, int]]:
    """Absolute names of everything a file imports, late imports included."""
    package = ["keepfit", *path.relative_to(SOURCE).parent.parts]
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            name = ".".join([*base, *([node.module] if node.module else [])])
            found += [(f"{name}.{alias.name}", node.lineno) for alias in node.names]
    return found


def files() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def test_nothing_imports_upward():
    wrong = []
    for path in files():
        own = room(path)
        if own not in FLOORS:
            continue
        for name, line in imports(path):
            parts = name.split(".")
            if parts[0] == "keepfit" and len(parts) > 1 and parts[1] in FLOORS:
                other = parts[1]
                same_floor = {own, other} == {"machine", "blackbox"}
                if FLOORS.index(other) > FLOORS.index(own) and not same_floor:
                    wrong.append(f"{path.relative_to(SOURCE)}:{line} imports {name}")
    assert not wrong, "\n".join(wrong)


def test_the_agent_stands_alone():
    """Standard library, its own files, and the record's wire format: nothing else."""
    allowed = ("keepfit.agent", *OF_THE_RECORD)
    wrong = []
    for path in files():
        if room(path) != "agent":
            continue
        for name, line in imports(path):
            top = name.split(".")[0]
            if top not in STANDARD and not name.startswith(allowed) and name != "sitecustomize":
                wrong.append(f"{path.relative_to(SOURCE)}:{line} imports {name}")
    assert not wrong, "\n".join(wrong)


def test_what_the_agent_imports_of_the_record_is_standard_library_only():
    for name in (*SHARED, "__init__"):
        for imported, line in imports(SOURCE / "blackbox" / f"{name}.py"):
            ok = imported.split(".")[0] in STANDARD or imported.startswith(OF_THE_RECORD)
            assert ok, f"blackbox/{name}:{line} imports {imported}"


def test_only_late_and_in_its_place_is_a_framework_imported():
    a_users_script = SOURCE / "tour" / "train.py"
    for path in files():
        frameworks = {"tensorflow", "keras", "torch", "jax"}
        if room(path) not in ("check", "data"):  # those look at numbers, and are themselves imported late
            frameworks.add("numpy")
        for name, line in imports(path) if path != a_users_script else ():
            assert name.split(".")[0] not in frameworks, f"{path.relative_to(SOURCE)}:{line} imports {name}"


def test_start_up_is_light():
    code = (
        "import sys; sys.argv = ['keepfit', '--version']\n"
        "import keepfit.cli.why, keepfit.cli.run, keepfit.conditions.catalogue as c; c.all_conditions()\n"
        "heavy = {'numpy', 'tensorflow', 'keras', 'rich', 'pyarrow', 'pynvml', 'asyncio'} & set(sys.modules)\n"
        "print(sorted(heavy))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_modules_stay_small():
    long = {str(p.relative_to(SOURCE)): n for p in files() if (n := len(p.read_text().splitlines())) > 430}
    assert not long


def test_no_empty_names():
    assert not [p for p in files() if p.stem in ("utils", "util", "helpers", "helper", "misc", "common", "manager")]
