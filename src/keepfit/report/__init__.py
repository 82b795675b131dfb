"""One finding, one run, one verdict -> text or JSON. Renders, never decides."""
