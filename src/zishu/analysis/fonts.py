"""Find a font that has the characters of a figure's labels, so that no label is drawn as empty boxes.

Matplotlib's own font, DejaVu Sans, has no Chinese characters. If a label needs more, we search the installed fonts for
one that contains the missing characters; we look at its character table, not its name. The caller learns which
characters no font can show, and must replace those labels. SVG files contain letters as outlines, so they look the same
on a machine without the font.

Cost: opening font files until one fits; files named like a Chinese font come first.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zishu.errors import MissingExtra

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# Parts of names of Chinese fonts, those that look best beside DejaVu Sans first.
_CHINESE: Final = (
    "notosanscjk", "notosanssc", "sourcehansans", "pingfang", "microsoftyahei", "msyh", "hiraginosansgb",
    "wenquanyi", "wqy", "heiti", "simhei", "droidsansfallback", "notoserifcjk", "sourcehanserif", "songti",
    "simsun", "uming", "ukai", "unifont", "arialunicode",
)  # fmt: skip
# Fonts that draw every character as a box.
_BOXES: Final = ("lastresort", "adobeblank")

INSTALL: Final = "install a Chinese font, such as Noto Sans CJK (on Debian: apt install fonts-noto-cjk)"


@dataclass(frozen=True, slots=True)
class Fonts:
    """Hold the font families to draw with, in order of lookup, and the characters that they lack."""

    families: tuple[str, ...]
    missing: frozenset[str]

    def can_show(self, text: str) -> bool:
        """Tell whether every character of a text can be drawn."""
        return self.missing.isdisjoint(text)

    @property
    def warning(self) -> str:
        """Say which characters cannot be drawn and what to do; return an empty string if all can."""
        if not self.missing:
            return ""
        some = "".join(sorted(self.missing)[:8]) + ("..." if len(self.missing) > 8 else "")
        return f"no installed font has the characters {some}: figures omit labels with them; {INSTALL}"


def check_matplotlib() -> None:
    """Raise MissingExtra if Matplotlib is not installed."""
    if find_spec("matplotlib") is None:
        raise MissingExtra("matplotlib", "train")


def choose_fonts(texts: Iterable[str], files: Sequence[Path] | None = None) -> Fonts:
    """Return fonts for texts; `files` are the font files to choose from (default: the installed ones)."""
    check_matplotlib()
    from matplotlib import font_manager, get_data_path
    from matplotlib.ft2font import FT2Font

    own = Path(get_data_path(), "fonts", "ttf", "DejaVuSans.ttf")
    needed = {char for text in texts for char in text if not char.isspace()}
    missing = needed - _characters(own)
    best: Path | None = None
    left = missing
    for file in _candidates(files) if missing else ():
        remaining = missing - _characters(file)
        if len(remaining) < len(left):
            best, left = file, remaining
        if not left:
            break
    chosen = [own] if best is None else [own, best]
    if best is not None:
        font_manager.fontManager.addfont(best)  # it may be newer than Matplotlib's list of fonts
    return Fonts(tuple(FT2Font(str(file)).family_name for file in chosen), frozenset(left))


def _candidates(files: Sequence[Path] | None) -> list[Path]:
    """Return font files in the order to try: upright Chinese fonts of normal weight first."""
    if files is None:
        from matplotlib.font_manager import findSystemFonts

        files = sorted(map(Path, findSystemFonts()))
    names = {file: "".join(c for c in file.stem.lower() if c.isalnum()) for file in files}

    def rank(file: Path) -> tuple[int, bool]:
        place = next((k for k, part in enumerate(_CHINESE) if part in names[file]), len(_CHINESE))
        return place, any(
            word in names[file] for word in ("bold", "black", "light", "thin", "italic", "oblique")
        )

    return sorted((f for f in files if not any(box in names[f] for box in _BOXES)), key=rank)


def _characters(file: Path) -> set[str]:
    """Return the characters that a font file has, or an empty set if it cannot be read."""
    from matplotlib.ft2font import FT2Font

    try:
        return {chr(code) for code in FT2Font(str(file)).get_charmap()}
    except (OSError, RuntimeError, ValueError):
        return set()
