"""From scores to numbers: pure functions on arrays, intervals, averages and comparisons."""
