"""Masking: what must never be written into a record that people attach to bug reports."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

MASK = "***"
LONGEST = 1000  # letters of one argument that a record keeps

_SECRET_NAME = re.compile(
    r"(?:^|[-_.])(?:token|secret|passw(?:or)?d|passwd|pwd|pass|api[-_]?key|access[-_]?key|private[-_]?key|"
    r"key|credentials?|auth(?:orization)?|bearer|session[-_]?id|cookie)s?$",
    re.IGNORECASE,
)
# Words that are secrets by their own shape, whatever stands before them.
_SECRET_SHAPE = re.compile(
    r"hf_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|sk-[\w-]{16,}|"
    r"xox[abprs]-[\w-]{10,}|AKIA[0-9A-Z]{12,}|ASIA[0-9A-Z]{12,}|AIza[\w-]{30,}|ya29\.[\w-]+|"
    r"eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*|-----BEGIN[ A-Z]*PRIVATE KEY-----.*"
)
_URL_LOGIN = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*://)[^/@\s:]*:[^/@\s]*@", re.IGNORECASE)
_ASSIGNED = re.compile(r"(?P<name>[\w.-]+)(?P<sign>[=:])(?P<value>.+)", re.DOTALL)
_INSIDE = re.compile(
    r"(?P<name>[\w.-]{0,40}(?:token|secret|passw(?:or)?d|api[-_]?key|access[-_]?key)[\w.-]{0,40})(?P<sign>\s*[=:]\s*)"
    r"(?P<value>[^\s'\",;&]+)",
    re.IGNORECASE,
)

# Values worth having in a post-mortem, and harmless to show. Everything else is left out.
ALLOWED = re.compile(
    r"(?:CUDA_VISIBLE_DEVICES|NVIDIA_VISIBLE_DEVICES|TF_(?!.*TOKEN)\w+|XLA_FLAGS|KERAS_BACKEND|KMP_\w+|"
    r"OMP_\w+|MKL_\w+|OPENBLAS_\w+|MALLOC_\w+|LD_PRELOAD|LANG|LC_ALL|TZ|TMPDIR|VIRTUAL_ENV|"
    r"CONDA_DEFAULT_ENV|PYTHON(?:UNBUFFERED|HASHSEED|OPTIMIZE|FAULTHANDLER|MALLOC|PATH|VERBOSE)|"
    r"SLURM_(?:JOB_ID|JOB_NAME|MEM_\w+|CPUS_\w+|NODELIST|RESTART_COUNT|JOB_END_TIME)|LSB_JOBID|PBS_JOBID|"
    r"KUBERNETES_SERVICE_HOST|MEMORY_LIMIT|MEM_LIMIT|POD_MEMORY_LIMIT|RANK|LOCAL_RANK|WORLD_SIZE|"
    r"TERM|COLAB_\w*GPU|JPY_PARENT_PID)"
)


def is_secret_name(name: str) -> bool:
    return bool(_SECRET_NAME.search(name))


def mask_word(word: str) -> str:
    """One argument, cut to a sensible length, with whatever looks like a secret replaced."""
    if len(word) > LONGEST:
        word = word[:LONGEST] + "…"
    word = _URL_LOGIN.sub(lambda m: f"{m['scheme']}{MASK}@", word)
    assigned = _ASSIGNED.fullmatch(word)
    if assigned and is_secret_name(assigned["name"].lstrip("-")):
        return f"{assigned['name']}{assigned['sign']}{MASK}"
    word = _INSIDE.sub(lambda m: f"{m['name']}{m['sign']}{MASK}", word)
    return _SECRET_SHAPE.sub(MASK, word)


def mask_argv(argv: Iterable[str]) -> list[str]:
    """A command line fit for a record: `--token VALUE` and `--token=VALUE` alike lose the value."""
    masked: list[str] = []
    hide_next = False
    for word in argv:
        option = word.startswith("-")
        if hide_next and not option:
            masked.append(MASK)
            hide_next = False
            continue
        hide_next = option and "=" not in word and is_secret_name(word.lstrip("-"))
        masked.append(mask_word(word))
    return masked


def allowed_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The few values a post-mortem needs, by allow-list, masked all the same."""
    return {
        name: mask_word(value)
        for name, value in sorted(environment.items())
        if ALLOWED.fullmatch(name) and not is_secret_name(name)
    }
