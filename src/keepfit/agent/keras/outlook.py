"""What can be told of a training before its first step: its model, and what the graph of a step says."""

import time
from importlib import import_module

from ..peak import anonymous, files, malloc_settings
from ..processor import has_bfloat16
from ..tensorflow import device, liveness, work
from .decision import bytes_of, sizes_of
from .examine import notes

BETWEEN = "(between layers)"
LAYERS = 200  # that are told one by one


def facts_of(model, graph, graphs, rows, pipeline, preloaded):
    """What can be told of a training before its first step; `graph` is that of its step, None where it has none."""
    began = time.monotonic()
    facts = {
        "rows": rows,
        "in_use": anonymous(),
        "files": files(),
        "malloc": malloc_settings(),
        "pool": device.pools(),
        "model": sizes_of(model),
        "eager": bool(model.run_eagerly),
        "jit": bool(model.jit_compile),
        "replicas": _replicas(model),
        "optimizer": type(getattr(model, "optimizer", None)).__name__,
        "notes": notes(model),
        "dtype": str(getattr(getattr(model, "dtype_policy", None), "name", "")),
        "bfloat16": has_bfloat16(),
        "pipeline": pipeline,
        "preloaded": preloaded,
    }
    if graph is not None:
        read = {}  # of the graph, once for both
        count = liveness.Count(graphs, rows, _sizes(rows), read)
        facts["static"] = count.curve(graph)
        facts["layers"] = _layers(model, count.alive(graph, rows), work.shares(graph, graphs, rows, read))
    facts["seconds"] = {"static": time.monotonic() - began}
    return facts


def curve(graph, graphs, rows):
    """[(rows, bytes)]: what the graph says of batches of other sizes."""
    return liveness.Count(graphs, rows, _sizes(rows)).curve(graph)


def _sizes(rows):
    return sorted({1, max(1, rows // 2), rows, 2 * rows})


def _layers(model, alive, work):
    """By layer: its place in the model, what it made of all that is alive at the peak, its weights' bytes, its work."""
    weights = {}
    for layer in model._flatten_layers(include_self=False, recursive=False):
        weights[layer.name] = sum(bytes_of(variable) for variable in layer.weights)
    alive, work = ([(name.split("/"), value) for name, value in found] for found in (alive, work))
    owners = owners_of({word for words, _ in work for word in words}, weights)

    def by_owner(found):
        values = {name: [0] for name in (*weights, BETWEEN)}
        for words, value in found:
            values[next((owners[word] for word in words if word in owners), BETWEEN)].append(value)
        return values

    kept, share = by_owner(alive), by_owner(work)
    told = [
        {
            "name": name,
            "place": place,
            "activation_bytes": sum(kept[name]),
            "largest_tensor_bytes": max(kept[name]),
            "weight_bytes": weights.get(name, 0),
            "time_share": round(sum(share[name]), 4),
        }
        for place, name in enumerate([*weights, BETWEEN])
    ]
    told.sort(key=lambda each: -each["activation_bytes"] - each["weight_bytes"])
    return told[:LAYERS]


def owners_of(scopes, layers):
    """{scope: layer}. Where its name was taken already a layer goes by that and a number.

    So `conv2d_1` may be the layer of that name or another call of `conv2d`: the one that would have no scope else.
    """
    owners, either = {}, []
    for scope in sorted(scopes):
        stem, _, number = scope.rpartition("_")
        numbered = number.isdigit() and stem in layers
        if scope in layers and numbered:
            either.append((scope, stem))
        elif scope in layers or numbered:
            owners[scope] = scope if scope in layers else stem
    for scope, stem in either:
        known = set(owners.values())
        owners[scope] = stem if scope in known and stem not in known else scope
    return owners


def _replicas(model):
    strategy = getattr(model, "_distribute_strategy", None) or import_module("tensorflow").distribute.get_strategy()
    return int(strategy.num_replicas_in_sync)
