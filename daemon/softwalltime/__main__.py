"""``python -m softwalltime`` is ``softwalltime``."""

from softwalltime.cli import main

main()
