"""Great Expectations' pages without the network: its renderers and blocks in RocketFlow's page frame.

GX's own frame loads its styles, scripts and icons from five hosts; without them parts of a page are missing, and each
page view is visible to those hosts. Importing this module loads Great Expectations.
"""

from __future__ import annotations

from typing import Any, Final

from great_expectations.render.view.view import DefaultJinjaPageView
from jinja2 import ChoiceLoader, DictLoader

SITE_STYLE: Final = """
body { font: 14px/1.4 sans-serif; margin: 1.5rem; color: #222; }
svg { width: 100%; max-width: 1260px; border: 1px solid #ddd; }
table { border-collapse: collapse; } td, th { padding: .25rem .7rem; border-bottom: 1px solid #ddd; text-align: left; }
td { vertical-align: top; } td.number { text-align: right; }
.failed, .text-danger { color: #b00020; } .passed, .text-success { color: #1b7f3b; } .text-warning { color: #a15c00; }
"""
"""The style of all pages of a site."""
_BLOCKS_STYLE: Final = """
h4, h5, h6 { margin: .8rem 0 .3rem; font-size: 1rem; } .ge-section { margin-bottom: 1.5rem; }
.alert { background: #f4f6f8; padding: .1rem .7rem; } .badge { background: #eef1f4; padding: 0 .3rem; }
.cooltip { position: relative; } .cooltip .top { display: none; }
.cooltip:hover .top { display: block; position: absolute; background: #222; color: #fff; padding: .4rem; width: 20rem; }
i.fas { font-style: normal; } .fa-check-circle::before, .fa-check::before { content: "\\2714"; }
.fa-times::before, .fa-times-circle::before { content: "\\2718"; }
.fa-exclamation-triangle::before, .fa-exclamation::before { content: "\\26a0"; }
body:has(#failed-only:checked) tr:has(> td i.text-success) { display: none; }
"""
_PAGE: Final = (
    """<!doctype html>
{% set up = "../" * ((expectation_suite_name or "").count(".") + (4 if "Results" in renderer_type else 1)) -%}
<html lang="en"><head><meta charset="utf-8"><title>{{ page_title | e }}</title><style>"""
    + SITE_STYLE
    + _BLOCKS_STYLE
    + """</style></head>
<body>
<p><a href="{{ up }}index.html">All results</a> | <a href="{{ up }}../index.html">Trend</a></p>
<h1>{{ page_title | e }}</h1>
{% if "Results" in renderer_type %}<label><input type="checkbox" id="failed-only"> only what failed</label>{% endif %}
{% for section in sections %}{% set section_loop = loop -%}{% include "section.j2" %}{% endfor %}
</body></html>
"""
)
_COLLAPSE: Final = """<details>
<summary>{{ content_block.get("collapse_toggle_link", "Show more...") | render_content_block }}</summary>
{% set outer = content_block_id %}
{% include "content_block_header.j2" %}
{% for block in content_block["collapse"] %}
{{ block | render_content_block(content_block_id=outer ~ "-collapse-item-" ~ loop.index) }}
{% endfor %}
</details>
"""
_GRAPH: Final = """{% include "content_block_header.j2" %}
<details><summary>values of the graph</summary><pre>{{ content_block["graph"] | string | e }}</pre></details>
"""


class OfflinePageView(DefaultJinjaPageView):
    """A page that loads nothing from other hosts, and runs no script."""

    def __init__(self, **directories: Any) -> None:
        super().__init__(**directories)
        own = DictLoader({"page.j2": _PAGE, "collapse.j2": _COLLAPSE, "graph.j2": _GRAPH})
        assert self.env.loader is not None
        self.env.loader = ChoiceLoader([own, self.env.loader])
