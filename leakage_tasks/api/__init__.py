"""What `leakage_tasks` offers to programs and notebooks: the same as the commands, on objects in memory."""
