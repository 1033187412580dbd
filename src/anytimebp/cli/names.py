"""Names from files on a terminal: shown, never obeyed."""

from __future__ import annotations

import unicodedata

UNSHOWN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def printable_name(name: object) -> str:
    """Return a name with control characters, which could drive a terminal, written out."""
    return "".join(
        character if unicodedata.category(character) not in UNSHOWN else character.encode("unicode_escape").decode()
        for character in str(name)
    )
