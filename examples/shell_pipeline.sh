#!/bin/sh
# No Python at the top: a script that prepares its data and then starts the training.
set -e
echo "preparing"
python3 -c "print('training'); raise SystemExit(3)"
