"""fgl_repro: a reference harness that regenerates the tables of federated graph learning papers."""

__version__ = "0.1.0"
