"""Packages to test: made of digits or of a tiny model, and which files their metadata names."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from models import qlinear_conv, random_weights
from tools import program, require

import qcgen
from qcgen.options import FORMATS
from qcgen.package import package
from qcgen.write import write_files

DIGITS = Path(__file__).parent / "data" / "digits" / "digits_qop_s8.onnx"


def digits(folder: Path, formats=FORMATS, **options) -> Path:
    """The package of the digits network, of integers alone."""
    write_files(folder, package(qcgen.compile(DIGITS, name="digits", io="quantized", **options), formats))
    return folder / "digits"


def tiny(folder: Path, formats=FORMATS, **options) -> Path:
    """The package of a single small convolution."""
    model = qlinear_conv((1, 2, 6, 6), random_weights((4, 2, 3, 3)), x_type="int8", y_type="int8")
    write_files(folder, package(qcgen.compile(model, name="tiny", **options), formats))
    return folder / "tiny"


def tool(name: str) -> str:
    """The path of a tool, beside this Python or where programs are; skips the test if it is missing."""
    require(name)
    found = program(name)
    assert found is not None
    return found


def succeeds(command, folder, **environment) -> str:
    """What a command prints; the test fails with it if the command does."""
    result = attempt(command, folder, **environment)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def attempt(command, folder, **options):
    """The outcome of a command that may fail."""
    command = [str(word) for word in command]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False, **options)


def spoil_test(folder: Path, name: str) -> None:
    """Changes what the self-test expects of the first node."""
    path = folder / "src" / f"{name}_test.c"
    text = path.read_text()
    first = re.search(r"0x[0-9a-f]{8}u", text)[0]
    path.write_text(text.replace(first, f"0x{int(first[2:-1], 16) ^ 1:08x}u", 1))


def files_in(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def named_in(folder: Path) -> Iterator[tuple[str, str]]:
    """Each metadata file of a package and a path that it names, or a path that its tool looks for by itself."""
    name = folder.name
    for path in sorted(files_in(folder)):
        text = (folder / path).read_text()
        match Path(path).name:
            case "CMakeLists.txt" if "/samples/" in path:
                sources = re.findall(r"\bsrc/\w+\.c\b", text)
                yield from ((path, f"{path.removesuffix('CMakeLists.txt')}{each}") for each in sources)
            case "CMakeLists.txt" | "meson.build":
                yield from ((path, each) for each in re.findall(r"\b(?:src|test)/\w+\.[ch]\b", text))
            case "module.yml":
                yield path, f"{re.search(r'cmake: (.*)', text)[1]}/CMakeLists.txt".removeprefix("./")
                yield path, re.search(r"kconfig: (.*)", text)[1]
            case "idf_component.yml":
                yield path, "CMakeLists.txt"
            case "library.json":
                data = json.loads(text)
                yield from ((path, f"{data['build']['srcDir']}/{header}") for header in data["headers"])
                yield path, f"{data['build']['srcDir']}/{name}.c"
                for example in data["examples"]:
                    yield from ((path, f"{example['base']}/{file}") for file in example["files"])
            case "library.properties":
                yield path, "src/" + re.search(r"includes=(.*)", text)[1]
                yield path, f"examples/{name}/{name}.ino"
            case _ if path.endswith(".pdsc"):
                files = [each.attrib["name"] for each in ElementTree.fromstring(text).iter("file")]
                yield from ((path, each) for each in files if not each.endswith("/"))
            case _ if path.endswith((".c", ".h", ".ino")):
                own = re.findall(r'#include ["<](\w+\.h)[">]', text)
                yield from ((path, f"src/{each}") for each in own if each.startswith(name))


METADATA = {"CMakeLists.txt", "meson.build", "zephyr/module.yml", "idf_component.yml", "library.json"}
METADATA |= {f"zephyr/samples/self_test/{each}" for each in ("CMakeLists.txt", "prj.conf", "sample.yaml")}
METADATA |= {"library.properties", "README.md", "LICENSE"}
"""What tools, and people, look for by name."""


def misfits(folder: Path) -> set[str]:
    """Files that metadata names and that are missing, and files that nothing names."""
    present, named = files_in(folder), {each for _, each in named_in(folder)}
    unnamed = {each for each in present - named - METADATA if not each.endswith((".pdsc", ".cdx.json"))}
    return (named - present) | unnamed
