"""The tables of docs/adr/0010-order-of-dispatch.md, in virtual time: `python -m benchmarks.dispatch_table`."""

from proxy.simulation.clients import Client
from proxy.simulation.scenarios import HONEST, ROWS, Scenario, control, greedy_clients, ours, play
from proxy.simulation.simulator import Scheduler


def waits_ms(scenario: Scenario, scheduler: Scheduler, unit_s: float = 1e-3) -> str:
    """Give p50/p99/max of honest waits, and what was not served."""
    outcome = play(scenario, scheduler).outcomes[HONEST]
    waits = outcome.waits
    if not waits.count:
        return "nobody served"
    figures = (waits.quantile_s(0.5), waits.quantile_s(0.99), waits.longest_s)
    unserved = f", {outcome.expired + outcome.refused} refused" if outcome.expired + outcome.refused else ""
    digits = 0 if unit_s == 1e-3 else 2
    return "/".join(f"{figure / unit_s:.{digits}f}" for figure in figures) + f" of {waits.count}" + unserved


def main() -> None:
    """Print both."""
    print("| attackers | share and oldest first | ours |\n|---|---|---|")
    for row in ROWS:
        print(f"| {row.name} | {waits_ms(row, control())} | {waits_ms(row, ours())} |", flush=True)
    print("\n| greedy clients, 64 outstanding, exponential | share and oldest first | ours |\n|---|---|---|")
    for count in (3, 4, 8, 15, 16, 32, 64):
        victim = Client(HONEST, "@h", "h", 0.1, rate_per_s=2.0, exponential=True, starts_at=5.0)
        row = Scenario(
            str(count), (victim, *greedy_clients(count, 64, 0.1, exponential=True, ramp_s=0.0)), 200.0
        )
        forever = float("inf")
        oldest = waits_ms(row, control(max_wait_s=forever), 0.1)
        print(f"| {count} | {oldest} | {waits_ms(row, ours(max_wait_s=forever), 0.1)} |", flush=True)


if __name__ == "__main__":
    main()
