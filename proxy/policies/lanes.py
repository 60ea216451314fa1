"""From a profile's figures to the rules of the worker share; lanes in the order of `Lane` (behaviour.md §4.1). Pure."""

from typing import Final

from proxy.matrix.endpoint import Lane
from proxy.matrix.profiles import Figures, LaneFigures
from proxy.policies.worker_share import LaneRule, PoolRule

#: Other homeservers take a 429 for minutes, so they are not refused before their time in line is over (§4.5). A client's
#: connection has one request at a time, so connections bound the line.
_ENDLESS: Final = 1_000_000


def pool_rules(figures: Figures, *, history_per_account: int) -> list[PoolRule]:
    """Give one pool for the lanes that share workers, and one for each of the others."""
    rules = [_rule(lane, history_per_account) for lane in figures.lanes]
    shared = tuple(rule for rule, lane in zip(rules, figures.lanes, strict=True) if lane.in_pool)
    own = [
        PoolRule(rule.workers, (rule,))
        for rule, lane in zip(rules, figures.lanes, strict=True)
        if not lane.in_pool
    ]
    return [PoolRule(figures.lanes[Lane.REQUESTS].workers, shared), *own] if shared else own


def _rule(lane: LaneFigures, history_per_account: int) -> LaneRule:
    return LaneRule(
        name=lane.name,
        workers=lane.workers,
        share=lane.share,
        max_wait_s=lane.max_wait_s,
        line=_ENDLESS if lane.name == "federation" else lane.line,
        guaranteed=lane.guaranteed,
        history_per_flow=history_per_account,
    )
