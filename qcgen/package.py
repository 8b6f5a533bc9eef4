"""A compiled model as a folder that build systems and package managers take as it is."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from qcgen.artifact import Artifact
from qcgen.cores import TARGETS
from qcgen.ir.plan import Plan
from qcgen.render import filled
from qcgen.render.filters import one_line, thousands
from qcgen.render.model import options_text
from qcgen.render.usage import usage
from qcgen.sbom import bill_of_materials
from qcgen.version import __version__

FORMATS = ("cmake", "meson", "zephyr", "esp-idf", "platformio", "arduino", "cmsis-pack")
"""Whose metadata a package can have."""


@dataclass(frozen=True)
class Release:
    """Who publishes a package: ``vendor`` without spaces, ``version`` as 1.2.3, ``url`` maybe empty.

    ``license``: an SPDX expression, "" if none is named; ``banner``: lines for the heads of C files.
    """

    vendor: str = "local"
    version: str = "1.0.0"
    url: str = ""
    license: str = ""
    banner: str = ""


RELEASE = Release()
"""For trying things out."""


def package(artifact: Artifact, formats: Collection[str] = FORMATS, release: Release = RELEASE) -> dict[str, str]:
    """The files of a package by their paths, which start with the model's name.

    With the self-test, unless the caller pushes rows of the input: then there is nothing to test by.
    """
    tested = artifact if artifact.plan.pushed else artifact.with_self_test()
    if release.banner:
        tested = tested.with_banner(release.banner)
    context = _context(tested, formats, release)
    prefix = tested.plan.prefix
    files = {f"{prefix}/src/{name}": text for name, text in tested.files.items()}
    for path, template in _metadata(tested.plan, formats, release):
        files[f"{prefix}/{path}"] = filled(f"package/{template}", context)
    inside = {path.removeprefix(f"{prefix}/"): text for path, text in files.items()}
    bill = bill_of_materials(tested.plan, inside, release.vendor, release.version, release.license)
    return {**files, f"{prefix}/{prefix}.cdx.json": bill}


def _metadata(plan: Plan, formats: Collection[str], release: Release) -> Iterator[tuple[str, str]]:
    """The paths of what is not generated C of the model, and the templates."""
    prefix = plan.prefix
    yield "README.md", "README.md"
    yield "LICENSE", "LICENSE"
    if {"cmake", "zephyr", "esp-idf"}.intersection(formats):
        yield "CMakeLists.txt", "CMakeLists.txt"
    if {"cmake", "meson"}.intersection(formats) and plan.options.self_test:
        yield "test/main.c", "test_main.c"
    if "zephyr" in formats and plan.options.self_test:
        for path in ("CMakeLists.txt", "prj.conf", "sample.yaml", "src/main.c"):
            template = path.removeprefix("src/") if path == "sample.yaml" else f"sample_{PurePosixPath(path).name}"
            yield f"zephyr/samples/self_test/{path}", template
    if {"platformio", "arduino"}.intersection(formats):
        yield f"examples/{prefix}/{prefix}.ino", "example.ino"
    own = {
        "meson": [("meson.build", "meson.build")],
        "zephyr": [("zephyr/module.yml", "module.yml"), ("zephyr/Kconfig", "Kconfig")],
        "esp-idf": [("idf_component.yml", "idf_component.yml")],
        "platformio": [("library.json", "library.json")],
        "arduino": [("library.properties", "library.properties")],
        "cmsis-pack": [(f"{release.vendor}.{prefix}.pdsc", "package.pdsc")],
    }
    for each in formats:
        yield from own.get(each, [])


def _context(artifact: Artifact, formats: Collection[str], release: Release) -> dict[str, object]:
    plan, prefix = artifact.plan, artifact.plan.prefix
    files = sorted(artifact.files)
    return {
        "version": __version__,
        "prefix": prefix,
        "PREFIX": prefix.upper(),
        "formats": formats,
        "vendor": release.vendor,
        "release": release.version,
        "url": release.url,
        "license": release.license,
        "kconfig_cores": _kconfig_cores(plan),
        "pack_cores": _pack_cores(plan),
        "arduino_cores": _arduino_cores(plan),
        "zephyr_ram_kb": _kilobytes(artifact.report.ram_bytes + _ZEPHYR_RAM),
        "zephyr_flash_kb": _kilobytes(artifact.report.constants_bytes + _ZEPHYR_FLASH),
        "model": one_line(plan.model),
        "description": f"The neural network {prefix} as C for {_cores(plan)}, generated from a model by qcgen.",
        "sha256": plan.sha256,
        "options": one_line(options_text(plan)),
        "sources": [f"src/{name}" for name in files if name.endswith(".c")],
        "headers": [f"src/{name}" for name in files if name.endswith(".h")],
        "is_tested": plan.options.self_test,
        "uses_math": any("math.h" in call.headers for call in plan.calls),
        "usage": usage(plan),
        "constants": thousands(artifact.report.constants_bytes),
        "arena": thousands(plan.arena_bytes),
        "ram": thousands(artifact.report.ram_bytes),
    }


def _cores(plan: Plan) -> str:
    """What the C is made for, in words."""
    target = TARGETS[plan.options.target]
    return f"{target.name} and cores with its instructions" if target.is_small else "any core"


_ZEPHYR_RAM, _ZEPHYR_FLASH = 12 * 1024, 48 * 1024
"""What the sample needs besides tensors and constants, about: Zephyr, a stack, code."""

_CORTEX = ("M3", "M4", "M7", "M33", "M55", "M85")
_FIRST = {"armv7-m": 0, "dsp": 1, "mve": 4}
"""The first of these cores that has such instructions."""

_ARDUINO = {
    "armv6-m": "mbed mbed_rp2040 renesas rp2040 samd stm32 nRF5",
    "armv7-m": "sam stm32",
    "dsp": "mbed mbed_giga mbed_nano mbed_nicla mbed_opta mbed_portenta nrf52 renesas_portenta renesas_uno samd stm32"
    " teensy",
    "mve": "renesas stm32",
    "rv32m": "esp32 ch32v",
}
"""Arduino's board packages that have boards with such instructions; boards without are refused by the C itself."""


def _instructions(plan: Plan) -> str:
    """What the C needs beyond C99; "" where any core will do."""
    target = TARGETS[plan.options.target]
    return next((name for name in ("mve", "dsp") if name in target.features), target.isa)


def _kconfig_cores(plan: Plan) -> tuple[str, ...]:
    """Zephyr's options for cores that have the target's instructions; none where any core will do."""
    needed = _instructions(plan)
    alone = {"rv32m": ("RISCV",), "armv6-m": ("CPU_CORTEX_M",)}
    return alone.get(needed) or tuple(f"CPU_CORTEX_{core}" for core in _CORTEX[_FIRST.get(needed, len(_CORTEX)) :])


def _pack_cores(plan: Plan) -> tuple[str, ...]:
    """The same as CMSIS-Pack names them."""
    needed = _instructions(plan)
    small = ("M0", "M0+", "M1", "M23") if needed == "armv6-m" else ()
    first = 0 if small else _FIRST.get(needed, len(_CORTEX))
    return tuple(f"Cortex-{core}" for core in (*small, *_CORTEX[first:]))


def _arduino_cores(plan: Plan) -> tuple[str, ...]:
    """The same by Arduino's names of board packages."""
    return tuple(_ARDUINO.get(_instructions(plan), "*").split())


def _kilobytes(count: int) -> int:
    return -(-count // 1024)
