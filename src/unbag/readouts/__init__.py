"""Read-outs: models trained on the frozen features of another model, used as scorers."""
