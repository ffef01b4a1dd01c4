"""Kinds of tables and figures beyond grids of accuracies: one module a kind, found by ``kind:`` of ``conf/table``.

Each has ``content(spec, protocol, source)``, a pure function of records (of graphs, for the tables about data). One
that can tell numbers of which less is better (errors) has ``TELLS_ERRORS``. One that is read from curves has
``CURVES``, the ``curves`` of a table that does not say them, and ``TRACED``, those of one whose ``options.curve`` names
what a method traces.
"""
