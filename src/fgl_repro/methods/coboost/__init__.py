from fgl_repro.methods.coboost.method import CoBoost

__all__ = ["CoBoost"]
