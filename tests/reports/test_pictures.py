"""Pictures: matplotlib's SVG as a part of a page."""

import pytest

from softwalltime.reports.figures.picture import (
    INK,
    SERIES,
    annotate_bar,
    drawing,
    format_linear_time_axis,
    format_time_axis,
    make_embeddable,
    select_styles,
    wrap_label,
)

MINUS = "\N{MINUS SIGN}"


def drawn(name: str = "x") -> str:
    with drawing(2) as picture:
        picture.ax.plot([1, 86400], [1, 2], color=SERIES[3], marker="o", label="$10^{x}$ <&>")
        picture.ax.set_xscale("log")
        format_time_axis(picture.ax.xaxis, 1, 86400)
        annotate_bar(picture.ax, 1, 1, "計算")
        picture.legend()
        return picture.svg(name)


def test_a_picture_uses_the_pages_colors_and_font_and_unique_ids() -> None:
    svg = drawn("mine")
    assert svg.startswith("<svg ")
    assert svg.endswith("</svg>")
    assert "var(--s3)" in svg
    assert SERIES[3] not in svg
    assert INK not in svg
    assert "font-family" not in svg
    assert "<metadata" not in svg
    assert 'id="mine-axes_1"' in svg
    assert "url(#mine-" in svg
    assert "http" not in svg.replace("http://www.w3.org/2000/svg", "").replace("http://www.w3.org/1999/xlink", "")


def test_text_stays_text_and_is_escaped() -> None:
    svg = drawn()
    assert ">$10^{x}$ &lt;&amp;&gt;</text>" in svg
    assert ">計算</text>" in svg
    assert [label for label in ("1 s", "1 min", "10 min", "1 h", "1 d") if f">{label}</text>" not in svg] == []


@pytest.mark.parametrize("high", [1, 45, 3600, 12 * 3600, 1.9 * 86400, 40 * 86400, 3000 * 86400])
def test_a_linear_duration_axis_has_a_few_ticks_of_which_all_but_zero_have_a_unit(high: float) -> None:
    with drawing(2) as picture:
        picture.ax.set_xlim(0, high)
        format_linear_time_axis(picture.ax.xaxis, high)
        ticks = [tick for tick in picture.ax.xaxis.get_majorticklocs() if 0 <= tick <= high]
        labels = [picture.ax.xaxis.get_major_formatter()(tick) for tick in ticks]
    assert 2 <= len(ticks) <= 6
    assert labels[0] == "0"
    assert len(set(labels)) == len(labels)
    assert all(label.split()[1] in ("s", "min", "h", "d") for label in labels[1:])


def test_a_picture_is_reproducible() -> None:
    assert drawn() == drawn()


def test_an_axis_with_two_sides_has_0_in_the_middle() -> None:
    with drawing(2) as picture:
        picture.ax.plot([-90000, 90000], [0, 1])
        picture.ax.set_xscale("symlog", linthresh=60)
        format_time_axis(picture.ax.xaxis, -90000, 90000, signed=True)
        svg = picture.svg("x")
    assert [label for label in (f"{MINUS}1 d", f"{MINUS}1 h", "0", "1 h", "1 d") if f">{label}</text>" not in svg] == []


def test_other_svg_is_rejected() -> None:
    with pytest.raises(ValueError, match="not an SVG"):
        make_embeddable("<svg/>", "x")


def test_long_labels_are_wrapped_and_the_recommended_predictor_is_labelled() -> None:
    spec = "percentile:p=95,keys=user+project,window=30d"
    assert wrap_label(spec).splitlines() == ["percentile:p=95,", "keys=user+project,", "window=30d"]
    found = select_styles(["request", "v1", spec], spec)
    assert [found[name].label for name in ("request", "v1", spec)] == ["request", "v1", "recommended"]
    assert found["v1"].color != found["request"].color
