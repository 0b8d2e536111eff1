"""Sphinx configuration of the site. `site/make_site.py` gathers the sources and calls Sphinx."""

import sys
from pathlib import Path

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
# build/mathjax/ holds the folder mathjax/, unpacked from npm's package by site/make_site.py.
html_static_path = ["_static", str(Path(__file__).resolve().parents[1] / "build" / "mathjax")]
html_css_files = ["site.css"]
html_favicon = "_static/favicon.svg"
html_copy_source = False
html_show_sourcelink = False
html_use_index = False
mathjax_path = "mathjax/tex-chtml.js"
html_theme_options = {
    "repository_url": "https://github.com/ppe-paper/ppe",
    "use_repository_button": True,
    "use_download_button": False,
    "collapse_navigation": True,
    "show_navbar_depth": 1,
    "show_toc_level": 2,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
