"""What enters the user's process. Standard library only; no rule lives here, it measures and tells.

It is loaded by ``boot/sitecustomize.py`` under the private name ``_keepfit``, so that a keepfit which
the user may have installed in the same environment stays theirs. If anything here fails, the training
goes on without it and the failure is an event in the record.
"""
