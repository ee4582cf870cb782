"""The experiments of five papers, repeated on any trace.

==================  ================================================================================================
:mod:`.study`       what all experiments are given: the jobs, the machine, the seeds, the processes
:mod:`.trials`      many simulations of one study, on all processes, and their paired relative changes
:mod:`.figures`     the figures of one schedule that the papers use
:mod:`.accuracy`    how well estimates fit runtimes, by replay
:mod:`.tables`      results as tables: Markdown for people, plain values for programs
==================  ================================================================================================

One module is one paper: :mod:`.tang2013`, :mod:`.chlumsky2022`, :mod:`.fan2017`, :mod:`.rubio2021`, :mod:`.li2004`.
Each has a function ``repeat``, and the differences between its setting and ours.  Published figures are the only
constants, and each names its table or figure.  RESULTS.md holds what the commands printed, and what follows from it.
"""
