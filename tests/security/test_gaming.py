"""The figures on gaming in deploy/SECURITY.md are the benchmark's."""

import pytest

from tests.benchmarks.bench_gaming import HONEST, OTHER, gamed, main
from tests.samples import ROOT


def test_the_table_equals_the_output_of_the_benchmark(capsys: pytest.CaptureFixture[str]) -> None:
    main()
    assert capsys.readouterr().out.strip() in (ROOT / "deploy" / "SECURITY.md").read_text()


def test_the_recommended_setting_prevents_gaming() -> None:
    assert gamed("percentile:threshold=0.5").minutes is None
    assert gamed("percentile:threshold=0.5", OTHER).minutes is None
    # At the 85th percentile more than five forged jobs are needed for each honest job, for any requested walltime.
    for walltime in (24 * 3600, OTHER):
        half = gamed("percentile:keys=user+project", walltime).half
        assert half is not None
        assert half > 5 * HONEST
