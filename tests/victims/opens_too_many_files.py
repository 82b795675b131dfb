"""Opens a file per sample and closes none."""

import resource

resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
held = []
for _ in range(1000):
    held.append(open("/dev/null"))
