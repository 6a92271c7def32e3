"""Owns turning declared commands into click's: options from the input model, parts by their class, errors by name."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from pydantic import ValidationError

from holdfast.core.commands import Command, Commands, Given, Parameter, Session, parameters
from holdfast.core.parts import Parts
from holdfast.core.principal import Principal
from holdfast.core.text.fields import invalid
from holdfast.features.workspaces.service import Workspaces
from holdfast.surfaces.cli.frame import ProgramEntry, data_dir_option, exits, json_option
from holdfast.surfaces.cli.printing import Printed


def as_click(declared: Sequence[Command | Commands]) -> click.Command:
    """A command, or a group that one or several features give commands to."""
    groups = [each for each in declared if isinstance(each, Commands)]
    if groups:
        return DeclaredGroup(groups)
    (command,) = (each for each in declared if isinstance(each, Command))
    return click_command(command)


class DeclaredGroup(click.Group):
    """A declared group; only the command that is called is made into click's."""

    def __init__(self, declared: Sequence[Commands]) -> None:
        """Several features can give commands to one group; the first names it."""
        super().__init__(declared[0].name, help=declared[0].help)
        self._declared = {name: command for each in declared for name, command in each.commands.items()}

    def list_commands(self, context: click.Context) -> list[str]:
        return sorted(self._declared)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        found = self._declared.get(name)
        return None if found is None else click_command(found)


def click_command(declared: Command) -> click.Command:
    """The command with the options of its model, `--data-dir` and `--json`."""
    model, kinds = declared.needs()
    taken = parameters(model) if model is not None else []

    def run(data_dir: Path | None, as_json: bool, **values: Any) -> None:
        entry: ProgramEntry = click.get_current_context().find_root().obj
        with exits():
            asked = {} if model is None else {"given": _given(model, taken, values)}
            if declared.alone is not None and declared.alone(Printed(as_json), asked["given"]):
                return

            async def work() -> None:
                async with entry.opens(data_dir, declared.begins_store) as (parts, principal):
                    needed = {name: parts[kind] for name, kind in kinds.items()}
                    await declared.work(_session(parts, principal, as_json), **needed, **asked)

            asyncio.run(work())

    made = click.Command(
        declared.name, help=declared.help, callback=run, params=[_click_parameter(each) for each in taken]
    )
    data_dir_option(made)
    json_option(made)
    return made


def _session(parts: Parts, principal: Principal, as_json: bool) -> Session:
    return Session(parts, principal, Printed(as_json), lambda named: parts[Workspaces].id_of(principal, named))


def _given(model: type[Given], taken: list[Parameter], values: dict[str, Any]) -> Given:
    """The model of what was typed; a usage error names the option that does not fit."""
    written = {each.field: _read(each, values[each.field]) for each in taken}
    # What was not typed is left to the model's own default.
    said = {each.field: written[each.field] for each in taken if written[each.field] is not None}
    try:
        return model.model_validate(said)
    except ValidationError as error:
        wrong = invalid(error).fields[0]
        named = next((each for each in taken if wrong.field.partition("[")[0] == each.field), None)
        raise click.BadParameter(
            wrong.message, ctx=click.get_current_context(), param_hint=repr(named.names[0]) if named else None
        ) from None


def _read(parameter: Parameter, value: Any) -> Any:
    if parameter.reads == "file" and value is not None:
        return value.read()
    if parameter.reads == "dash" and value == "-":
        return sys.stdin.read()
    return list(value) if parameter.many else value


def _click_parameter(parameter: Parameter) -> click.Parameter:
    # Where there is no default click must not be told of one: None would be taken for a value.
    default = {} if parameter.required or parameter.many else {"default": parameter.default}
    if parameter.positional:
        return click.Argument(
            [parameter.field],
            type=_type(parameter),
            metavar=_place(parameter),
            nargs=-1 if parameter.many else 1,
            required=parameter.required,
            **default,
        )
    is_flag = parameter.kind is bool
    return click.Option(
        # The name of the field comes last: click takes the one without dashes for the parameter's own.
        [*parameter.names, parameter.field],
        type=None if is_flag else _type(parameter),
        # Told that it is none, click lets the value be left out, and takes one that begins with a dash for an option.
        is_flag=is_flag or None,
        multiple=parameter.many,
        required=parameter.required,
        show_default=not is_flag and parameter.default not in (None, "", []),
        help=parameter.help,
        metavar=parameter.metavar,
        **default,
    )


def _place(parameter: Parameter) -> str | None:
    """How an argument stands in the line of usage: in brackets where it may be left out, as click's own names are."""
    return parameter.metavar if parameter.metavar is None or parameter.required else f"[{parameter.metavar}]"


def _type(parameter: Parameter) -> click.ParamType[Any]:
    if parameter.choices:
        return click.Choice(parameter.choices)
    if parameter.reads == "file":
        return click.File()
    if parameter.kind is Path:
        return click.Path(
            path_type=Path,
            file_okay=parameter.path != "directory",
            dir_okay=parameter.path != "file",
            allow_dash=parameter.reads == "dash",
        )
    least, most = parameter.least, parameter.most
    if least is None and most is None:
        return click.types.convert_type(parameter.kind)
    if parameter.kind is int:
        return click.IntRange(None if least is None else int(least), None if most is None else int(most))
    return click.FloatRange(least, most)
