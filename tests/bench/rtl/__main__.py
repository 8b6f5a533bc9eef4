"""``make bench-rtl``."""

import sys

from tests.bench.rtl.networks import main

sys.exit(main())
