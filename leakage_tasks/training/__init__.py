"""What users train with: taggers, soft prompts, differential privacy, exposure measured on the way."""
