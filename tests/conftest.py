"""What all tests share: fixtures by concern, in files of their own."""

pytest_plugins = ("tests.fix_postgres",)
