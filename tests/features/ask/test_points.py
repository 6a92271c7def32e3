"""Owns the proof that the points of a text know what stands above and below them."""

from holdfast.features.ask.answering.points import points

NOTES = """* remove:
  - the `old` reader
    which nobody used
* change
  * for users of the API

**Security**
- a fix

- [Contents](#contents)
"""


def test_what_is_listed_under_a_point_or_a_label_stands_below_it() -> None:
    told = {point.text: (point.above, point.below) for point in points(NOTES)}
    assert told == {
        "* remove:": ("", ["- the `old` reader which nobody used"]),
        "- the `old` reader which nobody used": ("* remove:", []),
        "* change": ("", ["* for users of the API"]),
        "* for users of the API": ("* change", []),
        "**Security**": ("", []),
        "- a fix": ("**Security**", []),
    }


def test_a_statement_in_tags_is_one_and_a_badge_is_none() -> None:
    text = '<span style="color:red">This release bumped the SONAME by mistake.</span>\n<img src="badge.svg"> ok\n'
    assert [each.text for each in points(text)] == ["This release bumped the SONAME by mistake."]
