"""All probes put to a model, what is said of the answers, and the page that shows it."""
