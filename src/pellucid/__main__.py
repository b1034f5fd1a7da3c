"""``python -m pellucid`` is the command ``pellucid``, for a Python whose scripts are not on the path."""

from pellucid.internal.cli.main import main

main()
