"""Names of the papers: help prints them without importing numpy."""

PAPERS = ("tang2013", "chlumsky2022", "fan2017", "rubio2021", "li2004")
"""The keys of :data:`softwalltime.experiments.papers.PAPERS`."""
