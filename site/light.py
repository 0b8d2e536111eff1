"""What a reader's browser loads, made light: formulas are set, pictures as wide as shown, unused style left out."""

import html
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from PIL import Image

FORMULA = re.compile(r'(?s)<(span|div) class="math notranslate nohighlight"([^>]*)>(.*?)</\1>')
CLASSES = re.compile(r'\b(?:class|id)="([^"]*)"')
PICTURE = re.compile(r'(?s)(<a\b[^>]*>\s*(?:<span\b[^>]*>\s*)?)?<img\b([^>]*?)\bsrc="([^"]+)"([^>]*?)/?>')
# The theme names what has a text by another one, which a screen reader then says in its place.
RENAMED = re.compile(r'(<button class="[^"]*search-button-field[^>]*?|<summary) (?:title="Search" )?aria-label="[^"]*"')
# Icons, tooltips and formulas need no script; the index of all words is for the page of the search alone.
UNUSED = r"fontawesome|bootstrap|mathjax"
SEARCH = r"searchtools|language_data|searchindex"
LOADED = r'\s*<(?:script|link)\b[^>]*\b(?:src|href)="[^"]*(?:{})[^"]*\.js[^>]*>(?:</script>)?'
WIDTH = 1400  # pixels of a picture as it is shown; a click opens it as it was published
# TeX in, marked-up glyphs with MathML beside them out: what MathJax would do in every browser.
SET = r"""
const [folder, items] = JSON.parse(require("fs").readFileSync(0));
require(`${folder}/node-main.js`).init({
  loader: {load: ["input/tex-full", "output/chtml"]}, chtml: {fontURL: "mathjax"},
}).then((MathJax) => {
  const {adaptor} = MathJax.startup;
  const set = items.map(([tex, display]) => {
    const mathml = MathJax.tex2mml(tex, {display}).replace(/\s*\n\s*/g, "")
      .replace(/ (data-mjx-[\w-]+|xmlns|stretchy)="[^"]*"/g, "");
    const glyphs = adaptor.outerHTML(MathJax.tex2chtml(tex, {display}));
    const spoken = `<mjx-assistive-mml>${mathml}</mjx-assistive-mml>`;
    return glyphs.replace("<mjx-math ", '<mjx-math aria-hidden="true" ').replace(/(?=<\/mjx-container>$)/, spoken);
  });
  process.stdout.write(JSON.stringify([set, adaptor.textContent(MathJax.chtmlStylesheet())]));
});
"""
HIDDEN = "mjx-assistive-mml { position: absolute; clip-path: inset(50%); width: 1px; height: 1px; overflow: hidden; }"


def set_formulas(pages: dict[Path, str], mathjax: Path, static: Path) -> None:
    "Set every formula of the pages; its fonts and their style are put beside the site's own."

    def asked(match: re.Match) -> tuple[str, bool]:
        return html.unescape(match[3]).strip()[2:-2], match[1] == "div"  # without \( \) or \[ \]

    items = list(dict.fromkeys(asked(match) for text in pages.values() for match in FORMULA.finditer(text)))
    given = json.dumps([str(mathjax), items])
    done = subprocess.run(["node", "-e", SET], input=given, capture_output=True, text=True, check=True)
    glyphs, style = json.loads(done.stdout)
    found = dict(zip(items, glyphs, strict=True))
    if refused := [tex for (tex, _), shown in found.items() if "<merror" in shown]:
        raise SystemExit(f"site: error: MathJax refuses {refused[0]!r}")
    for path, text in pages.items():
        pages[path] = FORMULA.sub(lambda m: f'<{m[1]} class="math"{m[2]}>{found[asked(m)]}</{m[1]}>', text)
    with (static / "site.css").open("a", encoding="utf-8") as sheet:
        sheet.write(f"{style}\n{HIDDEN}\n")
    shutil.copytree(mathjax / "output" / "chtml" / "fonts" / "woff-v2", static / "mathjax")


@cache
def shown(path: Path) -> tuple[str, int, int]:
    "Name, width and height of a picture as it is shown: not wider than `WIDTH`."
    with Image.open(path) as image:
        if image.width <= WIDTH and path.stat().st_size < 20_000:
            return path.name, *image.size
        small = image.convert("RGB")
        small.thumbnail((WIDTH, image.height))
        name = f"{path.stem}-shown.png"
        small.quantize(256).save(path.with_name(name))
        return name, *small.size


def with_pictures(page: Path, text: str) -> str:
    "Pictures that come when they are scrolled to, each a link to itself at full size."

    def picture(match: re.Match) -> str:
        file = (page.parent / match[3]).resolve()
        if file.suffix != ".png":
            return match[0]
        name, width, height = shown(file)
        size = "" if "width" in match[2] + match[4] else f' width="{width}" height="{height}"'
        place = match[3].replace(file.name, name)
        image = f'<img loading="lazy"{size}{match[2]} src="{place}"{match[4]}/>'
        return f"{match[1]}{image}" if match[1] else f'<a class="enlarge" href="{match[3]}">{image}</a>'

    return PICTURE.sub(picture, text)


def rules(sheet: str) -> Iterator[tuple[str, str]]:
    "What stands before and between the braces of each rule of a stylesheet without comments."
    depth, start, opened = 0, 0, 0
    for match in re.finditer(r"\"[^\"]*\"|'[^']*'|[{};]", sheet):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if match[0] == "{" and depth == 1:
            opened = match.start()
        elif match[0] == "}" and depth == 0:
            yield sheet[start:opened].strip(), sheet[opened + 1 : match.start()]
            start = match.end()
        elif match[0] == ";" and depth == 0:  # @charset, @import
            start = match.end()


def pruned(sheet: str, names: set[str]) -> str:
    "A stylesheet without the rules for classes and identifiers that no page has."
    kept = []
    for before, inside in rules(sheet):
        if before.startswith(("@media", "@supports", "@layer", "@container")):
            inner = pruned(inside, names)
            kept += [f"{before}{{{inner}}}"] if inner else []
        elif before.startswith("@"):
            kept += [] if "Font Awesome" in inside else [f"{before}{{{inside}}}"]
        else:
            plain = before
            while plain != (plain := re.sub(r"\([^()]*\)", "", plain)):  # what :is() or :not() holds is not asked for
                pass
            wanted = [set(re.findall(r"[.#](-?[A-Za-z_][\w-]*)", one)) for one in plain.split(",")]
            kept += [f"{before}{{{inside}}}"] if any(one <= names for one in wanted) else []
    return "\n".join(kept)


def lighten(site: Path, mathjax: Path) -> None:
    "Rewrite the pages and styles of a built site."
    static = site / "_static"
    pages = {
        path: path.read_text(encoding="utf-8") for path in sorted(site.rglob("*.html")) if static not in path.parents
    }
    set_formulas(pages, mathjax, static)
    colors = (static / "pygments.css").read_text(encoding="utf-8")
    usual = set(re.findall(r"\.highlight ?\{[^}]*(color: #\w+)", colors))
    colored = {name for name, said in re.findall(r"\.highlight \.(\w+) ?\{ *([^}]*?) *\}", colors) if said not in usual}
    colored -= {"o", "mi", "mf"}  # operators and numbers: one span in two
    plain = re.compile(r'<span class="(\w+)">([^<]*)</span>')
    for path, text in pages.items():
        text = re.sub(LOADED.format(UNUSED if path.name == "search.html" else f"{UNUSED}|{SEARCH}"), "", text)
        text = text.replace(' data-bs-toggle="tooltip"', "")
        text = RENAMED.sub(r"\1", text)
        text = plain.sub(lambda match: match[0] if match[1] in colored else match[2], text)
        pages[path] = with_pictures(path, text)
        path.write_text(pages[path], encoding="utf-8")
    for pattern in ("vendor", "locales", "scripts/*.map", "styles/*.map", "scripts/fontawesome*", "scripts/bootstrap*"):
        for path in static.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    scripts = (path.read_text(encoding="utf-8") for path in static.rglob("*.js"))
    names = {name for text in scripts for name in re.findall(r"[\w-]+", text)}
    names |= {name for text in pages.values() for given in CLASSES.findall(text) for name in given.split()}
    for path in static.rglob("*.css"):
        if path.name != "site.css":
            sheet = re.sub(r"(?s)/\*.*?\*/", "", path.read_text(encoding="utf-8"))
            path.write_text(pruned(sheet, names), encoding="utf-8")
