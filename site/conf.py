"""Sphinx configuration of the site. `site/make_site.py` gathers the sources and calls Sphinx."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

# jsonschema, which myst_nb imports, compiles the grammars of this package for seconds if it is there, and
# nothing here checks an address.
sys.modules["rfc3987_syntax"] = None

project = "ppe"
author = "The ppe developers"
copyright = f"2026 onwards, {author}. Code under the MIT licence"
html_title = "Prompt perturbation for reliable LLM evaluation"
html_short_title = "ppe"
language = "en"
highlight_language = "none"  # blocks that name no language are commands and their output

extensions = ["myst_nb", "sphinx.ext.mathjax"]
root_doc = "index"

# Notebooks are shown as they were committed: nothing runs while the site is built.
nb_execution_mode = "off"
nb_merge_streams = True
nb_render_markdown_format = "myst"  # pipe tables in outputs
nb_render_text_lexer = "none"  # plain text outputs are no Python
nb_code_prompt_show = "Show the code"
nb_code_prompt_hide = "Hide the code"
nb_ipywidgets_js = {}  # would be fetched from a CDN
myst_enable_extensions = ["amsmath", "attrs_block", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
myst_dmath_double_inline = True

# Each suppressed category has its reason.
suppress_warnings: list[str] = []

html_context = {"default_mode": "auto"}  # an empty mode is reported as an error in the console
html_theme = "sphinx_book_theme"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = [("scroll.js", {"defer": "defer"})]
html_favicon = "_static/favicon.svg"
html_copy_source = False
html_show_sourcelink = False
html_use_index = False
html_show_search_summary = False  # it would fetch pages, which a browser refuses for a site opened from a file
html_theme_options = {
    "use_download_button": False,
    "show_toc_level": 2,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
templates_path = ["_templates"]
html_sidebars = {"**": ["navbar-logo.html", "icon-links.html", "search-button-field.html", "contents.html"]}


# ---- the sidebar. The theme would resolve all contents for every page, twice: a third of the time.


@dataclass(frozen=True, slots=True)
class Entry:
    "A page in the table of contents, and those below it."

    title: str
    page: str  # empty: a section of the page above, which groups its pages
    children: "tuple[Entry, ...]"
    pages: frozenset[str]  # itself and all below


def entries(env: BuildEnvironment, toctree: addnodes.toctree) -> tuple[Entry, ...]:
    "What a toctree lists, with all below."
    found = []
    for title, page in toctree["entries"]:
        below = tuple(below_page(env, page))
        inside = frozenset({page}).union(*(entry.pages for entry in below))
        found.append(Entry(title or env.titles[page].astext(), page, below, inside))
    return tuple(found)


def below_page(env: BuildEnvironment, page: str) -> Iterator[Entry]:
    "What the toctrees of a page list; those that stand in a section are grouped under its heading."
    for toctree in env.tocs[page].findall(addnodes.toctree):
        listed, section = entries(env, toctree), toctree.parent.parent
        if isinstance(section, nodes.list_item) and section.parent is not env.tocs[page]:
            yield Entry(section[0].astext(), "", listed, frozenset().union(*(entry.pages for entry in listed)))
        else:
            yield from listed


def add_contents(app: Sphinx, page: str, template: str, context: dict, doctree: object) -> None:
    "Give the sidebar its table of contents: caption and entries of each toctree of the first page."
    if not hasattr(app, "contents"):
        trees = app.env.tocs[root_doc].findall(addnodes.toctree)
        app.contents = [(tree["caption"], entries(app.env, tree)) for tree in trees]
    context["contents"] = app.contents


def leave_out_code(app: Sphinx, doctree: nodes.document) -> None:
    "Keep the code of notebooks out of the search: its names stand among the functions, with what they mean."
    for cell in doctree.findall(nodes.container):
        cell["classes"] += ["no-search"] if "cell_input" in cell["classes"] else []


def setup(app: Sphinx) -> None:
    app.connect("doctree-read", leave_out_code)
    # Before the theme, which looks whether a sidebar is empty by rendering it.
    app.connect("html-page-context", add_contents, priority=100)
