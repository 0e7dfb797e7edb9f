"""Training of an NLU tagger, with a joint loss of intents and slots."""
