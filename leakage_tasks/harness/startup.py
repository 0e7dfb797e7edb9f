"""What Python runs at its start where lm-eval-leakage is installed: it lies at the root of site-packages then.

Until ``lm_eval`` is looked for it only waits, then it hands over to ``leakage_tasks.harness.plugin``; with
``LM_EVAL_LEAKAGE_AUTOLOAD=0`` it does neither. Every Python pays for it, so it imports only what is loaded anyway.
"""

import os
import sys

# Type checkers take the name for typing's, whose import is spared.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType


class LeakageAutoload:
    """A finder that finds nothing, but makes our tasks and models known when the harness is first looked for."""

    waiting = True

    def find_spec(self, name: str, path: "Sequence[str] | None" = None, target: "ModuleType | None" = None) -> None:
        """Install the plugin if ``name`` is the harness; never raises, and leaves finding it to the others."""
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
