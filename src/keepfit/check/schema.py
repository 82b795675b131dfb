"""What is normal: learnt from one file, asserted of another."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from .columns import Columns
from .summary import Seen

SCHEMA = "keepfit.data-schema/1"


class BadSchema(Exception):
    """Why a schema cannot be used, in a line."""


def learn(seen: Seen) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "kind": seen.kind,
        "columns": {columns.name: _normal(columns) for columns in seen.columns},
    }


def _normal(columns: Columns) -> dict[str, Any]:
    found: dict[str, Any] = {
        "dtype": columns.dtype,
        "shape": list(columns.shape),
        "bad": columns.bad.total,
        "null": columns.null,
    }
    if columns.low is not None and columns.high is not None:
        low, high = np.fmin.reduce(columns.low.astype(float)), np.fmax.reduce(columns.high.astype(float))
        if np.isfinite(low) and np.isfinite(high):
            found["range"] = [float(low), float(high)]
    if columns.dtype == "string" and columns.values is not None:
        found["categories"] = sorted(columns.values)
    return found


def write(path: str, document: dict[str, Any]) -> None:
    """Beside, then renamed: never half of it."""
    beside = f"{path}.{os.getpid()}.new"
    with open(beside, "w", encoding="utf-8") as file:
        json.dump(document, file, indent=2, ensure_ascii=False)
        file.write("\n")
    os.replace(beside, path)


def load(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
    except OSError as error:
        raise BadSchema(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise BadSchema(f"{path}: no JSON ({error})") from None
    if (
        not isinstance(document, dict)
        or document.get("schema") != SCHEMA
        or not isinstance(document.get("columns"), dict)
    ):
        raise BadSchema(f"{path}: a schema that `keepfit check --learn` wrote was expected")
    return document


def violations(seen: Seen, schema: dict[str, Any]) -> list[str]:
    """In words, what is not as it was learnt."""
    wanted, found = schema["columns"], {columns.name: columns for columns in seen.columns}
    wrong = [f"column {name!r} is missing" for name in wanted if name not in found]
    wrong += [f"column {name!r} is new" for name in found if name not in wanted]
    for name, normal in wanted.items():
        if name in found:
            wrong += [f"{_called(name)}{words}" for words in _differences(_normal(found[name]), normal)]
    return wrong


def _called(name: str) -> str:
    return f"column {name!r}: " if name else ""


def _differences(now: dict[str, Any], normal: dict[str, Any]) -> list[str]:
    wrong = []
    if now["dtype"] != normal.get("dtype"):
        wrong.append(f"{now['dtype']} where {normal.get('dtype')} is normal")
    if now["shape"] != normal.get("shape"):
        wrong.append(f"rows of shape {tuple(now['shape'])} where {tuple(normal.get('shape') or ())} is normal")
    for what, word in (("bad", "NaN or Inf"), ("null", "missing values")):
        if now[what] and not normal.get(what):
            wrong.append(f"{now[what]} {word} where there are none normally")
    if "range" in now and "range" in normal:
        low, high = normal["range"]
        margin = 1e-9 * max(1.0, abs(low), abs(high))
        if now["range"][0] < low - margin or now["range"][1] > high + margin:
            wrong.append(f"{now['range'][0]:g} to {now['range'][1]:g} where {low:g} to {high:g} is normal")
    if "categories" in now and "categories" in normal:
        new = sorted(set(now["categories"]) - set(normal["categories"]))
        if new:
            wrong.append(f"new values: {', '.join(map(repr, new[:5]))}{' …' if len(new) > 5 else ''}")
    return wrong
