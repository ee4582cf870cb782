"""The experiments of five papers, repeated on any trace.

One module is one paper: :mod:`.tang2013`, :mod:`.chlumsky2022`, :mod:`.fan2017`, :mod:`.rubio2021`, :mod:`.li2004`.
Each has a function ``repeat``, and the differences between its setting and ours.  Published values name their table or
figure.  RESULTS.md has the output of the commands, and conclusions.
"""
