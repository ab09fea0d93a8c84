"""Options of the source and the sink as rows that parsers, errors and the reference share."""

from __future__ import annotations

from typing import Any, Final

from rocketflow_store.spi.setting_rows import Kind, Setting, kind_of

_FORMS: Final = {
    Kind.FLAG: "true or false",
    Kind.COUNT: "number",
    Kind.DURATION: "duration (500ms, 30s, 15m)",
    Kind.SIZE: "size (64k, 10m, 1g)",
}


def option_row(
    name: str, about: str, default: Any = None, *, kind: Kind | None = None, choices: tuple[str, ...] = (), **more: Any
) -> Setting:
    """Return the row of an option; what its kind says of values and default need not be given."""
    kind = kind or kind_of(default, choices)
    form = more.pop("form", "") or _FORMS.get(kind) or " or ".join(", ".join(choices).rsplit(", ", 1))
    if default is None:
        more.setdefault("shown_default", "none")
    return Setting(name, about, default, kind, choices=choices, form=form, **more)
