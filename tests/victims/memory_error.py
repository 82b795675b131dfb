"""An array of the wrong shape under an rlimit."""

import resource

resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
one_hot = bytearray(50_000 * 300_000)
