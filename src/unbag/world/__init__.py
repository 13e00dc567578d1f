"""The built-in synthetic world: scenes, drawings, captions whose truth is computed."""
