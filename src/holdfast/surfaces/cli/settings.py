"""Owns `holdfast settings`: the table of settings, also as the documentation page."""

from pathlib import Path

import click

from holdfast.core.settings import SettingRow, load, rows
from holdfast.surfaces.cli.frame import Out, data_dir_option, exits, json_option

_INTRO = """# Settings

Made by `holdfast settings --markdown`; change the table in `core/settings.py` instead.

Set a value in the environment, or by its name in a TOML file that `HOLDFAST_CONFIG` names; the environment wins.
An unknown or malformed setting stops the start.

| setting | environment | default | what it does |
|---|---|---|---|
"""


@click.command("settings", help="Print every setting with its present value, default and meaning.")
@click.option("--markdown", is_flag=True, help="Print the documentation page.")
@data_dir_option
@json_option
def settings(markdown: bool, data_dir: Path | None, as_json: bool) -> None:
    if markdown:
        click.echo(_INTRO + "".join(_line(row) for row in rows()), nl=False)
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
    Out(as_json).table(table, ["environment", "value", "help"])


def _line(row: SettingRow) -> str:
    default = f"`{row.default}`" if row.default else ""
    return f"| `{row.name}` | `{row.env}` | {default} | {row.help} |\n"


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return list(value)
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)
