"""The experiments of five papers, repeated on any trace.

One module is one paper: :mod:`.tang2013`, :mod:`.chlumsky2022`, :mod:`.fan2017`, :mod:`.rubio2021`, :mod:`.li2004`.
Each has a function ``repeat``, which returns the columns and rows of tables, and a TOML file beside it with what the
paper says: titles, published values, differences of the setting, claims.  A further table is a function and an entry in
that file.  ``softwalltime experiment all`` writes RESULTS.md.
"""
