"""Training an NLU tagger: intents and slots together."""
