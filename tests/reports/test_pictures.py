"""Pictures: matplotlib's SVG as a part of a page."""

import pytest

from softwalltime.reports.drawings import INK, SERIES, drawing, make_embeddable, wrap_label


def drawn(name: str = "x") -> str:
    with drawing(2) as picture:
        picture.ax.plot([1, 86400], [1, 2], color=SERIES[3], marker="o", label="$10^{x}$ <&>")
        picture.ax.set_title("計算")
        picture.legend(3)
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


def test_a_picture_is_reproducible() -> None:
    assert drawn() == drawn()


def test_other_svg_is_rejected() -> None:
    with pytest.raises(ValueError, match="not an SVG"):
        make_embeddable("<svg/>", "x")


def test_long_labels_are_wrapped() -> None:
    spec = "percentile:p=95,keys=user+project,window=30d"
    assert wrap_label(spec).splitlines() == ["percentile:p=95,", "keys=user+project,", "window=30d"]
