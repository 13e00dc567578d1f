"""From items and a scorer to saved scores and results: plan, embed, cache, run, continue."""
