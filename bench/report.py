"""Owns how a measurement is told: a table for people, JSON for machines, an exit code for scripts."""

import argparse
import json
import os
import platform
import sys
from dataclasses import asdict, dataclass
from typing import Literal, NoReturn


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value; a target makes it a promise."""

    name: str
    value: float
    unit: str = ""
    target: float | None = None
    better: Literal["higher", "lower"] = "higher"

    @property
    def holds(self) -> bool:
        if self.target is None:
            return True
        return self.value >= self.target if self.better == "higher" else self.value <= self.target


def options(description: str) -> argparse.ArgumentParser:
    """The options of every measurement; a module may add its own."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    return parser


def finish(figures: list[Figure], *, as_json: bool) -> NoReturn:
    """Tell the figures and end with 1 when a promise is broken."""
    if as_json:
        machine = {"python": platform.python_version(), "cores": os.cpu_count(), "load": os.getloadavg()[0]}
        print(
            json.dumps(
                {"machine": machine, "figures": [asdict(figure) | {"holds": figure.holds} for figure in figures]}
            )
        )
    else:
        for figure in figures:
            sign = "≥" if figure.better == "higher" else "≤"
            promise = (
                ""
                if figure.target is None
                else f"  target {sign} {figure.target:g}: {'holds' if figure.holds else 'MISSED'}"
            )
            print(f"{figure.name:<58} {figure.value:>12,.2f} {figure.unit:<8}{promise}")
    sys.exit(0 if all(figure.holds for figure in figures) else 1)
