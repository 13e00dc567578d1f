"""The built-in synthetic world: scenes, images, and captions whose truth is computed."""
