"""The one writer of SVG: elements, escaping, the style sheet, light and dark.

A picture is one self-contained file, for papers, pages and notebooks: no script, no font and no file from elsewhere.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from xml.sax.saxutils import escape

from pellucid.internal.draw.labels import cells, clean
from pellucid.internal.graph.processors import PROCESSORS

BOX = 58.0  # the side of a processor's box
CHAR = 6.3  # the width of a character of the small text
PAGE = 1180.0  # what is wider continues below

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
.plc .plc-edge{color:var(--edge)}
.plc .plc-plain{color:var(--plain)}
.plc .plc-state{color:var(--state)}
.plc .plc-route{color:var(--route)}
.plc .plc-frame{color:var(--frame)}
.plc .plc-time{color:var(--time)}
.plc .plc-alarm{color:var(--badge)}
.plc text{font-size:10.5px;text-anchor:middle;fill:var(--ink)}
.plc .plc-head{font-size:12px;font-weight:700;text-anchor:start}
.plc .plc-id{fill:var(--soft);font-size:9.5px}
.plc .plc-box{fill:var(--box);stroke:currentColor;stroke-width:1.6}
.plc .plc-feed{fill:none;stroke:var(--pipe);stroke-width:1.6}
.plc .plc-kind{font-weight:700}
"""

#: What need not be written twice where only colours differ: all colours are, so that the order of rules stays the same.
_COLOURLESS = re.compile(r"(?<=[{;])(?!--|fill:|stroke:|color:|\.)[a-z-]+:[^;}]*;?")


_NAMES = {"xml_space": "xml:space"}


def number(value: float) -> str:
    """A number for an attribute, without noise.

    >>> number(2.04), number(-0.01), number(7)
    ('2', '0', '7')
    """
    text = f"{value:.1f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def element(name: str, kind: str = "", *inside: str, **values: float | str | None) -> str:
    """One element: its classes (without ``plc-``), what is inside, its attributes; None leaves an attribute out.

    >>> element("circle", "dot gone", cx=1.5, cy=2, data_step="<a>")
    '<circle class="plc-dot plc-gone" cx="1.5" cy="2" data-step="&lt;a&gt;"/>'
    """
    out = [f"<{name}"]
    if kind.strip():
        out.append(f' class="{" ".join(f"plc-{one}" for one in kind.split())}"')
    for key, value in values.items():
        if value is not None:
            text = escape(value, {'"': "&quot;"}) if isinstance(value, str) else number(value)
            out.append(f' {_NAMES.get(key, key.replace("_", "-"))}="{text}"')
    return "".join(out) + (f">{''.join(inside)}</{name}>" if inside else "/>")


def text(kind: str, x: float, y: float, words: str, **values: float | str | None) -> str:
    """Words at a point."""
    return element("text", kind, escape(clean(words)), x=x, y=y, **values)


def drawn(*pieces: float | str) -> str:
    """The data of a path, from letters and numbers.

    >>> drawn("M", 1, 2.04, "H", 3)
    'M1 2H3'
    """
    out = ""
    for piece in pieces:
        shown = piece if isinstance(piece, str) else number(piece)
        out += (" " if out[-1:].isdigit() and shown[:1] in "0123456789-." else "") + shown
    return out


def path(kind: str, *pieces: float | str) -> str:
    """A path, from letters and numbers."""
    return element("path", kind, d=drawn(*pieces))


def rect(kind: str, x: float, y: float, width: float, height: float, rx: float | None = None) -> str:
    """A rectangle."""
    return element("rect", kind, x=x, y=y, width=width, height=height, rx=rx)


def circle(kind: str, x: float, y: float, r: float) -> str:
    """A circle."""
    return element("circle", kind, cx=x, cy=y, r=r)


def group(kind: str, *inside: str, title: str = "", **values: float | str | None) -> str:
    """Elements that belong together; ``title`` is shown when the mouse is over them."""
    if not (kind.strip() or title or any(value is not None for value in values.values())):
        return "".join(inside)
    first = (element("title", "", escape("\n".join(map(clean, title.split("\n"))))),) if title else ()
    return element("g", kind, *first, *inside, **values) + "\n"


def moved(x: float, y: float, *inside: str) -> str:
    """Elements drawn around another origin."""
    return group("", "\n", *inside, transform=f"translate({number(x)} {number(y)})")


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


def _used(style: str, body: str) -> str:
    """The rules of a style sheet whose classes are there."""

    def there(selector: str) -> bool:
        return all(name in body for name in re.findall(r"plc-[a-z-]+", selector))

    rules = style.splitlines(keepends=True)
    return "".join(r for r in rules if not r.startswith(".plc .") or any(map(there, r.split("{")[0].split(","))))


def document(size: tuple[float, float], title: str, words: str, body: str, style: str = "", mark: str = "") -> str:
    """An SVG document of this size, with its title, what it shows in words, and its page; ``style`` is added to the
    common one."""
    mark = mark or "plc-" + hashlib.sha256(f"{title}|{words}".encode()).hexdigest()[:10]
    width, height = map(number, size)
    page = element("rect", "page", width=size[0], height=size[1], rx=6)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="plc" role="img" aria-labelledby="{mark}-t {mark}-d" '
        f'width="{width}" height="{height}" viewBox="0 0 {width} {height}">\n'
        f'<title id="{mark}-t">{escape(clean(title))}</title>\n<desc id="{mark}-d">{escape(clean(words))}</desc>\n'
        f"<style>{everywhere(_used(STYLE + style, page + body))}</style>\n{page}\n{body}</svg>\n"
    )


def lines_svg(lines: Sequence[str], title: str) -> str:
    """Lines of text as a picture."""
    rows = [text("line", 12, 24 + 18 * i, line, xml_space="preserve") + "\n" for i, line in enumerate(lines)]
    size = 24 + CHAR * 1.4 * max(map(cells, lines), default=0), 24.0 + 18 * len(lines)
    return document(size, title, "; ".join(lines), "".join(rows), ".plc .plc-line{font-size:13px;text-anchor:start}\n")
