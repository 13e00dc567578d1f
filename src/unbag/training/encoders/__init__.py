"""Image and text encoders of models of several libraries, ready to be trained."""
