"""How the pictures look: sizes, families of processors and the style sheet, light and dark."""

from __future__ import annotations

import re
from xml.sax.saxutils import escape

from pellucid.internal.graph.processors import PROCESSORS

BOX = 58.0  # the side of a processor's box
CHAR = 6.3  # the width of a character of the small text

#: Processors of one colour: without memory, with memory, and those that only route events.
FAMILY = {kind: p.family for kind, p in PROCESSORS.items()}

# Every selector starts with .plc, so that a picture inside a page changes nothing else on it.
STYLE = """
.plc{--page:#fff;--ink:#1f2933;--soft:#66727f;--pipe:#52606d;--box:#fbfcfd;--edge:#52606d;--plain:#1d5fae;\
--state:#b4530a;--route:#18794e;--frame:#6d3fb0;--time:#0f766e;--badge:#c02626;\
font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;max-width:100%;height:auto}
@media (prefers-color-scheme:dark){.plc{--page:#14181d;--ink:#e6eaee;--soft:#98a4b0;--pipe:#9aa7b4;--box:#1c2229;\
--edge:#9aa7b4;--plain:#74b0f4;--state:#f0a35c;--route:#5fcf9a;--frame:#bb9af0;--time:#5ed0c5;--badge:#ff8080}}
.plc .plc-page{fill:var(--page)}
.plc .plc-pipe path{fill:none;stroke:var(--pipe);stroke-width:1.6}
.plc .plc-pipe .plc-feel{stroke:transparent;stroke-width:12;pointer-events:stroke}
.plc .plc-pipe:hover path:not(.plc-feel){stroke-width:2.6}
.plc .plc-fork{fill:var(--pipe)}
.plc .plc-feed{fill:none;stroke:var(--pipe);stroke-width:1.6}
.plc .plc-tip{fill:var(--pipe)}
.plc .plc-queue{fill:var(--page);stroke:var(--pipe);stroke-width:1.3}
.plc .plc-edge{color:var(--edge)}
.plc .plc-plain{color:var(--plain)}
.plc .plc-state{color:var(--state)}
.plc .plc-route{color:var(--route)}
.plc .plc-frame{color:var(--frame)}
.plc .plc-time{color:var(--time)}
.plc .plc-box{fill:var(--box);stroke:currentColor;stroke-width:1.6}
.plc .plc-frame>g>.plc-box{fill:var(--page);stroke-dasharray:none}
.plc .plc-rule{stroke:currentColor;stroke-width:1;opacity:.45}
.plc .plc-icon{fill:none;stroke:currentColor;stroke-width:2;stroke-linecap:round;stroke-linejoin:round}
.plc .plc-icon .wash{fill:currentColor;stroke:none;opacity:.16}
.plc .plc-icon .full{fill:currentColor}
.plc .plc-icon .hole{fill:var(--box)}
.plc .plc-icon .number{fill:currentColor;stroke:none;font-size:12px;font-weight:700}
.plc text{font-size:10.5px;text-anchor:middle;fill:var(--ink)}
.plc .plc-end{font-size:13px;font-weight:700}
.plc .plc-head{font-size:12px;font-weight:700;text-anchor:start}
.plc .plc-kind{font-weight:700}
.plc .plc-id{fill:var(--soft);font-size:9.5px}
.plc .plc-badge circle{fill:var(--page);stroke:var(--badge);stroke-width:1.4}
.plc .plc-badge text{fill:var(--badge);font-weight:700}
"""


def number(value: float) -> str:
    """A number for an attribute, without noise."""
    return f"{value:.1f}".rstrip("0").rstrip(".") if value else "0"


#: What need not be said again where only colours differ: all colours are, so that the order of rules stays what it is.
_COLOURLESS = re.compile(r"(?<=[{;])(?!--|fill:|stroke:|color:|\.)[a-z-]+:[^;}]*;?")


def everywhere(style: str) -> str:
    """A style sheet for all that draws SVG: what knows no variables, as most converters to PNG and PDF do not, would
    draw all of it black.  Such a one finds the light colours themselves first, and skips what stands behind @supports.

    >>> everywhere(".plc{--page:#fff}\\n.plc .plc-page{fill:var(--page)}\\n").splitlines()[1]
    '.plc .plc-page{fill:#fff}'
    """
    light = style.split("@media", 1)[0]
    colours = dict(re.findall(r"--([a-z]+):(#[0-9a-f]+)", light))
    plain = re.sub(r"(?m)^@media.*\n|--[a-z]+:#[0-9a-f]+;?", "", style)
    plain = re.sub(r"var\(--([a-z]+)\)", lambda found: colours.get(found[1], found[0]), plain)
    colours_only = re.sub(r"(?m)^[^{@\n]*\{\}\n", "", _COLOURLESS.sub("", style)).replace(";}", "}")
    return f"{plain}@supports (color:var(--page)){{{colours_only}}}\n"


def document(mark: str, size: tuple[float, float], title: str, words: str, body: str, style: str = STYLE) -> str:
    """An SVG document of this size, with its title, what it shows in words, and its page."""
    width, height = map(number, size)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="plc" role="img" aria-labelledby="{mark}-t {mark}-d" '
        f'width="{width}" height="{height}" viewBox="0 0 {width} {height}">\n'
        f'<title id="{mark}-t">{escape(title)}</title>\n<desc id="{mark}-d">{escape(words)}</desc>\n'
        f"<style>{everywhere(style)}</style>\n"
        f'<rect class="plc-page" width="{width}" height="{height}" rx="6"/>\n{body}</svg>\n'
    )
