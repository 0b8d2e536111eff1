"""What a built site points to: links that lead nowhere, and what a browser would fetch from elsewhere."""

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

CODE = re.compile(r"(?s)<pre>.*?</pre>")
LEADS = re.compile(r"<(a|img)\b")


class Page(HTMLParser):
    "Links, anchors, fetched addresses and pictures of one page."

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.fetched: list[str] = []  # stylesheets, scripts, fonts, pictures, frames
        self.images: list[tuple[str, str]] = []  # address and alternative text
        # Blocks of code, most of a page, are spans in colors: nothing that leads anywhere.
        self.feed(CODE.sub(lambda block: block[0] if LEADS.search(block[0]) else "", text))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") not in ("canonical", "next", "prev", "search", "index"):
            self.fetched.append(given.get("href", ""))
        elif "src" in given or "data" in given:
            self.fetched.append(given.get("src") or given["data"])
        if tag == "img":
            self.images.append((given.get("src", ""), given.get("alt", "")))


def read_pages(site: Path) -> dict[Path, Page]:
    "Every page of a built site."
    paths = sorted(path for path in site.rglob("*.html") if "_static" not in path.relative_to(site).parts)
    return {path: Page(path.read_text(encoding="utf-8")) for path in paths}


def broken_links(site: Path) -> list[str]:
    "Internal links and files whose page, file or anchor does not exist, as `page: link`."
    pages = read_pages(site.resolve())
    broken = []
    for path, page in pages.items():
        for link in [*page.links, *page.fetched]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or not link:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchors = pages[target].anchors | {"", "top"} if target in pages else {""}
            if not target.is_file() or unquote(parts.fragment) not in anchors:
                broken.append(f"{path.relative_to(site.resolve())}: {link}")
    return broken


def foreign(site: Path) -> list[str]:
    "What the pages and stylesheets would fetch from another host, as `page: address`."
    found = [
        f"{path.relative_to(site)}: {address}"
        for path, page in read_pages(site).items()
        for address in page.fetched
        if urlsplit(address).netloc
    ]
    for sheet in site.rglob("*.css"):
        text = sheet.read_text(encoding="utf-8")
        name = sheet.relative_to(site)
        found += [f"{name}: {part[:60]}" for part in text.split("url(")[1:] if is_foreign(part)]
        found += [f"{name}: @import {part[:60]}" for part in text.split("@import")[1:] if "//" in part[:40]]
    return found


def is_foreign(value: str) -> bool:
    "The beginning of a value of CSS's url() that names a host."
    return value.lstrip(" '\"").startswith(("http:", "https:", "//"))
