"""``python -m app``, which the launcher starts, and ``foretoken``. Ctrl-C is quiet from the first import
on."""

import sys
from typing import NoReturn


def start() -> NoReturn:
    """Run the command line and end the process; see ``app.cli.run`` for its status."""
    status: object = 0
    try:
        from app.cli import main

        main()
    except KeyboardInterrupt:
        status = 130
    except SystemExit as end:
        status = end.code or 0
    if not isinstance(status, int):
        sys.exit(str(status))  # a message, which Python prints
    from app.main import leave

    leave(status)


if __name__ == "__main__":
    start()
