"""Each paper's tables and figures as something to run: the published figure beside the measured one."""
