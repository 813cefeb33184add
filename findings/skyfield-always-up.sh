#!/usr/bin/env bash
# skyfield 1.55: a satellite that never leaves the sky has culminations, and neither rise nor set.
#
# One expects: a table of contacts by find_events has a rise and a set for each contact, or for a
# satellite that is in sight all day a contact from the beginning to the end.
# It happens: a geostationary satellite above its ground station gives "culminate" about twice a day, as
# its altitude swings by a hair, and nothing else. A low satellite that is up when the table begins gives
# "culminate" or "set" first. Whoever pairs rises with sets finds no contact of the first, and loses one
# of the second.
# Why it matters: availability of clients in orbit is made of such tables. The one client that could
# always take part would never do so. fedpace's passes takes a first event that is no rise as a contact
# under way, and culminations alone as one that never ends.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat > play.py <<'END'
from skyfield.api import EarthSatellite, load, wgs84

ts = load.timescale(builtin=True)
# Made elements: mean motions of 15.5 and of 1.0027 revolutions a day.
low = EarthSatellite(
    "1 25544U 98067A   24060.50000000  .00000000  00000-0  00000-0 0  9992",
    "2 25544  51.6400 208.0000 0005000  50.0000 310.0000 15.50000000    15", "low", ts)
high = EarthSatellite(
    "1 40267U 14058A   24060.50000000  .00000000  00000-0  00000-0 0  9999",
    "2 40267   0.0300  85.0000 0002000 100.0000 170.0000  1.00270000    11", "high", ts)


def events(satellite, place, begin, end):
    """The kinds of events of a satellite above ten degrees: 0 rise, 1 culminate, 2 set."""
    return [int(e) for e in satellite.find_events(place, begin, end, altitude_degrees=10.0)[1]]


day = ts.utc(2024, 3, 1), ts.utc(2024, 3, 2)
below = wgs84.latlon(0.0, wgs84.subpoint(high.at(day[0])).longitude.degrees)
always = events(high, below, *day)
print("geostationary, a day:", always)
berlin = wgs84.latlon(52.5, 13.4)
times, kinds = low.find_events(berlin, *day, altitude_degrees=10.0)
rise = next(t for t, kind in zip(times, kinds) if kind == 0)
cut = events(low, berlin, ts.tt_jd(rise.tt + 60 / 86400), day[1])
print("low, from a minute after a rise on:", cut[:4])
assert always and set(always) == {1}, "a geostationary satellite has other events"
assert cut[0] != 0, "the contact under way begins with a rise"
END
uv run --quiet --no-project --python 3.11 --with skyfield==1.55 python play.py
