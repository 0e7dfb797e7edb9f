"""The module that Python runs at each start if lm-eval-leakage is installed, from the root of site-packages.

It waits for the first import of ``lm_eval`` and then calls ``leakage_tasks.harness.plugin``.
``LM_EVAL_LEAKAGE_AUTOLOAD=0`` switches it off. Because it runs at every start of Python, it imports only modules that
are loaded already.
"""

import os
import sys

# Type checkers treat this name as typing's, without the cost of its import.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType


class LeakageAutoload:
    """An import finder that loads no module itself, but installs the plugin at the first import of the harness."""

    waiting = True

    def find_spec(self, name: str, path: "Sequence[str] | None" = None, target: "ModuleType | None" = None) -> None:
        """Install the plugin if ``name`` is the harness; never raises, and leaves the import to the other finders."""
        if name != "lm_eval" or not self.waiting:
            return
        self.waiting = False
        try:
            from leakage_tasks.harness import plugin

            plugin.install("startup file")
        except Exception as error:
            why = " ".join(f"{type(error).__name__}: {error}".split())
            print(
                f"lm-eval-leakage: its tasks and models are missing ({why}): reinstall it, remove it with "
                '"pip uninstall lm-eval-leakage", or set LM_EVAL_LEAKAGE_AUTOLOAD=0',
                file=sys.stderr,
            )


if os.environ.get("LM_EVAL_LEAKAGE_AUTOLOAD") != "0":
    sys.meta_path.insert(0, LeakageAutoload())
