"""Which of several controllers leads a switch."""

from __future__ import annotations

from dataclasses import dataclass, field

from datacast.controller.openflow.messages import AskRole, FlowAdd, FlowDelete, Message, ReadRules
from datacast.controller.openflow.roles import ANSWER_S, LEASE_S, LOOK_S, RENEW_S, Roles


@dataclass
class Switch:
    """Knows what a switch knows of roles: its master, the last generation, rules that end."""

    master: str = ""
    generation: int = (1 << 64) - 1
    leases: dict[int, float] = field(default_factory=dict)
    told: dict[str, Roles] = field(default_factory=dict)

    def say(self, now: float, who: str, messages: list[Message]) -> None:
        for message in messages:
            self.take(now, who, message)

    def take(self, now: float, who: str, message: Message) -> None:
        roles, known = self.told[who], self.generation != (1 << 64) - 1
        if isinstance(message, AskRole):
            if message.master and known and message.generation < self.generation:
                roles.refused(now, "s")
                return
            if message.master:
                self.master, self.generation = who, message.generation
            self.say(now, who, roles.told(now, "s", self.master == who, self.generation))
        elif isinstance(message, ReadRules):
            there = [cookie for cookie, end in self.leases.items() if end > now]
            self.say(now, who, roles.rules(now, int(now * 1e9), "s", there))
        elif self.master and self.master != who:
            roles.refused(now, "s")
        elif isinstance(message, FlowAdd):
            self.leases = {message.cookie: now + message.ends_s}
        elif isinstance(message, FlowDelete):
            self.leases.pop(message.cookie, None)

    def leaders(self) -> list[str]:
        return [name for name, roles in self.told.items() if roles.leads("s")]

    def until(self, start: float, end: float, alive: tuple[str, ...]) -> None:
        for tick in range(int(start * 10), int(end * 10)):
            for who in alive:
                for _, messages in self.told[who].tick(tick / 10):
                    self.say(tick / 10, who, messages)


def two() -> Switch:
    switch = Switch()
    for who in ("a", "b"):
        switch.told[who] = Roles(who)
        switch.say(1.0, who, switch.told[who].connected(1.0, "s", who))
    return switch


def test_the_first_leads_and_the_other_waits_for_as_long_as_it_lives() -> None:
    switch = two()
    assert switch.leaders() == ["a"]
    switch.until(1.0, 60.0, ("a", "b"))
    assert switch.leaders() == ["a"] and switch.master == "a"


def test_when_the_leader_dies_the_other_leads_after_its_lease() -> None:
    switch = two()
    switch.until(1.0, 5.0, ("a", "b"))
    switch.until(5.0, 5.0 + LEASE_S - 1.2, ("b",))
    assert switch.master == "a", "it may only be slow"
    switch.until(5.0 + LEASE_S - 1.2, 5.0 + LEASE_S + 0.6, ("b",))
    assert switch.master == "b" and switch.told["b"].leads("s")


def test_a_leader_that_stood_still_is_refused_and_waits() -> None:
    switch = two()
    switch.until(1.0, 5.0, ("a", "b"))
    switch.until(5.0, 12.0, ("b",))
    switch.until(12.0, 20.0, ("a", "b"))
    assert switch.leaders() == ["b"] and switch.master == "b"


def test_one_that_is_told_to_stop_gives_way_at_once() -> None:
    switch = two()
    switch.until(1.0, 5.0, ("a", "b"))
    for _, messages in switch.told["a"].resign():
        switch.say(5.0, "a", messages)
    switch.until(5.0, 5.7, ("b",))
    assert switch.master == "b"


def test_one_that_starts_again_goes_on_with_its_own_lease() -> None:
    switch = two()
    switch.until(1.0, 5.0, ("a", "b"))
    switch.told["a"] = Roles("a")
    switch.say(5.0, "a", switch.told["a"].connected(5.0, "s", "again"))
    assert switch.leaders() == ["a"]


def test_a_clock_that_is_behind_loses_nothing() -> None:
    switch = two()
    switch.generation, switch.master, switch.leases = 1 << 62, "gone", {}
    switch.told["b"].disconnected("s", "b")
    switch.told["a"].seats["s"].state = "waiting"
    switch.until(9.0, 13.0, ("a",))
    assert switch.master == "a" and switch.generation == (1 << 62) + 1


def test_an_answer_that_does_not_come_is_asked_for_again_after_a_while_whatever_the_question() -> None:
    roles = Roles("a")
    asks = [AskRole(), ReadRules()]
    assert roles.connected(10.0, "s", "c") == asks and roles.tick(10.0 + ANSWER_S - 0.1) == []
    assert roles.tick(10.0 + ANSWER_S) == [("s", asks)]
    assert roles.tick(10.0 + ANSWER_S + 0.1) == [], "it has just asked"
    now = 10.0 + 2 * ANSWER_S
    assert roles.rules(now, 7, "s", ()) == [AskRole(master=True, generation=7)], "nobody else is there"
    assert roles.rules(now, 8, "s", ()) == [], "it has claimed"
    assert roles.tick(now + ANSWER_S - 0.1) == [] and roles.tick(now + ANSWER_S) == [("s", asks)]
    assert roles.rules(now + ANSWER_S, 9, "s", ()) == [AskRole(master=True, generation=9)], "and claims again"


def test_who_leads_renews_its_lease_and_one_that_is_refused_looks_again_soon() -> None:
    roles = Roles("a")
    roles.connected(10.0, "s", "c")
    roles.rules(10.0, 7, "s", ())
    (lease,) = roles.told(10.0, "s", True, 7)
    assert isinstance(lease, FlowAdd) and lease.ends_s == LEASE_S and roles.told(10.1, "s", True, 7) == []
    assert roles.tick(10.0 + RENEW_S - 0.1) == [] and roles.tick(10.0 + RENEW_S) == [("s", [lease])]
    assert roles.refused(12.0, "s"), "it led"
    assert not roles.refused(12.1, "s") and not roles.leads("s")
    assert roles.tick(12.0 + LOOK_S - 0.1) == [] and roles.tick(12.0 + LOOK_S) == [("s", [AskRole(), ReadRules()])]


def test_what_comes_of_a_switch_that_nobody_knows_or_of_a_connection_before_changes_nothing() -> None:
    roles = Roles("a")
    assert roles.rules(1.0, 7, "s", ()) == roles.told(1.0, "s", True, 7) == [] and not roles.refused(1.0, "s")
    roles.disconnected("s", "c")
    roles.connected(1.0, "s", "first")
    roles.connected(2.0, "s", "second")
    roles.disconnected("s", "first")
    assert roles.seats["s"].connection == "second" and not roles.refused(2.0, "s"), "it has not led"
    roles.disconnected("s", "second")
    assert not roles.seats and not roles.leads("s")
