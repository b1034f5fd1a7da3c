"""A run as a picture: queues over time, workers as lanes; in a terminal and as SVG."""

from pellucid.capacity.picture.svg import timeline_svg
from pellucid.capacity.picture.text import timeline_text
from pellucid.capacity.picture.timeline import Timeline, timeline

__all__ = ["Timeline", "timeline", "timeline_svg", "timeline_text"]
