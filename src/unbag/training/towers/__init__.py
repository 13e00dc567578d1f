"""Image and text towers of models of several libraries, ready to be trained."""
