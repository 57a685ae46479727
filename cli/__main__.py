"""`python -m loopscope.cli` is the `loopscope` command."""

from __future__ import annotations

import sys

from ._app import main

sys.exit(main())
