"""Cost estimates for an audit: forward passes, tokens, memory and time of each attack, by kind of canary."""
