"""Export trained models so that open_clip and transformers load them."""
