"""Reading what the harness wrote, and the words and figures that all reports share."""
