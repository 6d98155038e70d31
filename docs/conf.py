"""How Sphinx builds this folder (``make docs``): Markdown pages, a page per public name, a gallery.

Nothing of the built pages is loaded from elsewhere, so that they can be read without a network: formulas are
MathML, written when the pages are built.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx_gallery.sorting import ExplicitOrder

import hardmax as hm

HERE = Path(__file__).resolve().parent

project = "hardmax"
author = "hardmax contributors"
copyright = "hardmax contributors"
version = release = hm.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["gallery", "**/.ipynb_checkpoints"]
templates_path = ["_templates"]
suppress_warnings = ["config.cache"]  # the gallery is configured with functions, which no cache can hold

# Markdown: formulas between dollars, and anchors that a link of the form page.md#heading finds
myst_enable_extensions = ["colon_fence", "dollarmath", "deflist"]
myst_heading_anchors = 4
myst_dmath_double_inline = True

# Docstrings. The public names of a package stand in its stub, and nowhere here.
autodoc_typehints = "none"
autosummary_generate = True
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False


def public_names() -> dict[str, dict[str, str]]:
    """For every namespace, each of its names with where it is documented: at the top if it is reached there.

    ``{"hardmax.geometry": {"Box": "hardmax.Box", "MaxMargin": "hardmax.geometry.MaxMargin", ...}, ...}``
    """
    top = {name: getattr(hm, name) for name in hm.__all__}
    found = {"hardmax": {name: f"hardmax.{name}" for name in top if not inspect.ismodule(top[name])}}
    for space, module in ((name, thing) for name, thing in top.items() if inspect.ismodule(thing)):
        found[f"hardmax.{space}"] = {
            name: f"hardmax.{name}" if top.get(name) is getattr(module, name) else f"hardmax.{space}.{name}"
            for name in module.__all__
        }
    return found


PUBLIC = public_names()
autosummary_context = {"public": PUBLIC}

# The gallery, in the order in which a newcomer learns.
GALLERY = {
    "one_head": "cells_of_a_head three_diagrams weighted_sites empty_keys largest_margins order_k rules",
    "several_heads": "common_refinement minkowski_sum newton_polygon sums_in_space saturation "
    "bounds_against_counts",
    "networks": "cells_of_a_network depth three_colourings sawtooth growth_with_depth estimate segment "
    "experts cells_in_space norms",
    "decisions": "two_moons distance classes_and_cells digits verified_controller",
    "temperature": "blend bands guarantees hard_queries certified surviving_cells",
    "flow": "ways_to_read routes information_sets comparison_trees cost advice",
    "models": "margins cells_of_a_layer known_and_used training router_flips moving_keys frozen_keys "
    "smooth_model",
}


def place_of_script(filename: str) -> int:
    """Where a script stands in the gallery."""
    return " ".join(GALLERY.values()).split().index(Path(filename).stem)


def drawn_figures(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """The figures that a script holds in its variables, saved for its page.

    Pictures of hardmax are made without pyplot, which is where the gallery would look for them.
    """
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from sphinx_gallery.scrapers import figure_rst

    held = block_vars["example_globals"].values()
    figures = [thing.figure if isinstance(thing, Axes) else thing for thing in held]
    paths = []
    for figure in dict.fromkeys(figure for figure in figures if isinstance(figure, Figure)):
        paths.append(next(block_vars["image_path_iterator"]))
        figure.savefig(paths[-1], dpi=144, bbox_inches="tight")
    return str(figure_rst(paths, gallery_conf["src_dir"]))


sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "auto_gallery",
    "subsection_order": ExplicitOrder([f"gallery/{section}" for section in GALLERY]),
    "within_subsection_order": place_of_script,
    "image_scrapers": (drawn_figures,),
    "nested_sections": False,
    "filename_pattern": r"\.py$",  # every script is run
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "write_computation_times": False,  # the page of times loads scripts from elsewhere
    "show_signature": False,
    "doc_module": ("hardmax",),
    "backreferences_dir": "auto_gallery/of",
    "parallel": True,
}

html_theme = "pydata_sphinx_theme"
html_title = f"hardmax {release}"
html_static_path = ["_static"]
html_css_files = ["hardmax.css"]
html_math_renderer = "mathml"
html_show_sourcelink = False
html_copy_source = False
html_theme_options: dict[str, Any] = {
    "logo": {"text": f"hardmax {release}"},
    "show_nav_level": 1,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
}
html_sidebars = {"index": []}


def name_pages(app: Any, docname: str, source: list[str]) -> None:
    """Pages link to ``reference.md#power_diagram``; the name's own page is meant."""
    homes = {name: home for names in reversed(PUBLIC.values()) for name, home in names.items()}

    def page_of(link: re.Match[str]) -> str:
        home = homes.get(link[2])
        return f"]({link[1]}reference/{home}.rst)" if home else link[0]

    source[0] = re.sub(r"\]\(((?:\.\./)*)reference\.md#(\w+)\)", page_of, source[0])


def inline_formula(visitor: Any, node: nodes.math) -> None:
    """A formula in a line, as MathML."""
    visitor.body.append(convert(node.astext()))
    raise nodes.SkipNode


def displayed_formula(visitor: Any, node: nodes.math_block) -> None:
    """A formula on lines of its own, as MathML that scrolls inside itself when it is wide."""
    visitor.body.append(f'<div class="formula">{convert(node.astext(), display="block")}</div>\n')
    raise nodes.SkipNode


def write_explorer(app: Any) -> None:
    """The explorer, which its page shows in a frame."""
    hm.explore().save(HERE / "_static" / "explorer.html")


def setup(app: Any) -> None:
    """What Sphinx is given beyond settings."""
    app.connect("builder-inited", write_explorer)
    app.add_html_math_renderer("mathml", (inline_formula, None), (displayed_formula, None))
    app.connect("source-read", name_pages)
