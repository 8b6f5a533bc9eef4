"""Firmwares that answer `qcgen verify --serial`: behind a pseudo-terminal that loses bytes, or in an emulator."""

from __future__ import annotations

import os
import random
import re
import subprocess
import threading
import tty
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from batch import require
from tools import open_terminal

from qcgen.artifact import Artifact
from qcgen.build import STRICT_FLAGS
from qcgen.chips import BOARDS
from qcgen.example import example
from qcgen.write import write_files

READ = """int byte = getchar();

    if (byte == EOF) {
        exit(0);
    }
    return (uint8_t)byte;"""
WRITE = """putchar(byte);
    if (byte == 0x7E) {
        fflush(stdout);
    }"""

Fault = Callable[[bytes], bytes]
"""What becomes of bytes on their way."""


def filled_in(own_board: str) -> str:
    """own_board.c with what somebody with a board adds; here the board is a process with pipes."""
    for name, code in (("board_read_byte", READ), ("board_write_byte", WRITE)):
        own_board = own_board.replace(f'#error "fill in {name}"', f"    {code}")
    return f"#include <stdio.h>\n#include <stdlib.h>\n{own_board}"


def build(folder: Path, *artifacts: Artifact, change: tuple[str, str] = ("", "")) -> Path:
    """A program with networks made for any core that serves on standard input and output; sources may be changed."""
    require("gcc")
    files = dict(example(artifacts, BOARDS["virt"]))
    files["own_board.c"] = filled_in(files["own_board.c"])
    sources = ["serve.c", "own_board.c"]
    for artifact in artifacts:
        prefix = artifact.plan.prefix
        assert change == ("", "") or change[0] in files[f"{prefix}.c"]
        files[f"{prefix}.c"] = files[f"{prefix}.c"].replace(*change, 1)
        sources += [f"{prefix}.c", f"{prefix}_test.c"]
    write_files(folder, files)
    command = ["gcc", *STRICT_FLAGS, "-O1", "-include", "hooks.h", *sources, "-lm", "-o", "serve"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "serve"


def faulty(seed: int, lost: float, damaged: float) -> Fault:
    """A line that loses and damages these shares of the bytes."""
    chance = random.Random(seed)

    def fault(data: bytes) -> bytes:
        kept = (byte for byte in data if chance.random() >= lost)
        return bytes(byte ^ (1 << chance.randrange(8)) if chance.random() < damaged else byte for byte in kept)

    return fault


def whole(data: bytes) -> bytes:
    """A line that loses nothing."""
    return data


class Bridge:
    """Carries bytes between a pseudo-terminal and a program, and may start the program anew."""

    def __init__(self, program: Path, to_board: Fault, from_board: Fault, lives: Iterator[int]) -> None:
        self._program, self._to_board, self._from_board, self._lives = program, to_board, from_board, lives
        self.starts = 0
        self._master, slave = open_terminal()
        tty.setraw(slave)
        self._slave, self.port = slave, os.ttyname(slave)
        self._start()
        threading.Thread(target=self._requests, daemon=True).start()

    def _start(self) -> None:
        self.starts += 1
        self._left = next(self._lives, None)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "bufsize": 0}
        self._process = subprocess.Popen([self._program], **pipes)
        threading.Thread(target=self._answers, args=(self._process.stdout,), daemon=True).start()

    def _requests(self) -> None:
        while data := self._read():
            try:
                self._process.stdin.write(self._to_board(data))
            except OSError:
                return
            if self._left is not None:
                self._left -= len(data)
                if self._left <= 0:
                    self._process.kill()
                    self._process.wait()
                    self._start()

    def _read(self) -> bytes:
        try:
            return os.read(self._master, 4096)
        except OSError:
            return b""

    def _answers(self, pipe) -> None:
        try:
            while data := pipe.read(4096):
                os.write(self._master, self._from_board(data))
        except (OSError, ValueError):  # either end was closed
            return

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        os.close(self._slave)
        os.close(self._master)


@contextmanager
def bridged(
    program: Path, to_board: Fault = whole, from_board: Fault = whole, lives: Sequence[int] = ()
) -> Iterator[Bridge]:
    """A program behind a port; it starts anew when it was sent as many bytes as ``lives`` say, one after the other."""
    bridge = Bridge(program, to_board, from_board, iter(lives))
    try:
        yield bridge
    finally:
        bridge.close()


@contextmanager
def emulated(command: list[str]) -> Iterator[str]:
    """The port of an emulator whose first serial port is a pseudo-terminal."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        line = process.stdout.readline()
        found = re.search(r"redirected to (\S+)", line)
        assert found, line
        yield found[1]
    finally:
        process.kill()
        process.communicate()
