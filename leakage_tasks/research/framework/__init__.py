"""Code that runs studies, stores their results and writes the page of results."""
