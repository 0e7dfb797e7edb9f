"""Reports on results: tables, pages, model cards, plots and checks."""
