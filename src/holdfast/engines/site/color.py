"""Owns turning any CSS colour into #rrggbb."""

import colorsys
import math
from typing import Any

from tinycss2 import color4

_NEARLY_CLEAR = 0.05


def to_hex(token: Any) -> str | None:
    """The colour that a CSS value names; None for no colour, `currentcolor` and anything transparent."""
    color = color4.parse_color(token)
    if color is None or isinstance(color, str) or (color.alpha or 0) < _NEARLY_CLEAR:
        return None
    red, green, blue = (min(max(part, 0.0), 1.0) for part in _srgb(color))
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"


def _srgb(color: Any) -> tuple[float, float, float]:
    first, second, third = (part or 0.0 for part in color.coordinates)
    if color.space == "hsl":
        return colorsys.hls_to_rgb(first / 360 % 1, third / 100, second / 100)
    if color.space == "hwb":
        white, black = second / 100, third / 100
        pure = colorsys.hls_to_rgb(first / 360 % 1, 0.5, 1)
        scale = max(0.0, 1 - white - black)
        return pure[0] * scale + white, pure[1] * scale + white, pure[2] * scale + white
    if color.space == "oklch":
        return _oklab(first, second * math.cos(math.radians(third)), second * math.sin(math.radians(third)))
    if color.space == "oklab":
        return _oklab(first, second, third)
    if color.space in ("lab", "lch"):
        return (first / 100,) * 3  # lightness alone; these two are rare enough in the wild
    return first, second, third


def _oklab(lightness: float, a: float, b: float) -> tuple[float, float, float]:
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    middle = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    return (
        _gamma(4.0767416621 * long - 3.3077115913 * middle + 0.2309699292 * short),
        _gamma(-1.2684380046 * long + 2.6097574011 * middle - 0.3413193965 * short),
        _gamma(-0.0041960863 * long - 0.7034186147 * middle + 1.7076147010 * short),
    )


def _gamma(part: float) -> float:
    return 12.92 * part if part <= 0.0031308 else 1.055 * part ** (1 / 2.4) - 0.055
