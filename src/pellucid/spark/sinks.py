"""The sinks by the name that they had here first: they are `pellucid.sinks`."""

from pellucid.sinks import *  # noqa: F403
from pellucid.sinks import __all__ as __all__
