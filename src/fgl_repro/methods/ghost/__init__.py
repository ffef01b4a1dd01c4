from fgl_repro.methods.ghost.method import Ghost

__all__ = ["Ghost"]
