"""What deploy/SECURITY.md says of gaming is what comes out."""

import pytest

from tests.benchmarks.bench_gaming import HONEST, OTHER, gamed, main
from tests.samples import ROOT


def test_the_table_is_what_the_benchmark_prints(capsys: pytest.CaptureFixture[str]) -> None:
    main()
    assert capsys.readouterr().out.strip() in (ROOT / "deploy" / "SECURITY.md").read_text()


def test_the_setting_that_stops_it_does() -> None:
    assert gamed("percentile:threshold=0.5").minutes is None
    assert gamed("percentile:threshold=0.5", OTHER).minutes is None
    # With 85 of 100 the fakes must outnumber the honest jobs by more than five to one, whatever walltime they ask for.
    for walltime in (24 * 3600, OTHER):
        half = gamed("percentile:keys=user+project", walltime).half
        assert half is not None
        assert half > 5 * HONEST
