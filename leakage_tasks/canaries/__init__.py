"""Canaries: templates and their randomness spaces, manifests, planting, and verification of planted data."""

from leakage_tasks.canaries.alphabets import Alphabet, tokenizer_words, word_file, word_list
from leakage_tasks.canaries.canary import Canary, canary_from_json
from leakage_tasks.canaries.classes import class_counts
from leakage_tasks.canaries.generate import make_canaries
from leakage_tasks.canaries.manifest import manifest_hash, read_manifest, write_manifest
from leakage_tasks.canaries.plant_jobs import PlantReport
from leakage_tasks.canaries.planting import plant
from leakage_tasks.canaries.presets import elmahdy_canaries, mix_and_match_canaries, nlu_canaries
from leakage_tasks.canaries.spaces import Filling, Space, parse_template
from leakage_tasks.canaries.verify import VerifyReport, verify

__all__ = [
    "Alphabet",
    "Canary",
    "Filling",
    "PlantReport",
    "Space",
    "VerifyReport",
    "canary_from_json",
    "class_counts",
    "elmahdy_canaries",
    "make_canaries",
    "manifest_hash",
    "mix_and_match_canaries",
    "nlu_canaries",
    "parse_template",
    "plant",
    "read_manifest",
    "tokenizer_words",
    "verify",
    "word_file",
    "word_list",
    "write_manifest",
]
