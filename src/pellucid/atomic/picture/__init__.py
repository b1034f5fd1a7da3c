"""Pictures: a network as nested places, a run as a space-time picture with places as lanes."""

from pellucid.atomic.picture.nested import nested_svg, nested_text
from pellucid.atomic.picture.spacetime import spacetime_svg

__all__ = ["nested_svg", "nested_text", "spacetime_svg"]
