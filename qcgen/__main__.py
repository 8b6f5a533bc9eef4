"""``python -m qcgen`` is ``qcgen``."""

import sys

from qcgen.cli import main

if __name__ == "__main__":
    sys.exit(main())
