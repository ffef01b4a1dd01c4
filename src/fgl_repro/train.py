"""The entry point of a run: resolve, look the key up, run what is missing, record, show.

``python -m fgl_repro.train method=fedpub dataset=cora partitioner.clients=10 setting=unseen_node seed=0``
"""

from fgl_repro.cli.start import train as main

__all__ = ["main"]

if __name__ == "__main__":
    main()
