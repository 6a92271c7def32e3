"""Owns `holdfast settings`: the table of settings, also as the documentation page."""

from pathlib import Path

import click

from holdfast.core.settings import SettingRow, load, rows
from holdfast.surfaces.cli.frame import data_dir_option, exits, json_option
from holdfast.surfaces.cli.printing import Printed

_OPENING = """# Settings

Every setting has a default, so none is needed to start. Set one in the environment by the name in the first column, or
in a TOML file (named by `HOLDFAST_CONFIG`) by the name in the second; the environment wins. An unknown or malformed
setting stops the start and the message says which.
`holdfast settings` prints this table with the values in force; `holdfast settings --markdown` prints this page, and
`scripts/settings_page.py` writes it.

| environment | file | default | what it does |
|---|---|---|---|
"""


def page() -> str:
    """The documentation page of settings."""
    return _OPENING + "".join(_line(row) for row in rows())


@click.command("settings", help="Print every setting with its present value, default and meaning.")
@click.option("--markdown", is_flag=True, help="Print the documentation page.")
@data_dir_option
@json_option
def settings(markdown: bool, data_dir: Path | None, as_json: bool) -> None:
    if markdown:
        click.echo(page(), nl=False)
        return
    with exits():
        current = load(data_dir=data_dir)
    table = []
    for row in rows():
        value = getattr(current, row.name)
        shown = "(set)" if row.secret and value else value
        table.append(
            {
                "setting": row.name,
                "environment": row.env,
                "value": _plain(shown),
                "default": row.default,
                "help": row.help,
            }
        )
    Printed(as_json).table(table, ["environment", "value", "help"])


def _line(row: SettingRow) -> str:
    default = f"`{row.default}`" if row.default else ""
    secret = " Kept secret: never printed." if row.secret else ""
    return f"| `{row.env}` | `{row.name}` | {default} | {row.help.replace('|', chr(92) + '|')}.{secret} |\n"


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return list(value)
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)
