from fgl_repro.methods.dense.method import Dense

__all__ = ["Dense"]
