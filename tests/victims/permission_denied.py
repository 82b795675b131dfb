"""An ordinary user reads what only root may."""

import os

if os.getuid() == 0:
    os.setuid(65534)
open("/etc/shadow").read()
