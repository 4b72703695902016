"""``python -m app``: what the launcher starts. Ctrl-C is quiet from the first import on."""

import sys

try:
    from app.cli import main

    main()
except KeyboardInterrupt:
    sys.exit(130)
