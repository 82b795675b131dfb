"""What a processor says of itself."""

from __future__ import annotations

import pytest

from keepfit.agent.processor import names_bfloat16


@pytest.mark.parametrize(
    ("lines", "has"),
    [
        (["processor : 0\n", "Features : fp asimd bf16 i8mm\n"], True),
        (["processor : 0\n", "Features : fp asimd\n", "processor : 1\n", "Features : bf16\n"], False),
        (["flags\t\t: sse avx512f amx_bf16\n"], True),
        (["flags\t\t: sse avx2\n"], False),
        (["model name : something else\n"], None),
    ],
)
def test_whether_it_computes_with_bfloat16(lines, has):
    assert names_bfloat16(lines) is has
