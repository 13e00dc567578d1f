"""Reports of a run: terminal table, page, Markdown, CSV, JSON, charts and model cards."""
