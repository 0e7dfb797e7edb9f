"""Python API for programs and notebooks: the functions of the commands, for objects in memory."""
