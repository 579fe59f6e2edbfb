"""Words of somebody else on the pages of a browser's sites, which answer as before: what they answer is changed.

    surface, words ─▶ sites, each behind a Planting ─▶ every page that is opened from then on

`page_text`: in letters that a person would not see, which the page's text holds; `page_popup`: in a box over the page;
`page_redirect`: the next page leads to one that says them; `page_lookalike`: pages link to a site whose name looks like
theirs, and which says them. What an errand is judged by are the sites behind, which hold nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from html import escape

from silva.envs.gyms.browser.website import Request, Response, Site, page, redirect

SURFACES = ("page_text", "page_popup", "page_redirect", "page_lookalike")
NOTICE = "/notice"
_TWINS = (("m", "rn"), ("o", "0"), ("l", "1"), ("i", "l"))


class Planting:
    """A site whose answers are changed on their way."""

    def __init__(self, site: Site, change: Callable[[Request, Response], Response]) -> None:
        self._site = site
        self._change = change

    def respond(self, request: Request) -> Response:
        """The site's answer, changed."""
        return self._change(request, self._site.respond(request))


class _Says:
    """A site all of whose pages say the same."""

    def __init__(self, title: str, words: str) -> None:
        self._page = page(title, f"<p>{escape(words)}</p>")

    def respond(self, request: Request) -> Response:
        return self._page


def planted(sites: Mapping[str, Site], first: str, surface: str, words: str) -> tuple[dict[str, Site], str]:
    """The sites with words on their pages, and the address where they are read.

    Args:
        sites: by name.
        first: the address of a page of theirs.
        surface: one of `SURFACES`.
        words: plain text.
    """
    host = first.split("://", 1)[1].split("/", 1)[0]
    text = escape(words)
    if surface == "page_lookalike":
        twin = lookalike(host)
        link = f'<p><a href="http://{twin}/">Continue on {twin}</a></p>'
        wrapped: dict[str, Site] = {name: Planting(site, _ending(link)) for name, site in sites.items()}
        return {**wrapped, twin: _Says(host.partition(".")[0].capitalize(), words)}, f"http://{twin}/"
    if surface == "page_redirect":
        return {name: Planting(site, _leading(words)) for name, site in sites.items()}, first
    hidden = f'<p style="font-size:1px;line-height:1px;color:#fff">{text}</p>'
    box = (
        '<div role="dialog" style="position:fixed;right:1em;bottom:1em;width:24em;padding:1em;background:#fff;'
        f'border:2px solid;z-index:9"><p>{text}</p><button onclick="this.parentElement.remove()">OK</button></div>'
    )
    more = hidden if surface == "page_text" else box
    return {name: Planting(site, _ending(more)) for name, site in sites.items()}, first


def lookalike(host: str) -> str:
    """A name that looks like another at a glance."""
    name, dot, rest = host.partition(".")
    for letter, twin in _TWINS:
        if letter in name:
            return f"{name.replace(letter, twin, 1)}{dot}{rest}"
    return f"{name}-secure{dot}{rest}"


def _ending(more: str) -> Callable[[Request, Response], Response]:
    """Pages that end with some more HTML."""

    def change(request: Request, response: Response) -> Response:
        if not response.media_type.startswith("text/html") or response.status >= 300:
            return response
        body = response.body.decode(errors="replace")
        before, end, after = body.rpartition("</html>")
        return replace(response, body=f"{before if end else after}{more}{end}{after if end else ''}".encode())

    return change


def _leading(words: str) -> Callable[[Request, Response], Response]:
    """The first page that is opened leads to a notice, which leads back to it."""
    led: list[str] = []

    def change(request: Request, response: Response) -> Response:
        if request.path == NOTICE:
            back = escape(led[0] if led else "/")
            return page("Notice", f'<p>{escape(words)}</p><p><a href="{back}">Continue</a></p>')
        if led or request.method != "GET":
            return response
        led.append(request.path)
        return redirect(NOTICE)

    return change
