"""Imports what is not installed."""

import a_package_nobody_has
