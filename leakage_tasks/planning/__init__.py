"""What a run will take, before it: passes, tokens, memory and time of every attack, by kind of canary."""
