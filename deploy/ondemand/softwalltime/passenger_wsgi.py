"""The pages of softwalltime web in Open OnDemand, which starts this file as the user: the kernel names him."""

from softwalltime.cli.web_pages import make_app

application = make_app(None)
