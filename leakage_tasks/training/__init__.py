"""Training of taggers, soft prompts and language models, differential privacy, and exposure during training."""
