"""Presets: the canaries that published papers planted, one file per paper."""

from leakage_tasks.canaries.presets.elmahdy import elmahdy_canaries
from leakage_tasks.canaries.presets.mix_and_match import TABLE_1, mix_and_match_canaries
from leakage_tasks.canaries.presets.nlu import nlu_canaries

__all__ = ["TABLE_1", "elmahdy_canaries", "mix_and_match_canaries", "nlu_canaries"]
