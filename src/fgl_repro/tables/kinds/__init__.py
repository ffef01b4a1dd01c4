"""Kinds of tables and figures beyond grids of accuracies: one module a kind, found by ``kind:`` of ``conf/table``.

Each has ``content(spec, protocol, source)``, a pure function of records (of graphs, for the tables about data). One
that can tell numbers of which less is better (errors) has ``TELLS_ERRORS``.
"""
