"""Plots that studies of several papers share."""

from leakage_tasks.research.framework import plots as study_plots
from leakage_tasks.research.framework.plots import plot_groups, plotter
from leakage_tasks.research.framework.report import Measured, Report

GROUPS = {"1": {"one": (3.0, 1.0, 9.0), "other": None}, "10": {"one": (0.0, 0.0, 0.0), "other": (40.0, 30.0, 60.0)}}


def test_the_picture_depends_on_the_values(tmp_path):
    moved = {**GROUPS, "1": {"one": (4.0, 1.0, 9.0), "other": None}}
    for name, groups in (("one", GROUPS), ("again", GROUPS), ("other", moved)):
        plot_groups(groups, "place", tmp_path / name)
    one, again, other = ((tmp_path / name).read_bytes() for name in ("one", "again", "other"))
    assert one == again != other


def test_a_report_s_rows_are_groups_each_with_its_chance(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(study_plots, "save", lambda figure, path: drawn.append(figure.axes[0]))
    rows = [{"size": size, "HDT": Measured(0.3, 0.1, 0.5, 4), "chance": by} for size, by in ((10, 0.9), (1000, 0.99))]
    plot = plotter("{size:,}".format_map, {"one": "HDT"}, "share", chance="chance")
    plot(Report(["size", "HDT", "chance"], rows), tmp_path / "figure.png")
    assert [label.get_text() for label in drawn[0].get_xticklabels()] == ["10", "1,000"]
    (levels,) = [each for each in drawn[0].collections if each.get_label() == "chance"]
    assert [segment.tolist() for segment in levels.get_segments()] == [
        [[-0.4, 0.9], [0.4, 0.9]],
        [[0.6, 0.99], [1.4, 0.99]],
    ]


def test_shares_stand_on_an_axis_from_0_to_1_with_a_line_at_chance(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(study_plots, "save", lambda figure, path: drawn.append(figure.axes[0]))
    plot_groups({"1": {"one": (0.3, 0.1, 0.5)}}, "share", tmp_path / "figure.png", chance=0.9)
    assert (drawn[0].get_ylim(), drawn[0].get_yscale()) == ((0.0, 1.0), "linear")
    assert [list(line.get_ydata()) for line in drawn[0].lines if line.get_label() == "chance"] == [[0.9, 0.9]]
