"""Puts the bridge where containers of any image find it, with a Python that needs nothing of that image.

carry.py DIRECTORY    then: DIRECTORY/loader --library-path DIRECTORY/lib DIRECTORY/bin/python3 … DIRECTORY/bridge.py
"""

import encodings
import os
import re
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
# What it imports is what has to come along.
import bridge  # type: ignore[import-not-found]


def main() -> None:
    """Copy the interpreter, the libraries and modules that it has open now, and the loader."""
    to = Path(sys.argv[1])
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    place = to / "lib" / version
    for directory in (to / "bin", place / "lib-dynload"):
        directory.mkdir(parents=True, exist_ok=True)
    shutil.copy(os.path.realpath(sys.executable), to / "bin" / "python3")
    for path in sorted(
        {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if ".so" in line}
    ):
        if "lib-dynload" in path:
            shutil.copy(path, place / "lib-dynload")
        elif Path(path).name.startswith("ld-"):
            shutil.copy(path, to / "loader")
        else:
            # As they are asked for: as their files are called, or with only the first number of their versions.
            for name in {Path(path).name, re.sub(r"(\.so\.\d+).*", r"\1", Path(path).name)}:
                shutil.copy(path, to / "lib" / name)
    library = Path(os.__file__).parent
    for module in list(sys.modules.values()):
        source = Path(getattr(module, "__file__", None) or "/")
        if source.is_relative_to(library) and source.suffix == ".py":
            copy = place / source.relative_to(library)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, copy)
    shutil.copytree(Path(encodings.__file__).parent, place / "encodings", dirs_exist_ok=True)
    shutil.copy(bridge.__file__, to / "bridge.py")


if __name__ == "__main__":
    main()
