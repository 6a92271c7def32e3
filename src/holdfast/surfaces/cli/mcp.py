"""Owns `holdfast mcp`."""

import click

from holdfast.surfaces.cli.mcp_setup import setup

group = click.Group("mcp", help="Connect coding agents.")
group.add_command(setup)
