"""Plots of suffix extraction."""

from leakage_tasks.research.ethicist.figures import plot_lines

PANELS = {
    what: {"one": [(10, 0.1, 0.01), (50, 0.4, 0.02)], "other": [(10, 0.2, 0.0), (50, 0.5, 0.0)]}
    for what in ("recall", "early stop")
}


def test_the_picture_depends_on_the_values(tmp_path):
    moved = {**PANELS, "recall": {"one": [(10, 0.3, 0.01), (50, 0.4, 0.02)]}}
    for name, panels in (("one", PANELS), ("again", PANELS), ("other", moved)):
        plot_lines(panels, "tokens", tmp_path / name)
    one, again, other = ((tmp_path / name).read_bytes() for name in ("one", "again", "other"))
    assert one == again != other


def test_places_may_be_names(tmp_path):
    plot_lines({"recall": {"one": [("3 × 128", 0.1, 0.0), ("3 × 192", 0.4, 0.0)]}}, "model", tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 1000
