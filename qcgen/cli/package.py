"""Compiles models and makes each a folder that build systems and package managers take as it is."""

from __future__ import annotations

import argparse
import json
import re

from qcgen.cli.options import add_compile_options, add_options
from qcgen.options import BANNER, FORCE, FORMATS, Option, Text

SUMMARY = "turn models into packages for CMake, Meson, Zephyr, ESP-IDF, PlatformIO, Arduino, CMSIS-Pack"

_VENDOR = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_VERSION = re.compile(r"(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*)){2}")
_LICENSE = re.compile(r"[A-Za-z0-9.+-]+(?: (?:AND|OR|WITH) [A-Za-z0-9.+-]+)*")
_URL = re.compile(r"https?://[A-Za-z0-9._~:/?@%+=-]+")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("models", metavar="MODEL", nargs="+")
    add_options(parser, OWN, PARSERS)
    add_compile_options(parser)


def run(args: argparse.Namespace) -> int:
    """Writes the folders of all models together; returns the exit status."""
    from qcgen.cli.artifacts import compiled_together
    from qcgen.cli.terminal import counted, fitted
    from qcgen.errors import printable
    from qcgen.package import Release, package
    from qcgen.write import write_files

    artifacts = compiled_together(args, args.models)
    if artifacts is None:
        return 1
    release = Release(args.vendor, args.release, args.url or "", args.license or "", args.banner or "")
    packages = {artifact.plan.prefix: package(artifact, args.formats, release) for artifact in artifacts}
    write_files(
        args.folder, {path: text for files in packages.values() for path, text in files.items()}, force=args.force
    )
    if args.json:
        print(json.dumps({name: list(files) for name, files in packages.items()}, indent=2))
        return 0
    for name, files in packages.items():
        text = f"{printable(str(args.folder / name))}: {counted(len(files), 'file')} for {', '.join(args.formats)}"
        print(fitted(text))
    return 0


def _formats(text: str) -> tuple[str, ...]:
    words = tuple(dict.fromkeys(text.split(",")))
    if unknown := [word for word in words if word not in FORMATS]:
        raise ValueError(f"{unknown[0]!r} is not one of {', '.join(FORMATS)}")
    return words


def _vendor(text: str) -> str:
    if not _VENDOR.fullmatch(text):
        raise ValueError(f"{text!r} is not a word of letters, digits, '_' and '-' that starts with a letter")
    return text


def _version(text: str) -> str:
    if not _VERSION.fullmatch(text):
        raise ValueError(f"{text!r} is not a version such as 1.0.0")
    return text


def _license(text: str) -> str:
    if not _LICENSE.fullmatch(text):
        raise ValueError(f"{text!r} is not an SPDX expression such as Apache-2.0")
    return text


def _url(text: str) -> str:
    if not _URL.fullmatch(text):
        raise ValueError(f"{text!r} is not an address such as https://example.com/models")
    return text


OWN = (
    Option("formats", Text(",".join(FORMATS)), "--for", "FORMAT,...", f"some of {', '.join(FORMATS)} (default: all)"),
    Option("vendor", Text("local"), "--vendor", "", "who publishes the packages (default: %(default)s)"),
    Option("release", Text("1.0.0"), "--release", "X.Y.Z", "their version (default: %(default)s)"),
    Option("url", Text(), "--url", "", "where they are published (default: not told)"),
    Option("license", Text(), "--license", "SPDX",
        "their licence, as SPDX writes it, such as Apache-2.0 or LicenseRef-Acme (default: not told)"),
    BANNER,
    FORCE,
)  # fmt: skip
PARSERS = {"formats": _formats, "vendor": _vendor, "release": _version, "url": _url, "license": _license}
