"""From a model to one number for each picture and caption."""
