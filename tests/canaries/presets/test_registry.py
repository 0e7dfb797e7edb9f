"""What presets are asked for."""

from leakage_tasks.canaries.presets.registry import PresetRequest


def test_a_request_has_values_by_their_old_name() -> None:
    request = PresetRequest("pins", {}, {}, settings={"digits": 6})
    assert request.values == request.settings == {"digits": 6}
