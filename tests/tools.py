"""The tools that tests need, the packages that have them, and the skips where one is missing."""

from __future__ import annotations

import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from qcgen.cores import TARGETS

DEBIAN = {
    "bash": "bash",
    "cc": "gcc",
    "gcc": "gcc",
    "g++": "g++",
    "clang": "clang",
    "clang++": "clang",
    "nm": "binutils",
    "arm-none-eabi-size": "binutils-arm-none-eabi",
    "cppcheck": "cppcheck",
    "frama-c": "frama-c-base",
    "cmake": "cmake",
    "ninja": "ninja-build",
    "meson": "meson",
    "arduino-builder": "arduino-builder arduino-core-avr",
    "avr-gcc": "gcc-avr avr-libc",
    "simavr": "simavr",
    "verilator": "verilator",
    "chromium": "chromium",
    "s390x-linux-gnu-gcc": "gcc-s390x-linux-gnu libc6-dev-s390x-cross",
    "qemu-s390x": "qemu-user",
    "aarch64-linux-gnu-gcc": "gcc-aarch64-linux-gnu libc6-dev-arm64-cross",
    "qemu-aarch64": "qemu-user",
} | {
    tool: package
    for target in TARGETS.values()
    if target.machine is not None
    for tool, package in target.machine.packages.items()
}
"""Programs, and libraries of cross compilers, by the Debian packages that have them."""

PYPI = {
    "argcomplete": "argcomplete",
    "pio": "platformio",
    "reuse": "reuse",
    "cyclonedx": "cyclonedx-python-lib[json-validation]",
    "compote": "idf-component-manager",
    "build": "build",
    "distributed": "distributed",
    "hatchling": "hatchling",
    "kconfiglib": "kconfiglib",
    "onnxruntime": "onnxruntime",
    "pythondata_cpu_cv32e40p": "pythondata-cpu-cv32e40p",
    "pythondata_cpu_ibex": "pythondata-cpu-ibex",
    "ruamel.yaml": "ruamel.yaml",
    "tflite_micro": "tflite-micro>=0.dev0",
    "ziglang": "ziglang",
} | (FRAMEWORKS := {name: name for name in ("keras", "onnxscript", "tensorflow", "tf2onnx", "torch")})
"""Programs and modules by the packages of PyPI that have them; those of frameworks take gigabytes."""

NOT_IN_CI = "CI does not install it"
"""A part of the reason where a test of a framework is skipped."""


def install(*tools: str) -> str:
    """The commands that install these tools. Raises KeyError for one without a package, installed or not."""
    debian = dict.fromkeys(package for tool in tools if tool in DEBIAN for package in DEBIAN[tool].split())
    pypi = dict.fromkeys(PYPI[tool] for tool in tools if tool not in DEBIAN)
    commands = [f"apt-get install {' '.join(debian)}"] if debian else []
    commands += [f"pip install {' '.join(pypi)}"] if pypi else []
    return " and ".join(commands)


def program(name: str) -> str | None:
    """The path of a program, beside this Python or where programs are; None if it is missing."""
    return shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)


def require(*tools: str) -> None:
    """Skips the test if one of these programs is missing, saying which package has it."""
    skip_without(*tools, missing=[tool for tool in tools if program(tool) is None])


def require_modules(*names: str) -> None:
    """Skips the test if one of these modules cannot be imported, saying which package has it."""
    skip_without(*names, missing=[name for name in names if not _is_module(name)])


def require_frameworks(*names: str) -> None:
    """Skips the test if one of FRAMEWORKS cannot be imported, saying which package has it; in CI, too."""
    missing = [name for name in names if not _is_module(name)]
    if missing:
        pytest.skip(f"{', '.join(missing)} is missing, {NOT_IN_CI}: pip install {' '.join(map(FRAMEWORKS.get, names))}")


def skip_without(*tools: str, missing: list[str]) -> None:
    """Skips the test if any of its ``tools`` is ``missing``.

    Each of them needs a package in the tables above, whether it is missing or not: so a machine that has everything
    finds what a machine without would fail over.
    """
    install(*tools)
    if missing:
        pytest.skip(f"{', '.join(missing)} is missing: {install(*missing)}", allow_module_level=True)


def open_terminal() -> tuple[int, int]:
    """Both ends of a new pseudo-terminal; skips the test on a machine that has none, such as a bare chroot."""
    try:
        return os.openpty()
    except OSError as error:
        pytest.skip(f"there are no pseudo-terminals ({error}): mount -t devpts devpts /dev/pts")


def _is_module(name: str) -> bool:
    package = name.split(".")[0]
    return find_spec(package) is not None and find_spec(name) is not None
