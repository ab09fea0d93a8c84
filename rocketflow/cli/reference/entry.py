"""One entry of the reference."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """A name of the user interface: its kind, its description, and facts as (label, text)."""

    name: str
    kind: str
    about: str
    facts: tuple[tuple[str, str], ...] = ()
    also: tuple[str, ...] = ()
    """Other names of the same thing."""

    def as_dict(self) -> dict[str, object]:
        """Return the entry in its JSON form."""
        return {"name": self.name, "kind": self.kind, "about": self.about, "facts": dict(self.facts)}
