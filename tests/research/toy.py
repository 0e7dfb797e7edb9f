"""A study of a coin, small enough to see through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from leakage_tasks.core.atomic import replacing
from leakage_tasks.research.framework.registry import Config, Result, Scale, Study, StudyPlan, StudyTrial
from leakage_tasks.research.framework.report import Claim, Measured, Published, Report


@dataclass
class Toy:
    """Counts its trials; ``stop_after`` raises Ctrl-C instead of the trial after so many."""

    ran: list[Config] = field(default_factory=list)
    stop_after: int | None = None

    def trials(self, plan: StudyPlan) -> list[Config]:
        return [{"coin": coin, "seed": seed} for coin in (0, 1) for seed in plan.seeds(usual=3)]

    def run(self, config: Config, shared: Path) -> Result:
        if len(self.ran) == self.stop_after:
            raise KeyboardInterrupt
        self.ran.append(config)
        mould = shared / "mould.txt"
        if not mould.exists():
            with replacing(mould) as beside:
                beside.write_text("cast")
        return {"hit": config["coin"], "pair": (config["seed"], mould.read_text())}

    def report(self, trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
        rows = []
        for coin, published in ((0, 0.25), (1, None)):
            hits = [trial.result["hit"] for trial in trials if trial.config["coin"] == coin]
            rows.append(
                {"coin": f"no {coin}", "paper": Published(published), "ours": Measured.rate(sum(hits), len(hits))}
            )
        claims = [Claim("coin 1 always hits", True, "3 of 3"), Claim("coin 0 hits", False, "0 of 3")]
        return Report(["coin", "paper", "ours"], rows, claims, ["coins instead of models"])


def draw(report: Report, path: Path) -> None:
    path.write_bytes(b"\x89PNG" + str(len(report.rows)).encode())


def make_study(toy: Toy, name: str = "coins/table-1") -> Study:
    scales: dict[Scale, str] = {"smoke": "no time", "paper": "a mint"}
    return Study(name, "Two coins", "Coins, Table 1", scales, toy.trials, toy.run, toy.report, draw)
