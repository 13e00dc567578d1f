"""Run scorers on benchmarks: plan, embed, score, save and measure; interrupted runs resume."""
