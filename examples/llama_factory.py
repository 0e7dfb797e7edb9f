"""Train with LLaMA-Factory and measure the exposure of canaries meanwhile.

    python examples/llama_factory.py canaries.jsonl train.yaml

``train.yaml`` is a configuration of LLaMA-Factory whose data set holds the planted canaries. Further arguments override
its values, as in ``llamafactory-cli train``. For several GPUs, start the file with torchrun.
"""

import sys

from llamafactory.train.tuner import run_exp

from leakage_tasks import ExposureCallback
from leakage_tasks.training.callback.hidden_trainer import attached_when_training

manifest = sys.argv.pop(1)
with attached_when_training(ExposureCallback(manifest, plot="exposure.png")):
    run_exp()
