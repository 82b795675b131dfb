"""Starting the command, carrying its output, watching it, ending it at the danger line.

Two processes, each of which outlives the other. The *front* is what the user started: it launches the
command, carries output and signals, and knows the exit status; it never judges. The *judge* is forked
from it: it samples, records, guards and explains. If the judge dies the front carries on as a plain
relay; if the front dies the judge takes over the relay.
"""
