"""Folders of pictures, each really decoded."""

from __future__ import annotations

import hashlib
import io
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from PIL import Image, UnidentifiedImageError

from .summary import Seen

SUFFIXES = {
    ".jpg": "JPEG", ".jpeg": "JPEG", ".png": "PNG", ".gif": "GIF", ".bmp": "BMP", ".webp": "WEBP", ".tif": "TIFF",
    ".tiff": "TIFF",
}  # fmt: skip
SHOWN = 20  # of each kind of problem


def pictures(folder: str) -> Iterator[os.DirEntry[str]]:
    """Every picture below a folder; links to folders are not followed, so there are no circles."""
    waiting = [folder]
    while waiting:
        where = waiting.pop()
        try:
            entries = os.scandir(where)
        except OSError:
            continue
        with entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif os.path.splitext(entry.name)[1].lower() in SUFFIXES and entry.is_file():
                    yield entry


def read(folder: str, seen: Seen, advance: Callable[[int], None]) -> None:
    modes: Counter[str] = Counter()
    classes: Counter[str] = Counter()
    hashes: dict[bytes, str] = {}
    told: Counter[str] = Counter()

    def problem(kind: str, message: str, file: str) -> None:
        told[kind] += 1
        if told[kind] <= SHOWN:
            seen.problem(kind, message, file=file)

    for entry in pictures(folder):
        seen.rows += 1
        name = os.path.relpath(entry.path, folder)
        classes[os.path.dirname(name).split(os.sep)[0]] += 1
        try:
            content = Path(entry.path).read_bytes()
        except OSError as error:
            problem("damaged", str(error.strerror), entry.path)
            continue
        advance(len(content))
        if not content:
            problem("damaged", "empty", entry.path)
            continue
        digest = hashlib.blake2b(content, digest_size=12).digest()
        if digest in hashes:
            problem("twice", f"the same file as {hashes[digest]}", entry.path)
        else:
            hashes[digest] = name
        _decode(entry.path, content, problem, modes)
    seen.read = seen.rows > 0
    seen.labels = dict(classes) if len(classes) > 1 else {}
    odd = [mode for mode in modes if mode not in ("RGB", "L")]
    if odd:
        words = ", ".join(f"{modes[mode]} {mode}" for mode in odd)
        seen.problem("modes", f"pictures that are neither RGB nor grey: {words}", modes=dict(modes))
    for kind, count in told.items():
        if count > SHOWN:
            seen.problem(kind, f"and {count - SHOWN} more")


def _decode(
    path: str,
    content: bytes,
    problem: Callable[[str, str, str], None],
    modes: Counter[str],
) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(content)) as picture:
                kind = picture.format
                picture.load()
                modes[picture.mode] += 1
    except UnidentifiedImageError:
        problem("damaged", "no picture", path)
        return
    except (
        OSError,
        SyntaxError,
        ValueError,
        EOFError,
        Image.DecompressionBombError,
        Image.DecompressionBombWarning,
    ) as e:
        problem("damaged", str(e).splitlines()[0][:100] if str(e) else type(e).__name__, path)
        return
    wanted = SUFFIXES[os.path.splitext(path)[1].lower()]
    if kind != wanted:
        problem("suffix", f"a {kind}, not a {wanted}", path)
