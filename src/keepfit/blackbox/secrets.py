"""Masking: what must never be written into a record that people attach to bug reports.

A secret is known by its name (`token=…`), by its place (`https://user:…@host`, `mysql -p…`) or by its own shape
(`hf_…`). A name is no proof: `max_tokens=512` and `key: "loss"` stay. Standard library only: the agent imports this.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

MASK = "***"
LONGEST = 1000  # letters of one argument that a record keeps
LONGEST_TEXT = 1 << 20  # of one text that is looked through; what is longer is cut

# What a text must hold for a pattern to be worth looking for: most have none of it, and cost nothing.
_NAMED = ("pass", "pwd", "token", "secret", "key", "auth", "cred", "bearer", "cookie", "sig", "sas", "jwt", "pin",
          "otp", "session")  # fmt: skip
_SHAPED = ("hf_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat", "glpat-", "sk-", "sk_", "rk-", "rk_", "pk-",
           "pk_", "xox", "akia", "asia", "aroa", "aiza", "ya29.", "npm_", "pypi-", "dop_v1_", "eyj", "gsk_", "nvapi-",
           "xai-", "sg.", "dckr_pat_", "tskey-", "dapi")  # fmt: skip

# The last word of a name that is a secret's: `HF_TOKEN`, `clientSecret`, `--db-password`.
_SURE = frozenset(
    """
    token secret password passwd passphrase passcode pwd credential credentials bearer apikey accesskey secretkey
    privatekey accountkey authtoken accesstoken authkey cookie sas jwt
    """.split()
)
_SURE_ENDS = ("password", "passwd", "passphrase", "apikey", "pgpass")  # of a word that runs on: PGPASSWORD, mypassword
# What may stand behind the word that tells: `API_TOKEN_PROD`, `SECRET_KEY_BASE`, `PASSWORD_DB`.
_BEHIND = frozenset("prod production dev test staging live main old new base db value string primary secondary".split())
# Tokens of a text, and passes of a program.
_OF_TEXT = frozenset(
    """
    pad mask eos bos unk sep cls stop start end special image next first last begin separator prompt oov blank word
    unknown invalid unexpected illegal unrecognized duplicate
    """.split()
)
_PASSES = frozenset("forward backward first second single multi two low high band by one".split())
# A key is one if it opens something; `key=loss` and `num_keys` do not.
_OPENS = frozenset(
    """
    api access secret private account auth license encryption signing ssh master shared storage service app application
    deploy session write admin subscription client wandb openai comet azure aws gcp hf anthropic neptune consumer
    """.split()
)
# These names have other uses: only a value that looks like one is a secret.
_PERHAPS = frozenset("key keys auth tokens secrets pass sig signature authorization pin session otp".split())
_NO_VALUE = frozenset(
    """
    true false none null yes no on off auto default required optional str string int bool bytes file env prompt
    undefined missing empty invalid expired unset not is was must and or the a an in of for to with from
    """.split()
)

_NAME = r"(?P<name>[A-Za-z][\w.-]{0,60})"
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

_PATTERNS = {
    # Secrets by their own shape, whatever stands before them.
    "shape": r"\b(?:hf_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|"
    r"(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{10,}|sk-(?:proj|ant|or)?-?[A-Za-z0-9_-]{16,}|xox[abeprs]-[\w-]{10,}|"
    r"gsk_[A-Za-z0-9]{16,}|nvapi-[\w-]{16,}|xai-[A-Za-z0-9]{16,}|SG\.[\w-]{10,}\.[\w-]{10,}|dckr_pat_[\w-]{16,}|"
    r"tskey-[\w-]{16,}|dapi[a-f0-9]{32}|"
    r"A(?:KIA|SIA|ROA)[0-9A-Z]{12,}|AIza[\w-]{30,}|ya29\.[\w-]+|npm_[A-Za-z0-9]{20,}|pypi-[\w-]{20,}|"
    r"dop_v1_[a-f0-9]{32,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)",
    "block": r"-----BEGIN[ A-Z]*PRIVATE KEY(?: BLOCK)?-----(?:.*?-----END[ A-Z]*PRIVATE KEY(?: BLOCK)?-----|.*)",
    "hook": r"(?P<kept>https://(?:hooks\.slack\.com/services|discord(?:app)?\.com/api/webhooks)/)[\w/-]+",
    # scheme://user:password@host, and scheme://TOKEN@host
    "login": r"(?P<scheme>\b[a-z][a-z0-9+.-]*://)(?P<user>[^/@\s:'\"]*)(?P<word>:[^/\s\"]*)?@",
    "query": r"(?P<kept>[?&#](?:private_token|api-key|"
    r"sig|signature|x-amz-signature|x-amz-security-token|x-amz-credential|x-goog-signature|"
    r"x-goog-credential|token|access_token|refresh_token|id_token|key|api_key|apikey|auth|password|pwd|secret|"
    r"client_secret|code|sas|session)=)(?P<value>[^&\s'\"#<>]+)",
    "header": r"(?P<kept>\b(?:proxy-)?authorization['\"]?\s*[:=]\s*['\"]?(?:(?:bearer|basic|token|digest|apikey)\s+)?)"
    r"(?P<value>(?!bearer\b|basic\b|token\b)[^\s'\",}]{6,})",
    "bearer": r"(?P<kept>\bbearer\s+)(?P<value>[\w.~+/=-]{8,})",
    "cookies": r"(?P<kept>\b(?:set-)?cookie['\"]?\s*:\s*['\"]?)(?P<value>[^'\"\r\n]+=[^'\"\r\n]*)",
    # "name": "value", in JSON, in Python, escaped or not
    "quoted": _NAME + r"(?P<sign>\\*['\"]\s*[:=]\s*\\*(?P<quote>['\"]))(?P<value>[^'\"\\]*)(?=\\*(?P=quote))",
    # name = "value of several words", name = b'value', name = ["value"]
    "assigned": _NAME + r"(?P<sign>\s{0,3}(?::=|=|:)\s{0,3}\[?[bru]?\\*(?P<quote>['\"]))(?P<value>[^'\"\\\n]+)"
    r"(?=\\*(?P=quote))",
    "named": _NAME + r"(?P<sign>\s{0,3}:?=\s{0,3}|\s?:\s?)(?P<open>['\"]?)(?P<value>[^\s'\"&;,|)}\]]+)",
    "element": r"<(?P<name>[A-Za-z][\w.-]{0,60})(?P<sign>>)(?P<value>[^<>\s]+)(?=</)",
    "stand-in": r"\$\{?\w+\}?$|<[^<>]*>?$|\{\{?[^{}]*(?:\}\}?)?$|%\(?\w+\)?[s%]?$|\*+$|[\[(]|"
    r"(?:args|os|env|environ|self|getpass|get_\w+|settings|opt|options)\b[\w.]*[.(\[]",
    "spaced": r"(?P<option>--?" + _NAME + r")(?P<sign>\s+)(?P<value>[^\s'\"&;|-][^\s'\"&;|]*)",
}  # fmt: skip


@cache
def _pattern(name: str) -> re.Pattern[str]:
    """Compiled when it is first needed: most command lines have nothing that would need it."""
    return re.compile(_PATTERNS[name], re.IGNORECASE | re.DOTALL if name in ("block",) else _flags(name))


def _flags(name: str) -> re.RegexFlag:
    return re.IGNORECASE if name not in ("shape", "named", "quoted") else re.RegexFlag(0)


# Values worth having in a post-mortem, and harmless to show. Everything else is left out.
_ALLOWED = (
    r"(?:CUDA_VISIBLE_DEVICES|NVIDIA_VISIBLE_DEVICES|TF_(?!.*TOKEN)\w+|XLA_FLAGS|KERAS_BACKEND|KMP_\w+|"
    r"OMP_\w+|MKL_\w+|OPENBLAS_\w+|MALLOC_\w+|LD_PRELOAD|LANG|LC_ALL|TZ|TMPDIR|VIRTUAL_ENV|"
    r"CONDA_DEFAULT_ENV|PYTHON(?:UNBUFFERED|HASHSEED|OPTIMIZE|FAULTHANDLER|MALLOC|PATH|VERBOSE)|"
    r"SLURM_(?:JOB_ID|JOB_NAME|MEM_\w+|CPUS_\w+|NODELIST|RESTART_COUNT|JOB_END_TIME)|LSB_JOBID|PBS_JOBID|"
    r"KUBERNETES_SERVICE_HOST|MEMORY_LIMIT|MEM_LIMIT|POD_MEMORY_LIMIT|RANK|LOCAL_RANK|WORLD_SIZE|"
    r"TERM|COLAB_\w*GPU|JPY_PARENT_PID)"
)


@cache
def allowed() -> re.Pattern[str]:
    return re.compile(_ALLOWED)


# --- names and values --------------------------------------------------------------------------------


def is_secret(name: str, value: str) -> bool:
    """Whether `value` is one, going by its name first and by what it looks like where that says nothing for sure."""
    words = [word.lower() for word in _PARTS.findall(name)]
    while len(words) > 1 and (words[-1].isdigit() or words[-1] in _BEHIND):
        words.pop()
    stripped = value.strip("'\"")
    if not words or _stands_for_one(stripped):
        return False
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    joined = before + last
    if last == "token" and before in _OF_TEXT:
        return looks_random(stripped)
    if last == "pwd" and stripped[0] in "/~.":
        return False
    if last in _SURE or joined in _SURE or last.endswith(_SURE_ENDS):
        return not (last in ("token", "cookie", "credential", "sas") and _is_number(stripped))
    if last.endswith("pass") and (name.isupper() or (before and before not in _PASSES)):
        return not _is_number(stripped)
    if last in ("key", "keys") and before in _OPENS:
        return not _is_number(stripped)
    if last == "id" and before in ("session", "key"):
        return len(stripped) >= 8 and not _is_number(stripped)
    return last in _PERHAPS and looks_random(stripped)


def _stands_for_one(value: str) -> bool:
    """`None`, `$HF_TOKEN`, `<token>`, `{password}`, `args.token`, `get_token(…`: no secret, but where there is one."""
    if not value or value.lower().rstrip(".,:") in _NO_VALUE or MASK in value:
        return True
    return value[0] in "$<{[(*%aegos" and _pattern("stand-in").match(value) is not None


def looks_random(value: str) -> bool:
    """Long, of letters and digits together, and no path, sentence, dotted name or words joined by signs."""
    return (
        len(value) >= 16
        and not all(part.isalpha() or part.isdigit() for part in value.replace("_", "-").split("-"))
        and any(letter.isdigit() for letter in value)
        and any(letter.isalpha() for letter in value)
        and not any(letter.isspace() or letter in "/\\()[]{}" for letter in value.rstrip("="))
    )


def _is_number(value: str) -> bool:
    try:
        float(value.rstrip("kKmM%"))
        return True
    except ValueError:
        return False


# --- texts ---------------------------------------------------------------------------------------------


def mask_text(text: str) -> str:
    """Any text: a message, a line of output, an argument."""
    if len(text) > LONGEST_TEXT:
        text = text[:LONGEST_TEXT] + "…"
    low = text.lower()
    if "-----begin" in low:
        text = _pattern("block").sub(MASK, text)
    if "://" in low:
        text = _pattern("login").sub(_without_login, text) if "@" in low else text
        text = _pattern("hook").sub(_kept, text) if "hook" in low else text
    text = _pattern("query").sub(_kept, text) if "?" in low or "&" in low else text
    if any(hint in low for hint in _NAMED):
        for name, hint in (("header", "authorization"), ("bearer", "bearer"), ("cookies", "cookie")):
            text = _pattern(name).sub(_kept, text) if hint in low else text
        if "'" in low or '"' in low:
            text = _pattern("assigned").sub(_without_value, _pattern("quoted").sub(_without_value, text))
        text = _pattern("element").sub(_without_value, text) if "</" in low else text
        text = _pattern("named").sub(_without_value, text) if "=" in low or ":" in low else text
        text = _pattern("spaced").sub(_without_value, text) if "-" in low else text
    text = _behind_clients(text)
    return _pattern("shape").sub(MASK, text) if any(hint in low for hint in _SHAPED) else text


def _kept(found: re.Match[str]) -> str:
    return found["kept"] + MASK


def _without_login(found: re.Match[str]) -> str:
    user, word = found["user"], found["word"]
    if word is not None and len(word) > 1:
        return f"{found['scheme']}{MASK}@"
    plain = user.isalnum() and len(user) >= 20
    if len(user) >= 12 and (looks_random(user) or plain or _pattern("shape").match(user)):
        return f"{found['scheme']}{MASK}@"
    return found[0]


def _without_value(found: re.Match[str]) -> str:
    masked = _masked_value(found)
    if masked is not None:
        return masked
    inner = found["value"]  # --from-literal=password=…, and no deeper
    if "=" not in inner or not found[0].endswith(inner):
        return found[0]
    return found[0].removesuffix(inner) + _pattern("named").sub(lambda one: _masked_value(one) or one[0], inner)


def _masked_value(found: re.Match[str]) -> str | None:
    """Without its value; None where that is no secret."""
    if not is_secret(found["name"], found["value"]) or _is_prose(found):
        return None
    start, end = found.start("value") - found.start(), found.end("value") - found.start()
    return found[0][:start] + MASK + found[0][end:]


def _is_prose(found: re.Match[str]) -> bool:
    """`password: must not be empty`: behind a colon and a space a word of a sentence is no secret."""
    if ":" not in found["sign"] or found["sign"].strip() != ":" or looks_random(found["value"]):
        return False
    rest, value = found.string[found.end() :], found["value"]
    said = found.string[: found.start()].lower().split(" ")
    if len(said) > 1 and said[-1] == "" and said[-2] in _OF_TEXT:  # of a parser's
        return True
    if value[:1].isupper() and value.split("[")[0].isalpha() and rest[:1] in ("]", ")", ",", "=", "|"):
        return True  # an annotation: f(token: Tensor)
    return rest[:1] == " " and rest[1:2].isalpha() and value.isalpha()


# Programs that take a secret by a short option: behind the option, or at once.
_CLIENTS = {
    "mysql": "-p!", "mysqldump": "-p!", "mysqladmin": "-p!", "mariadb": "-p!", "sshpass": "-p", "redis-cli": "-a",
    "mongo": "-p", "mongosh": "-p", "mongodump": "-p", "ldapsearch": "-w", "docker": "-p", "podman": "-p",
    "az": "-p", "twine": "-p", "zip": "-P", "unzip": "-P", "7z": "-p!", "rabbitmqadmin": "-p", "curl": "-u",
    "sqlcmd": "-P", "smbclient": "-U", "influx": "-p", "cqlsh": "-p", "lftp": "-u", "htpasswd": "-b",
    "impala-shell": "-p",
}  # fmt: skip
_SUBCOMMANDS = {
    "docker": "login",
    "podman": "login",
    "az": "login",
    "twine": "upload",
}  # without it `-p` is something else


def _behind_clients(text: str) -> str:
    if not any(client in text for client in _CLIENTS):
        return text
    pieces = re.split(r"(\s+)", text)
    words = pieces[::2]
    return "".join(word + gap for word, gap in zip(_masked_words(words), [*pieces[1::2], ""]))  # noqa: B905


def _masked_words(words: Sequence[str]) -> list[str]:
    """What stands behind a short option of a program that takes a secret there."""
    masked = list(words)
    client, hide = "", 0
    for place, word in enumerate(words):
        plain = word.strip("'\"").rsplit("/", 1)[-1]
        if plain in _CLIENTS:
            client, hide = plain, 0
            continue
        if word in ("|", ";", "&&", "||") or word.endswith(";"):
            client = ""
        if not client:
            continue
        option, attached_only = _CLIENTS[client].rstrip("!"), _CLIENTS[client].endswith("!")
        needed = _SUBCOMMANDS.get(client)
        if needed is not None and needed not in words[:place]:
            continue
        if hide:
            hide -= 1
            if not hide:
                masked[place] = _kept_user(client, word)
        elif word == option and not attached_only:
            hide = 3 if client == "htpasswd" else 1
        elif word.startswith(option) and len(word) > len(option) and not word.startswith("--"):
            masked[place] = option + _kept_user(client, word[len(option) :])
    return masked


def _kept_user(client: str, word: str) -> str:
    """`user:password` and `user%password` keep the user; a user alone is no secret."""
    sign = {"curl": ":", "smbclient": "%", "lftp": ","}.get(client)
    if sign is None:
        return MASK
    user, found, _ = word.partition(sign)
    return f"{user}{sign}{MASK}" if found else word


# --- command lines, environments, JSON ---------------------------------------------------------------------


def mask_word(word: str) -> str:
    """One argument, cut to a sensible length, with whatever looks like a secret replaced."""
    return mask_text(word[:LONGEST] + "…" if len(word) > LONGEST else word)


def mask_argv(argv: Iterable[str]) -> list[str]:
    """A command line fit for a record: `--token VALUE` and `--token=VALUE` alike lose the value."""
    words = [mask_word(word) for word in argv]
    masked: list[str] = []
    name = ""
    for word in words:
        option = word.startswith("-")
        if name and not option and is_secret(name, word):
            masked.append(MASK)
            name = ""
            continue
        name = word.lstrip("-") if option and "=" not in word else ""
        masked.append(word)
    return _masked_words(masked) if any(word.rsplit("/", 1)[-1] in _CLIENTS for word in masked) else masked


def allowed_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The few values a post-mortem needs, by allow-list, masked all the same."""
    return {
        name: mask_word(value)
        for name, value in sorted(environment.items())
        if allowed().fullmatch(name) and not is_secret(name, value)
    }


def mask_json(value: Any) -> Any:
    """Every text in it. The names are ours, and say nothing: a model's `key` is none that opens anything."""
    if isinstance(value, str):
        return mask_text(value)
    if isinstance(value, Mapping):
        return {name: mask_json(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [mask_json(one) for one in value]
    return value
