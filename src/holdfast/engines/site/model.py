"""Owns the report on how a page looks."""

from typing import Literal

from pydantic import BaseModel, Field


class Swatch(BaseModel):
    """A colour, its share of what the page paints, and what it paints most."""

    color: str = Field(description="#rrggbb")
    share: float = Field(description="Percent of the colour use found in the CSS, weighted by matching elements")
    role: Literal["text", "background", "border", "icon", "other"]


class Typeface(BaseModel):
    """A font stack and its share."""

    family: str
    share: float


class Typography(BaseModel):
    """Fonts, sizes and weights."""

    families: list[Typeface]
    web_fonts: list[str] = Field(description="Fonts that the page loads")
    sizes: dict[str, str] = Field(description="Font size by element, for example {'h1': '2.5rem'}")
    weights: list[str]
    line_height: str = ""


class Region(BaseModel):
    """A landmark of the page in document order."""

    region: str
    label: str
    words: int
    links: int


class Heading(BaseModel):
    """One line of the outline."""

    level: int
    text: str


class Layout(BaseModel):
    """How the page is arranged."""

    regions: list[Region]
    outline: list[Heading]
    techniques: dict[str, int] = Field(description="Elements laid out by grid, flex, float or position, by the CSS")
    breakpoints: list[str]
    max_widths: list[str]
    counts: dict[str, int] = Field(description="How many links, images, forms, tables and so on there are")


class Meta(BaseModel):
    """What the page says about itself."""

    title: str = ""
    description: str = ""
    language: str = ""
    viewport: str = ""
    canonical: str = ""
    theme_color: str = ""
    generator: str = ""
    icons: list[str] = Field(default_factory=list)
    open_graph: dict[str, str] = Field(default_factory=dict)
    twitter: dict[str, str] = Field(default_factory=dict)


class Stylesheet(BaseModel):
    """A linked stylesheet, and why it is missing where it is."""

    url: str
    bytes: int = 0
    error: str = ""


class SiteReport(BaseModel):
    """A page's palette, typography, layout and metadata, without a browser having rendered it."""

    url: str
    meta: Meta
    palette: list[Swatch]
    typography: Typography
    layout: Layout
    stylesheets: list[Stylesheet] = Field(default_factory=list)
