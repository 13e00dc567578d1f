"""Run scorers on benchmarks: plan, embed, score, save, measure, and continue what was stopped."""
