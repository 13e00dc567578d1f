"""From results to things people read: terminal table, page, JSON, CSV, Markdown."""
