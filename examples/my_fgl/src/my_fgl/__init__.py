"""One of everything that can be added to fgl_repro. Nothing is imported here: configurations are made without torch."""
