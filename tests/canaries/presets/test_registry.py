"""Requests of presets."""

from leakage_tasks.canaries import Canary, make_canaries
from leakage_tasks.canaries.cli_options import requested
from leakage_tasks.canaries.generation_modes import CanaryOptions
from leakage_tasks.canaries.presets.registry import PRESETS, PresetRequest, register_preset
from leakage_tasks.core.option import Option


def test_a_request_has_values_by_their_old_name() -> None:
    request = PresetRequest("pins", {}, {}, settings={"digits": 6})
    assert request.values == request.settings == {"digits": 6}


def test_a_preset_takes_options_by_their_old_names() -> None:
    @register_preset("old-names", "doubled", "only", settings=[Option("digits", int, 4, "digits")])
    def preset(request: PresetRequest) -> list[Canary]:
        seen.update({name: request.given[name] for name in ("doubled", "conjoin", "only", "targets")})
        return make_canaries(f"pin {{digits:{request.settings['digits']}}}", 1)

    seen: dict[str, object] = {}
    try:
        assert PRESETS["old-names"].takes == {"conjoin", "targets"}
        request = CanaryOptions(preset="old-names", doubled=True, only="a", settings=["digits=6"])
        assert request == CanaryOptions(
            preset="old-names", conjoin=True, targets="a", settings=["digits=6"], seed=request.seed
        )
        (canary,) = requested(request)
    finally:
        del PRESETS._items["old-names"]
    assert len("".join(canary.secret)) == 6
    assert seen == {"doubled": True, "conjoin": True, "only": "a", "targets": "a"}
